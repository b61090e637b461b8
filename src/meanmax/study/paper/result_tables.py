r"""The paper's Tables 2, 3 and 4 from rows, each cell beside the paper's value."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files as resources
from typing import Any, Literal, NamedTuple, TypeAlias

from meanmax.data.fetch.catalog import Counts
from meanmax.study.runs.machine import revision_notes
from meanmax.study.runs.row import Row
from meanmax.study.settings.settings import settings_for
from meanmax.study.stats.cells import mean_and_std, scores, select
from meanmax.study.stats.comparison import BASELINE, Comparison, compare

TABLES = (2, 3, 4)
r"""The tables of results: classification, clustering, inductive classification."""


class Published(NamedTuple):
    r"""A cell of Table 2, 3 or 4, in percent."""

    mean: float
    std: float


class Heading(NamedTuple):
    r"""Task and metric of a table, in the paper's words."""

    task: str
    metric: str


def paper_value(table: int, backbone: str, aggr: str, data: str) -> Published | None:
    r"""The cell of a table, or :obj:`None` if the paper has none for these names.

    Example:
        >>> paper_value(2, "gcn", "softmax", "cora")
        Published(mean=83.1, std=1.28)
        >>> paper_value(4, "gat", "none", "ppi")
        Published(mean=97.3, std=0.3)
        >>> paper_value(4, "gat", "none", "ppi-go") is None
        True

    Args:
        table (int): 2 for transductive classification, 3 for clustering, 4 for inductive
            classification.
        backbone (str): :obj:`"gcn"`, :obj:`"masked_gcn"`, :obj:`"gat"` or :obj:`"cat"`.
        aggr (str): :obj:`"none"` for the baseline, :obj:`"lp"`, :obj:`"poly"` or
            :obj:`"softmax"`.
        data (str): :obj:`"cora"`, :obj:`"citeseer"`, :obj:`"pubmed"`, :obj:`"photo"` or
            :obj:`"computers"`; in Table 4 :obj:`"ppi"`. The paper has no value for :obj:`"ppi-go"`.
    """
    cell = _table(table)["results"].get(backbone, {}).get(aggr, {}).get(data)
    return None if cell is None else Published(*cell)


def paper_heading(table: int) -> Heading:
    r"""The task and the metric of a table."""
    return Heading(_table(table)["task"], _table(table)["metric"])


def paper_counts(data: str) -> Counts | None:
    r"""The row of Table 1 on a data set, or :obj:`None` if it is not in there.

    Example:
        >>> paper_counts("cora")
        Counts(nodes=2708, edges=5429, features=1433, classes=7)

    Args:
        data (str): As in :func:`paper_value`, :obj:`"ppi"` included.
    """
    row = _tables()["1"].get(data)
    return None if row is None else Counts(**row)


def _table(number: int) -> dict[str, Any]:
    if number not in TABLES:
        raise ValueError(
            f"'table' must be one of {', '.join(map(str, TABLES))} (got {number!r}); for Table 1, "
            f"the counts of the data sets, call paper_counts"
        )
    table: dict[str, Any] = _tables()[str(number)]
    return table


@cache
def _tables() -> dict[str, Any]:
    file = resources("meanmax.study") / "paper" / "tables.json"
    tables: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return tables


BACKBONES = ("gcn", "masked_gcn", "gat", "cat")
AGGRS = ("none", "lp", "poly", "softmax")
SETS = ("cora", "citeseer", "pubmed", "photo", "computers")
SCHEMES = {
    **dict.fromkeys(("cora", "citeseer", "pubmed"), "citation"),
    **dict.fromkeys(("photo", "computers"), "amazon"),
}
PPI_GO = (
    "ppi-go has PPI's graphs and features but rebuilt labels: the paper's numbers beside it are "
    "those of PPI, and no cell is marked."
)
METRIC = {2: "test_score", 3: "all_score", 4: "test_score"}
Mark: TypeAlias = Literal["at or above", "within one std", "below", "missing", "no paper value"]


@dataclass(frozen=True)
class Cell:
    r"""One method on one data set.

    Args:
        backbone (str): The backbone.
        aggr (str): The aggregator.
        data (str): The data set.
        mean (float): The mean over splits, in percent; NaN without runs.
        std (float): The standard deviation over splits.
        n (int): The number of runs of status :obj:`"ok"`.
        failed (int): The number of other runs.
        paper (Published, optional): The paper's mean and deviation.
        mark (str): The mean relative to the paper's: at or above it, at most one standard
            deviation of the paper's below it, or below that.
        extra (dict): Means of additional columns: clusters of the embedding.
    """

    backbone: str
    aggr: str
    data: str
    mean: float
    std: float
    n: int
    failed: int
    paper: Published | None
    mark: Mark
    extra: dict[str, float]


@dataclass(frozen=True)
class Tabled:
    r"""A table.

    Args:
        number (int): The paper's number.
        cells (list): All cells, by method and data set.
        comparisons (list): For each backbone and data set, the aggregators against the baseline.
        notes (list): Sentences on rows that were left out, and on the code that made the others.
    """

    number: int
    cells: list[Cell]
    comparisons: list[Comparison]
    notes: list[str]


def table(
    rows: Sequence[Row],
    number: int,
    *,
    data: Sequence[str],
    backbones: Sequence[str] = BACKBONES,
    aggrs: Sequence[str] = AGGRS,
    settings_name: str = "published",
    overrides: Mapping[str, Any] | None = None,
    scheme: str | None = None,
    splits: int | None = None,
) -> Tabled:
    r"""Makes a table from the rows that have exactly the wanted settings.

    Args:
        rows (sequence): All rows.
        number (int): 2, 3 or 4.
        data (sequence): The data sets.
        backbones (sequence, optional): The backbones. (default: the paper's)
        aggrs (sequence, optional): The aggregators. (default: the paper's)
        settings_name (str, optional): The settings file. (default: :obj:`"published"`)
        overrides (mapping, optional): Settings that replace the file's. (default: :obj:`None`)
        scheme (str, optional): The scheme of splits. (default: the paper's; for other data sets
            the most frequent one)
        splits (int, optional): The number of splits, from seed 0 on. (default: all)
    """
    cells, comparisons, notes = [], [], []
    shown: list[Row] = []
    for name in data:
        chosen = select(
            rows,
            name,
            lambda b, a, d: settings_for(settings_name, b, a, d, overrides),
            scheme or SCHEMES.get(name),
            splits,
        )
        notes += chosen.notes
        if name == "ppi-go" and chosen.rows:
            notes.append(PPI_GO)
        for backbone in backbones:
            for aggr in aggrs:
                own = chosen.of(backbone, aggr)
                shown += own.values()
                cells.append(cell_of(number, backbone, aggr, name, list(own.values())))
            if BASELINE in aggrs and chosen.of(backbone, BASELINE):
                comparisons.append(
                    compare(chosen, backbone, aggrs, data=name, metric=METRIC[number])
                )
    return Tabled(number, cells, comparisons, notes + revision_notes(shown))


def cell_of(number: int, backbone: str, aggr: str, data: str, rows: Sequence[Row]) -> Cell:
    r"""The cell of one method on one data set."""
    values = scores(rows, METRIC[number])
    mean, std = mean_and_std(values.values())
    paper = paper_value(number, backbone, aggr, "ppi" if data == "ppi-go" else data)
    mark = "no paper value" if data == "ppi-go" and values else _mark(mean, paper)
    clusters = ("kmeans_accuracy", "kmeans_nmi", "kmeans_ari") if number == 3 else ()
    extra = {name: mean_and_std(scores(rows, name).values())[0] for name in clusters}
    good = len(values)
    return Cell(backbone, aggr, data, mean, std, good, len(rows) - good, paper, mark, extra)


def _mark(mean: float, paper: Published | None) -> Mark:
    if math.isnan(mean):
        return "missing"
    if paper is None:
        return "no paper value"
    if round(mean, 2) >= paper.mean:
        return "at or above"
    return "within one std" if mean >= paper.mean - paper.std else "below"
