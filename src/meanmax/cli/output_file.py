r"""Whether a result can be written where it is asked for, known before the work is done."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

force = click.option("--force", is_flag=True, help="Overwrite the file of --out if it is there.")


def check_output(path: Path, *, overwrite: bool, suffixes: Sequence[str] = ()) -> None:
    r"""A :class:`click.ClickException` that says what to do, unless the file can be written.

    Args:
        path (Path): The file.
        overwrite (bool): Whether it may be there already.
        suffixes (sequence, optional): What its name may end with; empty for anything.
    """
    problem = _problem(path, overwrite, suffixes)
    if problem is not None:
        raise click.ClickException(problem)


def _problem(path: Path, overwrite: bool, suffixes: Sequence[str]) -> str | None:
    if suffixes and path.suffix.lower() not in suffixes:
        listed = " or ".join(suffixes)
        return f"the name of --out must end with {listed} (got '{path}')"
    if path.is_dir():
        return f"'{path}' is a folder: give --out the name of a file"
    if not path.parent.is_dir():
        return f"there is no folder '{path.parent}': make it, or choose another --out"
    if path.exists() and not overwrite:
        return f"'{path}' is there already: choose another --out, or give --force to overwrite it"
    if not os.access(path.parent, os.W_OK):
        return f"the folder '{path.parent}' cannot be written to: choose another --out"
    return None
