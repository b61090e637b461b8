r"""Progress of one training on stderr: a bar on a terminal, some lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars

from meanmax.data.files import Progress as Report
from meanmax.study.runs.plan import Task
from meanmax.study.runs.row import Row
from meanmax.study.runs.run_missing import Workers, run_missing
from meanmax.study.store.store import Store
from meanmax.train import History
from meanmax.train.loop import OnEpoch


@contextmanager
def epoch_bar(epochs: int) -> Iterator[OnEpoch]:
    r"""Yields what is to be called after each epoch.

    Args:
        epochs (int): The most epochs.
    """
    console = Console(stderr=True, highlight=False)
    with Progress(
        TextColumn("epoch"),
        MofNCompleteColumn(),
        BarColumn(20),
        TextColumn("{task.description}", markup=False),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bars:
        task = bars.add_task("", total=epochs)

        def on_epoch(epoch: int, history: History) -> None:
            if console.is_terminal:
                bars.update(task, completed=epoch + 1, description=told(history))
            elif (epoch + 1) % max(1, epochs // 10) == 0:
                console.print(f"epoch {epoch + 1}/{epochs}: {told(history)}", markup=False)

        yield on_epoch


def told(history: History) -> str:
    r"""The last epoch in a line.

    Example:
        >>> told(History([0.5], [0.7], [0.8125], {"layers.0.gamma": [[1.25]]}))
        'loss 0.500, validation 81.2 %, gamma 1.250'
    """
    found = [f"loss {history.train_loss[-1]:.3f}"]
    if history.val_score:
        found.append(f"validation {100 * history.val_score[-1]:.1f} %")
    found += learned_texts({name: values[-1] for name, values in history.learned.items()})
    return ", ".join(found)


def learned_texts(learned: Mapping[str, Sequence[float]]) -> list[str]:
    r"""Aggregators' parameters in words: one text for each kind, with a value for each layer, the
    mean where a layer has several.

    Example:
        >>> learned_texts({"layers.0.p": [1.5], "layers.1.p": [1.0, 3.0]})
        ['p 1.500 and 2.000 (mean of 2)']
    """
    kinds: dict[str, list[str]] = {}
    for name, values in learned.items():
        mean = sum(values) / len(values)
        several = f" (mean of {len(values)})" if len(values) > 1 else ""
        kinds.setdefault(name.rpartition(".")[2], []).append(f"{mean:.3f}{several}")
    return [f"{kind} {' and '.join(texts)}" for kind, texts in kinds.items()]


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


def filled(
    folder: Path,
    tasks: Sequence[Task],
    workers: Workers,
    *,
    retry_failed: bool,
    artefacts: bool = False,
    score: str = "test",
) -> list[Row]:
    r"""Makes the runs that a folder does not have yet; the rows of all of them.

    Args:
        folder (Path): The folder of the store.
        tasks (sequence): The runs.
        workers (Workers): Who makes them.
        retry_failed (bool): Whether runs that failed are made again.
        artefacts (bool, optional): Whether runs are made again of which the row is there and the
            artefact is not. (default: :obj:`False`)
        score (str, optional): Whose score is told of each run: that of :obj:`"test"` or of
            :obj:`"val"` nodes. (default: :obj:`"test"`)
    """
    store = Store(folder)
    keys = {task.spec.key for task in tasks}
    try:
        done = store.finished(failed=not retry_failed, artefacts=artefacts) & keys
        with run_bar(len(keys), len(done), score) as on_row:
            run_missing(
                store,
                tasks,
                workers,
                retry_failed=retry_failed,
                artefacts=artefacts,
                on_row=on_row,
            )
    finally:
        store.close()
    return [row for row in store.rows() if row.key in keys]


@contextmanager
def data_bars() -> Iterator[Report]:
    r"""A progress bar on stderr for each thing that is reported on."""
    console = Console(stderr=True)
    with Bars(console=console, transient=True, disable=not console.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(escape(what), total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield progress
