r"""Rows that may stand in one table: same data, same splits, the settings that are asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from meanmax.experiments.row import Row

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


def select(rows: Iterable[Row], data: str, wanted: Wanted, scheme: str | None = None) -> Selected:
    r"""Chooses the rows of one data set that have the settings wanted.

    Rows on other data of the same name (another hash) or on other kinds of splits are never mixed:
    those that most rows have are taken, and a note says so.

    Args:
        rows (iterable): All rows.
        data (str): The data set.
        wanted (callable): The settings of a method.
        scheme (str, optional): The scheme of splits; :obj:`None` for what most rows have.
            (default: :obj:`None`)
    """
    found = [
        row
        for row in rows
        if row.data == data and row.settings == wanted(row.backbone, row.aggr, data)
    ]
    notes: list[str] = []
    if scheme is not None:
        found = [row for row in found if row.split == scheme]
    found = _most(found, "split", f"on other splits of '{data}'", notes)
    found = _most(found, "data_hash", f"on other data that are called '{data}'", notes)
    return Selected(found, notes)


def scores(rows: Iterable[Row], metric: str) -> dict[int, float]:
    r"""A metric by the seed of the split, of the runs that ended well."""
    return {
        row.split_seed: row.metrics[metric]
        for row in rows
        if row.status == "ok" and metric in row.metrics
    }


def _most(rows: Sequence[Row], fact: str, what: str, notes: list[str]) -> list[Row]:
    counts = Counter(getattr(row, fact) for row in rows)
    if len(counts) < 2:
        return list(rows)
    (chosen, number), *_ = counts.most_common(1)
    notes.append(f"{len(rows) - number} runs {what} are left out (kept: {fact} {chosen}).")
    return [row for row in rows if getattr(row, fact) == chosen]
