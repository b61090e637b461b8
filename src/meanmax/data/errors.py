r"""The error of everything that reads data."""

from __future__ import annotations


class DataError(ValueError):
    r"""Data that is missing, broken or not what it claims to be.

    The message names the file or argument, what was got, what is expected and what to do next.
    Readers raise nothing else for bad content, so that a caller can catch this alone.
    """
