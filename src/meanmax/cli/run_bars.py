r"""Progress of tables on stderr: a bar on a terminal, a line for each run elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from meanmax.study.runs.row import Row


@contextmanager
def run_bar(total: int, done: int, score: str = "test") -> Iterator[Callable[[Row], None]]:
    r"""Yields what is to be called with each row.

    Args:
        total (int): All runs of the table.
        done (int): Those that are there already.
        score (str, optional): Whose score is told. (default: :obj:`"test"`)
    """
    console = Console(stderr=True, highlight=False)
    start, made = time.monotonic(), 0
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bars:
        task = bars.add_task("runs", total=total, completed=done)

        def on_row(row: Row) -> None:
            nonlocal made
            made += 1
            told = _told(row, score)
            bars.update(task, advance=1, description=escape(told))
            if not console.is_terminal:
                left = (time.monotonic() - start) / made * (total - done - made)
                console.print(f"[{done + made}/{total}] {told}, {_clock(left)} left", markup=False)
            elif row.status != "ok":
                console.print(f"{told}: {row.error}", markup=False)

        yield on_row


def _told(row: Row, score: str) -> str:
    what = f"{row.backbone}+{row.aggr} on {row.data}, split {row.split_seed}"
    if row.status != "ok":
        return f"{what}: {row.status}"
    return f"{what}: {score} {row.metrics[f'{score}_score']:.2f} % in {row.seconds:.1f} s"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
