r"""Accuracy against depth, a figure that the paper does not have.

Models have 2 to 8 layers without hidden activation, so that only the aggregation is nonlinear. The
published settings put the aggregator into the first layer only; here it is in every layer but the
last (:obj:`nonlinear="hidden"`), because otherwise depth would only add linear layers.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from meanmax.study.paper.result_tables import AGGRS
from meanmax.study.runs.plan import Plan, reference
from meanmax.study.runs.row import Row
from meanmax.study.settings.settings import settings_for
from meanmax.study.stats.cells import scores, select

DEPTHS = (2, 3, 4, 6, 8)
SETS = ("cora", "citeseer", "pubmed")
SPLITS = 5
SETTINGS = "published"


@dataclass(frozen=True)
class Depth:
    r"""One method at one depth on one data set."""

    data: str
    aggr: str
    layers: int
    scores: tuple[float, ...]  # test scores in percent of the runs of status "ok", by split
    failed: int  # other runs
    splits: tuple[int, ...] = ()  # the seeds of the splits of these scores

    @property
    def mean(self) -> float:
        r"""The mean over splits; NaN without runs."""
        return statistics.fmean(self.scores) if self.scores else float("nan")


def overrides(layers: int) -> dict[str, Any]:
    r"""The settings at a depth that differ from the published ones.

    Example:
        >>> overrides(4)
        {'layers': 4, 'activation': 'none', 'nonlinear': 'hidden'}
    """
    return {"layers": layers, "activation": "none", "nonlinear": "hidden"}


def plans(
    data: Sequence[str] = SETS, *, splits: int = SPLITS, data_dir: Path | None = None
) -> list[Plan]:
    r"""The runs of GCN with the paper's aggregators, shallow ones first."""
    seeds = range(splits)
    return [
        Plan(reference(name, data_dir), ["gcn"], AGGRS, seeds, SETTINGS, None, overrides(layers))
        for layers in DEPTHS
        for name in data
    ]


def by_depth(
    rows: Sequence[Row], data: str, *, backbone: str = "gcn", aggrs: Sequence[str] = AGGRS
) -> list[Depth]:
    r"""The results of every method at every depth that has runs."""
    found = []
    for layers in DEPTHS:
        wanted = partial(settings_for, SETTINGS, overrides=overrides(layers))
        selected = select(rows, data, wanted)
        for aggr in aggrs:
            if own := selected.of(backbone, aggr):
                good = scores(own.values(), "test_score")
                seeds, listed = zip(*sorted(good.items()), strict=True) if good else ((), ())
                found.append(Depth(data, aggr, layers, listed, len(own) - len(good), seeds))
    return found


def comparable(points: Sequence[Depth]) -> list[Depth]:
    r"""The points, restricted to the splits that all of them have. Splits differ by more than
    depths do, so means over different splits say nothing about depth.

    If there is no such split, the most frequent one is used, and points without it are left out.
    Points without scores are always left out.

    Example:
        >>> whole = Depth("cora", "none", 2, (80.0, 76.0), 0, (0, 1))
        >>> late = Depth("cora", "none", 8, (75.0,), 0, (1,))
        >>> [point.scores for point in comparable([whole, late])]
        [(76.0,), (75.0,)]
    """
    there = [point for point in points if point.scores]
    counts = Counter(seed for point in there for seed in point.splits)
    most = max(counts.values(), default=0)
    kept = {seed for seed, count in counts.items() if count == most}
    if most < len(there):
        kept = {min(kept)}
    found = []
    for point in there:
        pairs = [pair for pair in zip(point.splits, point.scores, strict=True) if pair[0] in kept]
        if pairs:
            seeds, listed = zip(*pairs, strict=True)
            found.append(replace(point, splits=seeds, scores=listed))
    return found
