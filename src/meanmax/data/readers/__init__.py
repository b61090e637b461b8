r"""A person's own graph, from tables, archives and files of other programs."""

from meanmax.data.readers.problems import OwnDataError, Problem
from meanmax.data.readers.read import check, read_and_check, read_own

__all__ = ["OwnDataError", "Problem", "check", "read_and_check", "read_own"]
