r"""Rows that belong together: selected for a comparison, or summarised in cells."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from meanmax.names import METRICS, Metric
from meanmax.study.runs.row import Row
from meanmax.study.settings.settings import AUTO, SettingsError, base_of, settings_for, settings_key


def without_folder(scheme: str) -> str:
    r"""A scheme as it is stored in rows: a split file by its name alone.

    Example:
        >>> without_folder("file:some/where/splits.npz")
        'file:splits.npz'
    """
    kind, _, path = scheme.partition(":")
    return f"{kind}:{Path(path).name}" if path else scheme


def scores(rows: Iterable[Row], metric: str) -> dict[int, float]:
    r"""A metric by the seed of the split, of the runs of status :obj:`"ok"`."""
    good = (row for row in rows if row.status == "ok" and metric in row.metrics)
    return {row.split_seed: row.metrics[metric] for row in good}


def shown_metric(rows: Iterable[Row]) -> Metric:
    r"""The metric of the scores of rows; one in percent that is called "score" if they are all of
    an early version and do not tell.
    """
    listed = list(rows)
    named = next((row.metric for row in listed if row.metric is not None), None)
    if named is None and any("kmeans_accuracy" in row.metrics for row in listed):
        named = "accuracy"
    return Metric("score", ()) if named is None else METRICS[named]


def score_form(percent: bool, *values: float | None) -> str:
    r"""How scores that stand together are formatted: percents with two decimals, others with four
    digits of the largest.

    Example:
        >>> score_form(True), score_form(False, 0.81254, 0.001), score_form(False, 1234.5)
        ('.2f', '.4f', '.0f')
    """
    if percent:
        return ".2f"
    sizes = [abs(value) for value in values if value is not None and math.isfinite(value)]
    largest = max(sizes, default=0.0)
    places = 3 - math.floor(math.log10(largest)) if largest > 0 else 3
    return f".{min(max(places, 0), 12)}f"


def mean_and_std(values: Iterable[float]) -> tuple[float, float]:
    r"""The mean and the standard deviation of a sample; NaN where there is none."""
    listed = list(values)
    mean = statistics.fmean(listed) if listed else math.nan
    return mean, statistics.stdev(listed) if len(listed) > 1 else math.nan


def learned_values(rows: Iterable[Row]) -> dict[str, list[float]]:
    r"""All values of each learned parameter that has any."""
    found: dict[str, list[float]] = {}
    for row in rows:
        for name, values in row.learned.items():
            found.setdefault(name, []).extend(values)
    return {name: values for name, values in found.items() if values}


@dataclass(frozen=True)
class CellOfRows:
    r"""All runs of one method with the same settings on the same data and kind of splits.

    Scores are their mean and standard deviation as rows store them; the latter is :obj:`None` for
    one run.
    """

    data: str
    data_hash: str
    split: str
    backbone: str
    aggr: str
    settings_names: list[str]
    settings: dict[str, Any]
    changed: dict[str, Any]  # settings that differ from the file; None for a missing one
    n: int  # runs of status "ok"
    failed: int
    diverged: int
    test: tuple[float, float | None] | None
    val: tuple[float, float | None] | None
    seconds: float | None  # median, of the runs that did not share their machine if there are any
    alone: bool  # whether it is of such runs
    learned: dict[str, float]  # means over runs and values
    metric: str  # the label of the scores
    percent: bool  # whether they are in percent


def cells(rows: Iterable[Row]) -> list[CellOfRows]:
    r"""Groups rows into cells, sorted by data, backbone, aggregator and settings. Searched settings
    may differ between splits: all of them with one metric are one cell.
    """
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        searched = row.settings_name == AUTO
        same = (AUTO, row.settings.get("metric")) if searched else settings_key(row.settings)
        groups.setdefault((*_place(row), same), []).append(row)
    return sorted(map(_cell, groups.values()), key=_cell_rank)


def is_planned_from(row: Row, settings_name: str) -> bool:
    r"""Whether a row has the name of a settings file, or the same settings."""
    if row.settings_name == settings_name:
        return True
    return row.settings == planned_settings(row, settings_name)


def _cell(rows: list[Row]) -> CellOfRows:
    first = rows[0]
    good = [row for row in rows if row.status == "ok"]
    alone = [row.seconds for row in good if row.alone]
    seconds = alone or [row.seconds for row in good]
    kind = shown_metric(rows)
    return CellOfRows(
        *_place(first),
        settings_names=sorted({row.settings_name for row in rows}),
        settings=first.settings,
        changed=_changed(first, rows),
        n=len(good),
        failed=sum(row.status == "failed" for row in rows),
        diverged=sum(row.status == "diverged" for row in rows),
        test=_score(good, "test_score"),
        val=_score(good, "val_score"),
        seconds=statistics.median(seconds) if seconds else None,
        alone=bool(alone),
        learned={name: statistics.fmean(x) for name, x in learned_values(good).items()},
        metric=kind.label,
        percent=kind.percent,
    )


def _place(cell: Row | CellOfRows) -> tuple[str, str, str, str, str]:
    return cell.data, cell.data_hash, cell.split, cell.backbone, cell.aggr


def _cell_rank(cell: CellOfRows) -> tuple[Any, ...]:
    text = settings_key(cell.changed)
    return *_place(cell), len(text), text


def _changed(row: Row, rows: Sequence[Row]) -> dict[str, Any]:
    r"""The settings of a row, and of all rows of its cell, that differ from its file; of searched
    ones from the file that gives the rest.
    """
    file = base_of(row.settings) if row.settings_name == AUTO else row.settings_name
    planned = planned_settings(row, file)
    if planned is None:  # the file is of another version
        return row.settings
    changed = dict(fact for fact in row.settings.items() if fact not in planned.items())
    # A setting that the changed ones make useless is not missing.
    planned = planned_settings(row, file, changed) or planned
    changed |= {name: None for name in planned if name not in row.settings}
    return {
        name: value
        for name, value in changed.items()
        if all(other.settings.get(name) == value for other in rows)
    }


def planned_settings(
    method: Row | CellOfRows, settings_name: str, overrides: dict[str, Any] | None = None
) -> dict[str, Any] | None:
    r"""The settings of a method by a settings file, or :obj:`None` if they are of another version
    and the file cannot give them.
    """
    try:
        return settings_for(settings_name, method.backbone, method.aggr, method.data, overrides)
    except SettingsError:
        return None


def _score(rows: list[Row], metric: str) -> tuple[float, float | None] | None:
    mean, std = mean_and_std(row.metrics[metric] for row in rows if metric in row.metrics)
    return None if math.isnan(mean) else (mean, None if math.isnan(std) else std)


Wanted = Callable[[str, str, str], dict[str, Any]]
r"""The settings of a run by backbone, aggregator and data set."""


@dataclass(frozen=True)
class Selected:
    r"""Rows of one data set that belong together, of any status, one for each method and split,
    and sentences on the rows that were left out.
    """

    rows: list[Row]
    notes: list[str]

    def of(self, backbone: str, aggr: str) -> dict[int, Row]:
        r"""The rows of one method by the seed of the split."""
        own = (row for row in self.rows if (row.backbone, row.aggr) == (backbone, aggr))
        return {row.split_seed: row for row in own}


def select(
    rows: Iterable[Row],
    data: str,
    wanted: Wanted | None,
    scheme: str | None = None,
    splits: int | None = None,
) -> Selected:
    r"""Selects the rows of one data set that have the wanted settings (any if :obj:`None`), on the
    splits of a scheme (by default the most frequent one), up to a number of splits from seed 0 on
    (by default all).

    Rows on different data of the same name (by hash) or on different kinds of splits are never
    mixed: the most frequent ones are selected, and a note reports the others.
    """
    settings = None if wanted is None else cache(wanted)
    notes: list[str] = []
    found = [
        row
        for row in rows
        if row.data == data and (splits is None or row.split_seed < splits)
        if settings is None or row.settings == settings(row.backbone, row.aggr, data)
    ]
    if scheme is not None:
        found = [row for row in found if row.split == without_folder(scheme)]
    found = _most_frequent(found, "split", f"on other splits of '{data}'", notes)
    found = _most_frequent(found, "data_hash", f"on other data with the name '{data}'", notes)
    return Selected(_one_split_per_seed(found, notes), notes)


def last_searched(rows: Iterable[Row], known: Container[str] = ()) -> list[Row]:
    r"""Of rows whose settings were searched, the last one of each method, split and metric; those
    with a known key come before later ones.
    """
    last: dict[tuple[object, ...], Row] = {}
    for row in sorted(rows, key=lambda row: (row.key in known, row.finished)):
        place = (row.split, row.data_hash, row.split_seed, row.settings.get("metric"))
        last[row.backbone, row.aggr, *place] = row
    return list(last.values())


def _one_split_per_seed(rows: Sequence[Row], notes: list[str]) -> list[Row]:
    r"""Leaves out rows whose split differs from that of most rows with the same seed, for example
    from two split files of the same name.
    """
    counts: dict[int, Counter[str]] = {}
    for row in rows:
        counts.setdefault(row.split_seed, Counter())[row.split_hash] += 1
    kept = [row for row in rows if counts[row.split_seed].most_common(1)[0][0] == row.split_hash]
    if len(kept) < len(rows):
        notes.append(f"{len(rows) - len(kept)} runs on other splits of the same name are left out.")
    return kept


def _most_frequent(rows: Sequence[Row], fact: str, what: str, notes: list[str]) -> list[Row]:
    counts = Counter(getattr(row, fact) for row in rows)
    if len(counts) < 2:
        return list(rows)
    (chosen, number), *_ = counts.most_common(1)
    notes.append(f"{len(rows) - number} runs {what} are left out (kept: {fact} {chosen}).")
    return [row for row in rows if getattr(row, fact) == chosen]
