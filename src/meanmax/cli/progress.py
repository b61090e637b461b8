r"""Progress on stderr: bars on a terminal, a few lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from meanmax.data.files import Progress as DataProgress
from meanmax.names import METRICS
from meanmax.study.runs.plan import Plan, Task, check_methods, check_splits, reference
from meanmax.study.runs.row import Row
from meanmax.study.runs.run_missing import Workers
from meanmax.study.runs.run_missing import run_missing as make_runs
from meanmax.study.settings.settings import fitting_name
from meanmax.study.stats.cells import shown_metric
from meanmax.study.store.store import Store

if TYPE_CHECKING:
    from meanmax.data import Dataset
    from meanmax.train import History
    from meanmax.train.loop import OnEpoch


def load_dataset(source: str, data_dir: Path | None = None, **own: Any) -> Dataset:
    r"""Loads a data set under progress bars; :obj:`own` are the options for one's own graph."""
    from meanmax.data import load

    with data_bars() as progress:
        return load(source, data_dir=data_dir, progress=progress, **own)


def load_planned(
    source: str,
    data_dir: Path | None,
    *,
    backbone: str,
    aggrs: Sequence[str],
    splits: int,
    settings_name: str,
    scheme: str | None,
    overrides: Mapping[str, Any],
    **own: Any,
) -> tuple[Dataset, Plan]:
    r"""Loads a data set under progress bars, and plans the runs of a backbone on it; :obj:`own` are
    the options for one's own graph.
    """
    dataset, data = load_dataset(source, data_dir, **own), reference(source, data_dir, **own)
    name = fitting_name(settings_name, dataset.level)
    return dataset, Plan(data, [backbone], aggrs, range(splits), name, scheme, overrides)


def checked_tasks(plan: Plan, dataset: Dataset) -> list[Task]:
    r"""The runs of a plan, once their splits and methods are known to be possible."""
    tasks = plan.tasks(dataset)
    check_splits(tasks, dataset)
    check_methods(tasks, dataset)
    return tasks


@contextmanager
def data_bars() -> Iterator[DataProgress]:
    r"""A progress bar for each file or step that is reported."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(escape(what), total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield progress


@contextmanager
def epoch_bar(epochs: int, metric: str = "accuracy", *, shown: bool = True) -> Iterator[OnEpoch]:
    r"""Yields a function to call after each epoch, out of at most :obj:`epochs`; it does nothing
    unless :obj:`shown`. The metric is that of the scores.
    """
    if not shown:
        yield lambda epoch, history: None
        return
    text = TextColumn("{task.description}", markup=False)
    with _bars(TextColumn("epoch"), MofNCompleteColumn(), BarColumn(20), text) as (console, bars):
        task = bars.add_task("", total=epochs)

        def on_epoch(epoch: int, history: History) -> None:
            if console.is_terminal:
                bars.update(task, completed=epoch + 1, description=epoch_summary(history, metric))
            elif (epoch + 1) % max(1, epochs // 10) == 0:
                summary = epoch_summary(history, metric)
                console.print(f"epoch {epoch + 1}/{epochs}: {summary}", markup=False)

        yield on_epoch


def epoch_summary(history: History, metric: str = "accuracy") -> str:
    r"""The last epoch in a line.

    Example:
        >>> from meanmax.train import History
        >>> epoch_summary(History([0.5], [0.7], [0.8125], {"layers.0.gamma": [[1.25]]}))
        'loss 0.500, validation 81.2 %, gamma 1.250'
        >>> epoch_summary(History([0.5], [0.7], [0.8125]), "r2")
        'loss 0.500, validation R² 0.8125'
    """
    found = [f"loss {history.train_loss[-1]:.3f}"]
    if history.val_score:
        score, kind = history.val_score[-1], METRICS[metric]
        found.append(f"validation {kind.text(100 * score if kind.percent else score, 1)}")
    found += learned_texts({name: values[-1] for name, values in history.learned.items()})
    return ", ".join(found)


def learned_texts(learned: Mapping[str, Sequence[float]]) -> list[str]:
    r"""One text for each kind of parameter, with a value for each layer: its mean and its range
    over heads or channels. That of the readout stands apart.

    Example:
        >>> learned_texts({"layers.0.p": [1.5], "layers.1.p": [1.0, 3.0], "readout.p": [1.25]})
        ['p 1.500 and 2.000 (1.000–3.000)', 'readout p 1.250']
    """
    kinds: dict[str, list[str]] = {}
    for name, values in learned.items():
        mean, low, high = sum(values) / len(values), min(values), max(values)
        spread = "" if high - low < 0.0005 else f" ({low:.3f}–{high:.3f})"
        place = "readout " if name.startswith("readout.") else ""
        kinds.setdefault(place + name.rpartition(".")[2], []).append(f"{mean:.3f}{spread}")
    return [f"{kind} {' and '.join(texts)}" for kind, texts in kinds.items()]


def run_missing(
    folder: Path,
    tasks: Sequence[Task],
    workers: Workers,
    *,
    retry_failed: bool,
    artefacts: bool = False,
    durable: bool = True,
    bar: SearchBar | None = None,
) -> list[Row]:
    r"""Makes the runs that a folder lacks, under a progress bar, and returns the rows of all tasks.

    :obj:`artefacts`: whether to repeat runs that are stored without their artefact.
    :obj:`durable`: see :class:`Store`. :obj:`bar`: one that shows several such calls together.
    """
    store = Store(folder, durable=durable)
    again: dict[str, Any] = {"retry_failed": retry_failed, "artefacts": artefacts}
    keys = {task.spec.key for task in tasks}
    try:
        done = store.finished(failed=not retry_failed, artefacts=artefacts) & keys
        if bar is not None:
            make_runs(store, tasks, workers, **again, on_row=bar.stage(tasks, done))
            bar.end_stage()
        else:
            with run_bar(len(keys), len(done)) as on_row:
                make_runs(store, tasks, workers, **again, on_row=on_row)
    finally:
        store.close()
    return [row for row in store.rows() if row.key in keys]


class SearchBar:
    r"""One bar over all rounds of a search and the runs after it, measured in epochs."""

    def __init__(self, console: Console, bars: Progress, epochs: int) -> None:
        self._console, self._bars = console, bars
        self._task = bars.add_task("search", total=epochs)
        self._done, self._total, self._start = 0.0, float(epochs), time.monotonic()
        self._stored = self._said = 0.0
        self._title, self._left = "search", 0.0

    def title(self, text: str) -> None:
        r"""Names what runs next."""
        self._title = text
        self._bars.update(self._task, description=escape(text))

    def stage(self, tasks: Sequence[Task], done: set[str]) -> Callable[[Row], None]:
        r"""Begins with some tasks, of which those with these keys are stored; returns the function
        to call with each new row.
        """
        weight = {t.spec.key: float(t.spec.settings.get("epochs", 0) - t.begun) for t in tasks}
        self._left = sum(weight.values())
        stored = sum(weight[key] for key in done)
        self._stored += stored
        self._advance(stored)

        def on_row(row: Row) -> None:
            self._advance(weight[row.key])
            what = f"{self._title}: {row.backbone}+{row.aggr}, split {row.split_seed}"
            self._bars.update(self._task, description=escape(what))
            if row.status != "ok":
                self._console.print(f"{what}: {row.status}: {row.error}", markup=False)

        return on_row

    def end_stage(self) -> None:
        r"""Counts what other processes made as done."""
        self._advance(self._left)

    def _advance(self, epochs: float) -> None:
        self._left -= epochs
        self._done += epochs
        self._bars.update(self._task, completed=min(self._done, self._total))
        made, share = self._done - self._stored, self._done / self._total
        if not self._console.is_terminal and made > 0 and share - self._said >= 0.05:
            self._said = share
            left = (time.monotonic() - self._start) / made * max(0.0, self._total - self._done)
            self._console.print(
                f"{self._title}: {100 * min(share, 1.0):.0f} %, about {clock(left)} left",
                markup=False,
            )


@contextmanager
def search_bar(epochs: int) -> Iterator[SearchBar]:
    r"""A bar for a search of this many epochs."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with _bars(*columns) as (console, bars):
        yield SearchBar(console, bars, max(1, epochs))


@contextmanager
def run_bar(total: int, done: int) -> Iterator[Callable[[Row], None]]:
    r"""Yields a function to call with each new row; :obj:`done` are stored already."""
    start, made = time.monotonic(), 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with _bars(*columns) as (console, bars):
        task = bars.add_task("runs", total=total, completed=done)

        def on_row(row: Row) -> None:
            nonlocal made
            made += 1
            summary = _run_summary(row)
            bars.update(task, advance=1, description=escape(summary))
            if not console.is_terminal:
                left = clock((time.monotonic() - start) / made * (total - done - made))
                console.print(f"[{done + made}/{total}] {summary}, {left} left", markup=False)
            elif row.status != "ok":
                console.print(f"{summary}: {row.error}", markup=False)

        yield on_row


@contextmanager
def _bars(*columns: ProgressColumn) -> Iterator[tuple[Console, Progress]]:
    console = Console(stderr=True, highlight=False)
    shown: dict[str, Any] = {"transient": True, "disable": not console.is_terminal}
    with Progress(*columns, TimeRemainingColumn(), console=console, **shown) as bars:
        yield console, bars


def _run_summary(row: Row) -> str:
    what = f"{row.backbone}+{row.aggr} on {row.data}, split {row.split_seed}"
    if row.status != "ok":
        return f"{what}: {row.status}"
    score = shown_metric([row]).text(row.metrics["test_score"])
    return f"{what}: test {score} in {row.seconds:.1f} s"


def clock(seconds: float) -> str:
    r"""Seconds as hours, minutes and seconds."""
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
