r"""The paper's Tables 2, 3 and 4 from rows, next to its values, and which of its claims hold."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files as resources
from typing import Any, Literal, NamedTuple, TypeAlias

from meanmax.data.fetch.catalog import Counts
from meanmax.study.runs.machine import revision_notes
from meanmax.study.runs.row import Row
from meanmax.study.settings.settings import settings_for
from meanmax.study.stats.cells import mean_and_std, scores, select
from meanmax.study.stats.comparison import (
    ALPHA,
    BASELINE,
    CAVEAT,
    ONE_SPLIT,
    Comparison,
    Judgement,
    compare,
)
from meanmax.study.stats.paired import Paired

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
    r"""The cell of Table 2, 3 or 4, or :obj:`None` if the paper has none for these names.
    The baseline is called :obj:`"none"`.

    Example:
        >>> paper_value(2, "gcn", "softmax", "cora")
        Published(mean=83.1, std=1.28)
        >>> paper_value(4, "gat", "none", "ppi")
        Published(mean=97.3, std=0.3)
        >>> paper_value(4, "gat", "none", "ppi-go") is None
        True
    """
    cell = _table(table)["results"].get(backbone, {}).get(aggr, {}).get(data)
    return None if cell is None else Published(*cell)


def paper_heading(table: int) -> Heading:
    r"""The task and the metric of a table."""
    return Heading(_table(table)["task"], _table(table)["metric"])


def paper_counts(data: str) -> Counts | None:
    r"""The row of Table 1 on a data set, or :obj:`None` if the table does not have it.

    Example:
        >>> paper_counts("cora")
        Counts(nodes=2708, edges=5429, features=1433, classes=7)
    """
    row = _tables()["1"].get(data)
    return None if row is None else Counts(**row)


def name_in_paper(data: str) -> str:
    r"""The data set of the paper that a data set is shown next to: PPI for :obj:`"ppi-go"`."""
    return "ppi" if data == "ppi-go" else data


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
PPI = ("ppi", "ppi-go")
PPI_GO = (
    "ppi-go has PPI's graphs and features but rebuilt labels: the paper's numbers next to it are "
    "those of PPI, and no cell is marked."
)
METRIC = {2: "test_score", 3: "all_score", 4: "test_score"}
Mark: TypeAlias = Literal["at or above", "within one std", "below", "missing", "no paper value"]


@dataclass(frozen=True)
class Cell:
    r"""One method on one data set: mean and standard deviation over splits in percent, NaN without
    runs, and how the mean compares with the paper's.
    """

    backbone: str
    aggr: str
    data: str
    mean: float
    std: float
    n: int  # runs of status "ok"
    failed: int  # other runs
    paper: Published | None
    mark: Mark
    extra: dict[str, float]  # means of additional columns: clusters of the embedding


@dataclass(frozen=True)
class Tabled:
    r"""A table of the paper: its cells, the aggregators against the baseline for each backbone and
    data set, and sentences on rows that were left out and on the code that made the others.
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
    r"""Makes a table from the rows that have exactly the settings of a file with overrides.

    The scheme of splits is by default the paper's, or for other data sets the most frequent one;
    the splits are by default all, else a number of them from seed 0 on.
    """
    cells, comparisons, notes = [], [], []
    shown: list[Row] = []
    metric = METRIC[number]
    wanted = partial(settings_for, settings_name, overrides=overrides)
    for name in data:
        chosen = select(rows, name, wanted, scheme or SCHEMES.get(name), splits)
        notes += chosen.notes
        if name == "ppi-go" and chosen.rows:
            notes.append(PPI_GO)
        for backbone in backbones:
            for aggr in aggrs:
                own = list(chosen.of(backbone, aggr).values())
                shown += own
                cells.append(cell_of(number, backbone, aggr, name, own))
            if BASELINE in aggrs and chosen.of(backbone, BASELINE):
                comparisons.append(compare(chosen, backbone, aggrs, data=name, metric=metric))
    return Tabled(number, cells, comparisons, notes + revision_notes(shown))


def cell_of(number: int, backbone: str, aggr: str, data: str, rows: Sequence[Row]) -> Cell:
    r"""The cell of one method on one data set."""
    values = scores(rows, METRIC[number])
    mean, std = mean_and_std(values.values())
    paper = paper_value(number, backbone, aggr, name_in_paper(data))
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


@dataclass(frozen=True)
class Claim:
    r"""One aggregator against its baseline, here and in the paper."""

    data: str
    backbone: str
    aggr: str
    paper: float  # the paper's difference of means, in points
    paired: Paired  # ours
    adjusted_p: float
    reachable_p: float
    one_split: bool
    holds: Judgement


def claims(number: int, comparisons: Sequence[Comparison]) -> list[Claim]:
    r"""The claims of a table: is an aggregator better than its baseline?

    P-values are corrected (Holm) among the aggregators of one backbone on one data set. Over a
    whole table of sixty comparisons nothing could ever be significant: ten splits give no p-value
    below 2/1024. So one of some twenty families may look different by chance, and :func:`summary`
    says so.
    """
    found = []
    for of in comparisons:
        for line in of.lines:
            if line.paired is not None and line.judgement is not None:
                claim = Claim(
                    of.data,
                    of.backbone,
                    line.aggr,
                    paper_gain(number, of.backbone, line.aggr, of.data),
                    line.paired,
                    line.adjusted_p,
                    line.reachable_p,
                    of.one_split,
                    line.judgement,
                )
                found.append(claim)
    return found


def summary(listed: Sequence[Claim], *, caveat: bool = True) -> str:
    r"""The number of claims that hold, in sentences, with a caveat on random splits."""
    if not listed:
        return "No aggregator can be compared with its baseline yet."
    one_split = all(claim.one_split for claim in listed)
    unit = "seed" if one_split else "split"
    up = sum(claim.paired.difference > 0 for claim in listed)
    paper = sum(claim.paper > 0 for claim in listed)
    where = " on its own PPI graphs" if any(claim.data == "ppi-go" for claim in listed) else ""
    count = "1 comparison" if len(listed) == 1 else f"{len(listed)} comparisons"
    found = [
        f"Of {count} of an aggregator with its baseline, paired over {unit}s, "
        f"{_judged(listed, unit)}",
        f"Its mean is higher in {up}; in the paper{where} it is in {paper}.",
    ]
    if one_split:
        found.append(ONE_SPLIT)
    elif caveat and any(claim.holds != "too few" for claim in listed):
        found.append(CAVEAT)
    return " ".join(found)


def _judged(listed: Sequence[Claim], unit: str) -> str:
    counts = Counter(claim.holds for claim in listed)
    few = counts["too few"]
    if few == len(listed):
        return f"none has enough {unit}s to distinguish them."
    families = len({(claim.data, claim.backbone) for claim in listed if claim.holds != "too few"})
    rest = f"; {few} {'has' if few == 1 else 'have'} too few {unit}s to decide" if few else ""
    return (
        f"the aggregator is clearly better in {counts['better']}, clearly worse in "
        f"{counts['worse']}, and undecided in {counts['undecided']} (interval without 0 "
        f"and Wilcoxon p < {ALPHA:g}, Holm-adjusted within each backbone and data set: of "
        f"{families} such {'family' if families == 1 else 'families'} {ALPHA * families:.1f} would "
        f"look different by chance){rest}."
    )


def paper_gain(number: int, backbone: str, aggr: str, data: str) -> float:
    r"""The paper's mean of an aggregator minus that of its baseline; NaN if it has none."""
    name = name_in_paper(data)
    own = paper_value(number, backbone, aggr, name)
    base = paper_value(number, backbone, BASELINE, name)
    return math.nan if own is None or base is None else own.mean - base.mean
