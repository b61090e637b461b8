r"""Aggregators compared with the baseline on the same splits, as data.

:mod:`~meanmax.study.stats.verdict` turns a comparison into sentences.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from meanmax.study.runs.row import Row, json_safe
from meanmax.study.stats.cells import Selected, learned_values, mean_and_std, scores
from meanmax.study.stats.paired import Paired, holm, paired, reachable

BASELINE = "none"
ALPHA = 0.05
r"""A difference is significant if its adjusted p is below this and its interval excludes 0."""

Judgement: TypeAlias = Literal["better", "worse", "undecided", "too few"]


@dataclass(frozen=True)
class Line:
    r"""One aggregator.

    Args:
        aggr (str): Its name.
        n (int): The number of runs of status :obj:`"ok"`.
        failed (int): The number of other runs.
        mean (float): The mean test score in percent; NaN without runs.
        std (float): Its standard deviation over splits; NaN from fewer than two.
        val_mean (float): The mean validation score.
        paired (Paired, optional): The differences to the baseline in points; :obj:`None` for the
            baseline itself, and for an aggregator that shares no split with it.
        adjusted_p (float): The p-value after :func:`~meanmax.study.stats.paired.holm` over the
            lines of the comparison.
        learned (dict): The mean of each learned parameter, its smallest and its largest value.
        maxness (float, optional): The mean maxness of layers whose aggregation is not linear.
        seconds (float): The median training time.
        alone (bool): Whether no run shared the machine with others.
        errors (list): The distinct errors.
        reachable_p (float): The smallest adjusted p-value that its number of splits allows.
    """

    aggr: str
    n: int = 0
    failed: int = 0
    mean: float = math.nan
    std: float = math.nan
    val_mean: float = math.nan
    paired: Paired | None = None
    adjusted_p: float = math.nan
    learned: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    maxness: float | None = None
    seconds: float = math.nan
    alone: bool = False
    errors: list[str] = field(default_factory=list)
    reachable_p: float = math.nan

    @property
    def judgement(self) -> Judgement | None:
        r""":obj:`"better"` or :obj:`"worse"` than the baseline if the difference is significant,
        :obj:`"too few"` if no result on so few splits could be, else :obj:`"undecided"`;
        :obj:`None` without differences.
        """
        if self.paired is None:
            return None
        if not self.reachable_p < ALPHA:
            return "too few"
        if self.adjusted_p < ALPHA and self.paired.low > 0:
            return "better"
        return "worse" if self.adjusted_p < ALPHA and self.paired.high < 0 else "undecided"


@dataclass(frozen=True)
class Comparison:
    r"""All aggregators on one data set.

    Args:
        data (str): The data set.
        backbone (str): The backbone.
        metric (str): The name of the score.
        lines (list): One for each aggregator, the baseline first.
        notes (list): Further sentences for the reader.
        one_split (bool): Whether all runs are on one split and differ only in their seeds.
        baseline (str): The baseline. (default: :obj:`"none"`)
    """

    data: str
    backbone: str
    metric: str
    lines: list[Line]
    notes: list[str] = field(default_factory=list)
    one_split: bool = False
    baseline: str = BASELINE

    @property
    def verdict(self) -> str:
        r"""The conclusion in sentences."""
        from meanmax.study.stats.verdict import verdict  # which renders comparisons

        return verdict(self)

    def as_dict(self) -> dict[str, Any]:
        r"""The comparison for JSON, with its verdict and the judgement on each line."""
        found: dict[str, Any] = json_safe(self)
        for line, facts in zip(self.lines, found["lines"], strict=True):
            facts["judgement"] = line.judgement
        return {**found, "verdict": self.verdict}


def compare(
    selected: Selected,
    backbone: str,
    aggrs: Sequence[str],
    *,
    data: str,
    metric: str = "test_score",
    name: str = "accuracy",
) -> Comparison:
    r"""Compares aggregators with the baseline, each on the splits that both have.

    Args:
        selected (Selected): Rows that belong together.
        backbone (str): The backbone.
        aggrs (sequence): The aggregators, in the order of the table.
        data (str): The data set.
        metric (str, optional): The metric of the rows. (default: :obj:`"test_score"`)
        name (str, optional): Its name for the reader. (default: :obj:`"accuracy"`)
    """
    ordered = sorted(dict.fromkeys(aggrs), key=lambda aggr: aggr != BASELINE)
    base = scores(selected.of(backbone, BASELINE).values(), metric)
    rows = {aggr: list(selected.of(backbone, aggr).values()) for aggr in ordered}
    pairs: dict[str, Paired] = {}
    for aggr in ordered:
        own = scores(rows[aggr], metric)
        shared = sorted(set(own) & set(base))
        if aggr != BASELINE and shared:
            pairs[aggr] = paired([own[s] for s in shared], [base[s] for s in shared])
    adjusted = dict(zip(pairs, holm([pair.p for pair in pairs.values()]), strict=True))
    smallest = dict(zip(pairs, reachable(list(pairs.values())), strict=True))
    lines = [
        _line(
            aggr,
            rows[aggr],
            metric,
            paired=pairs.get(aggr),
            adjusted_p=adjusted.get(aggr, math.nan),
            reachable_p=smallest.get(aggr, math.nan),
        )
        for aggr in ordered
    ]
    splits = {row.split_hash for row in selected.rows}
    seeds = {row.seed for row in selected.rows}
    one_split = len(splits) == 1 and len(seeds) > 1
    return Comparison(data, backbone, name, lines, selected.notes, one_split)


def _line(aggr: str, rows: list[Row], metric: str, **differences: Any) -> Line:
    good = [row for row in rows if row.status == "ok"]
    bad = [row for row in rows if row.status != "ok"]
    mean, std = mean_and_std(scores(good, metric).values())
    nonlinear = [
        value
        for row in good
        for name, value in row.maxness.items()
        if value is not None and _has_aggregator(row, name, value)
    ]
    return Line(
        aggr=aggr,
        n=len(good),
        failed=len(bad),
        mean=mean,
        std=std,
        val_mean=mean_and_std(scores(good, "val_score").values())[0],
        learned={
            name: (statistics.fmean(values), min(values), max(values))
            for name, values in learned_values(good).items()
        },
        maxness=statistics.fmean(nonlinear) if nonlinear else None,
        seconds=statistics.median([row.seconds for row in good]) if good else math.nan,
        alone=bool(good) and all(row.alone for row in good),
        errors=sorted({f"{row.status}: {row.error}" for row in bad}),
        **differences,
    )


def _has_aggregator(row: Row, layer: str, value: float) -> bool:
    r"""Whether a layer has the row's aggregator and not the linear one."""
    if row.learned:
        return _layer(layer) in map(_layer, row.learned)
    return row.aggr != "max" or value > 0


def _layer(name: str) -> str:
    return ".".join(name.split(".")[:2])
