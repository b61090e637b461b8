r"""Turns whatever goes wrong inside a parser into the one clear error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from meanmax.data.errors import DataError


@contextmanager
def refusing(what: str, advice: str = "get the file again") -> Iterator[None]:
    r"""Raises :class:`DataError` for every exception of the block, so that broken or hostile
    content ends in one kind of error, whichever library stumbles over it.

    Args:
        what (str): What is being read, such as a file's name.
        advice (str, optional): What to do about it.
    """
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(f"'{what}' cannot be read ({reason}); {advice}") from error
