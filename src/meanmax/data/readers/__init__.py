r"""Readers of a user's own graph: tables, arrays and files of other programs."""

from meanmax.data.readers.problems import DataProblem, OwnDataError
from meanmax.data.readers.read import check, read_and_check, read_own

__all__ = ["DataProblem", "OwnDataError", "check", "read_and_check", "read_own"]
