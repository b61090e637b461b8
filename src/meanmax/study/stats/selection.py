r"""Rows that may stand in one table: same data, same splits, the settings that are asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meanmax.study.runs.row import Row

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
