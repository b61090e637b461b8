r"""Progress of reading and downloading data, on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress as Bars
from rich.progress import TaskID

from meanmax.data.progress import Progress


@contextmanager
def data_bars() -> Iterator[Progress]:
    r"""A progress bar on stderr for each thing that is reported on."""
    console = Console(stderr=True)
    with Bars(console=console, transient=True, disable=not console.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(escape(what), total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield progress
