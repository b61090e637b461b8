r"""Runs that differ in nothing but split and seed, in one cell."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from meanmax.study.runs.row import Row
from meanmax.study.settings.settings import SettingsError, settings_for


@dataclass(frozen=True)
class CellOfRows:
    r"""All runs of one method with the same settings on the same data and kind of splits.

    Args:
        data (str): The data set.
        data_hash (str): The fingerprint of the prepared data.
        split (str): The scheme of the splits.
        backbone (str): The backbone.
        aggr (str): The aggregator.
        settings_names (list): The settings files that the runs were planned from.
        settings (dict): Their settings.
        changed (dict): Those of them that are not the file's; :obj:`None` for one that is missing.
        n (int): How many ended well.
        failed (int): How many failed.
        diverged (int): How many diverged.
        test (tuple, optional): Mean and standard deviation of the test score in percent; the
            latter is :obj:`None` for one run.
        val (tuple, optional): The same of the validation score.
        seconds (float, optional): The median time of training: of the runs that were alone on
            their machine, if any were.
        alone (bool): Whether it is of such runs.
        learned (dict): The mean of each learned parameter over runs and its values.
    """

    data: str
    data_hash: str
    split: str
    backbone: str
    aggr: str
    settings_names: list[str]
    settings: dict[str, Any]
    changed: dict[str, Any]
    n: int
    failed: int
    diverged: int
    test: tuple[float, float | None] | None
    val: tuple[float, float | None] | None
    seconds: float | None
    alone: bool
    learned: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        r"""What JSON can hold."""
        return asdict(self)


def cells(rows: Iterable[Row]) -> list[CellOfRows]:
    r"""Groups rows into cells, sorted by data, backbone, aggregator and settings.

    Args:
        rows (iterable): Any rows.
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        settings = json.dumps(row.settings, sort_keys=True)
        place = (row.data, row.data_hash, row.split, row.backbone, row.aggr, settings)
        groups.setdefault(place, []).append(row)
    found = [_cell(group) for group in groups.values()]
    return sorted(found, key=_place)


def is_planned_from(row: Row, settings_name: str) -> bool:
    r"""Whether a row is one of a settings file: by its name, or because it has its settings."""
    return row.settings_name == settings_name or row.settings == _planned(row, settings_name)


def _cell(rows: list[Row]) -> CellOfRows:
    first = rows[0]
    good = [row for row in rows if row.status == "ok"]
    alone = [row.seconds for row in good if row.alone]
    seconds = alone or [row.seconds for row in good]
    names = sorted({row.settings_name for row in rows})
    return CellOfRows(
        data=first.data,
        data_hash=first.data_hash,
        split=first.split,
        backbone=first.backbone,
        aggr=first.aggr,
        settings_names=names,
        settings=first.settings,
        changed=_changed(first),
        n=len(good),
        failed=sum(row.status == "failed" for row in rows),
        diverged=sum(row.status == "diverged" for row in rows),
        test=_mean_and_std(good, "test_score"),
        val=_mean_and_std(good, "val_score"),
        seconds=statistics.median(seconds) if seconds else None,
        alone=bool(alone),
        learned=_learned(good),
    )


def _place(cell: CellOfRows) -> tuple[object, ...]:
    changed = json.dumps(cell.changed, sort_keys=True)
    return cell.data, cell.data_hash, cell.split, cell.backbone, cell.aggr, len(changed), changed


def _changed(row: Row) -> dict[str, Any]:
    planned = _planned(row, row.settings_name)
    if planned is None:  # a file of another version, which says nothing here
        return row.settings
    changed = {
        name: value
        for name, value in row.settings.items()
        if name not in planned or planned[name] != value
    }
    # What has no use where these are changed is not missing.
    planned = _planned(row, row.settings_name, changed) or planned
    return changed | {name: None for name in planned if name not in row.settings}


def _planned(
    row: Row, settings_name: str, overrides: dict[str, Any] | None = None
) -> dict[str, Any] | None:
    try:
        return settings_for(settings_name, row.backbone, row.aggr, row.data, overrides)
    except SettingsError:
        return None


def _mean_and_std(rows: list[Row], metric: str) -> tuple[float, float | None] | None:
    values = [row.metrics[metric] for row in rows if metric in row.metrics]
    if not values:
        return None
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def _learned(rows: list[Row]) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for row in rows:
        for name, learned in row.learned.items():
            values.setdefault(name, []).extend(learned)
    return {name: statistics.fmean(listed) for name, listed in values.items() if listed}


Wanted = Callable[[str, str, str], dict[str, Any]]
r"""The settings of a run by backbone, aggregator and data set."""


@dataclass(frozen=True)
class Selected:
    r"""Rows of one data set.

    Args:
        rows (list): Those that fit together, of any status, one for each method and split.
        notes (list): Sentences on rows that were left out.
    """

    rows: list[Row]
    notes: list[str]

    def of(self, backbone: str, aggr: str) -> dict[int, Row]:
        r"""The rows of one method by the seed of the split."""
        return {
            row.split_seed: row
            for row in self.rows
            if row.backbone == backbone and row.aggr == aggr
        }


def select(
    rows: Iterable[Row],
    data: str,
    wanted: Wanted,
    scheme: str | None = None,
    splits: int | None = None,
) -> Selected:
    r"""Chooses the rows of one data set that have the settings wanted.

    Rows on other data of the same name (another hash) or on other kinds of splits are never mixed:
    those that most rows have are taken, and a note says so.

    Args:
        rows (iterable): All rows.
        data (str): The data set.
        wanted (callable): The settings of a method.
        scheme (str, optional): The scheme of splits; :obj:`None` for what most rows have.
            (default: :obj:`None`)
        splits (int, optional): How many splits, from seed 0 on. (default: all there are)
    """
    settings: dict[tuple[str, str], dict[str, Any]] = {}
    found = []
    for row in rows:
        method = row.backbone, row.aggr
        if row.data != data or (splits is not None and row.split_seed >= splits):
            continue
        if method not in settings:
            settings[method] = wanted(*method, data)
        if row.settings == settings[method]:
            found.append(row)
    notes: list[str] = []
    if scheme is not None:
        found = [row for row in found if row.split == without_folder(scheme)]
    found = _most(found, "split", f"on other splits of '{data}'", notes)
    found = _most(found, "data_hash", f"on other data that are called '{data}'", notes)
    return Selected(_one_split_for_each_seed(found, notes), notes)


def without_folder(scheme: str) -> str:
    r"""A scheme as rows have it: a split file by its name alone, since where it lay says nothing.

    Example:
        >>> without_folder("file:some/where/splits.npz")
        'file:splits.npz'
    """
    kind, _, path = scheme.partition(":")
    return f"{kind}:{Path(path).name}" if path else scheme


def scores(rows: Iterable[Row], metric: str) -> dict[int, float]:
    r"""A metric by the seed of the split, of the runs that ended well."""
    return {
        row.split_seed: row.metrics[metric]
        for row in rows
        if row.status == "ok" and metric in row.metrics
    }


def _one_split_for_each_seed(rows: Sequence[Row], notes: list[str]) -> list[Row]:
    r"""Rows of one seed that are on different nodes, as of two files of one name, are not mixed."""
    counts: dict[int, Counter[str]] = {}
    for row in rows:
        counts.setdefault(row.split_seed, Counter())[row.split_hash] += 1
    kept = [row for row in rows if counts[row.split_seed].most_common(1)[0][0] == row.split_hash]
    if len(kept) < len(rows):
        notes.append(f"{len(rows) - len(kept)} runs on other splits of the same name are left out.")
    return kept


def _most(rows: Sequence[Row], fact: str, what: str, notes: list[str]) -> list[Row]:
    counts = Counter(getattr(row, fact) for row in rows)
    if len(counts) < 2:
        return list(rows)
    (chosen, number), *_ = counts.most_common(1)
    notes.append(f"{len(rows) - number} runs {what} are left out (kept: {fact} {chosen}).")
    return [row for row in rows if getattr(row, fact) == chosen]
