r"""How long work tells how far it has come."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, int, int | None], None]
r"""Called as :obj:`progress(what, done, total)`, for example with the name of a file and its bytes;
:obj:`total` is :obj:`None` where it is not known. The last call for a thing has
:obj:`done == total`."""


def report(progress: Progress | None, what: str, done: int, total: int | None) -> None:
    r"""Calls :obj:`progress` if there is one."""
    if progress is not None:
        progress(what, done, total)
