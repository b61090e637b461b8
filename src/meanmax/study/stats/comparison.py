r"""Aggregators side by side on the same splits."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from meanmax.study.runs.row import Row, json_safe
from meanmax.study.stats.cells import Selected, scores
from meanmax.study.stats.paired import Paired, holm, paired
from meanmax.study.stats.verdict import Compared, verdict

BASELINE = "none"


@dataclass(frozen=True)
class Line:
    r"""One aggregator.

    Args:
        aggr (str): Its name.
        n (int): Runs that ended well.
        failed (int): Runs that did not.
        mean (float): Of the test score, in percent.
        std (float): Its standard deviation over splits.
        val_mean (float): Of the validation score.
        paired (Paired, optional): Differences to the baseline.
        adjusted_p (float): Holm's p-value among the lines of the table.
        learned (dict): The mean of each learned parameter, with its least and largest value.
        maxness (float, optional): The mean maxness of layers whose aggregation is not linear.
        seconds (float): The median time of a run.
        alone (bool): Whether all of them had the machine for themselves.
        errors (list): What went wrong, each once.
    """

    aggr: str
    n: int
    failed: int
    mean: float
    std: float
    val_mean: float
    paired: Paired | None
    adjusted_p: float
    learned: dict[str, tuple[float, float, float]]
    maxness: float | None
    seconds: float
    alone: bool
    errors: list[str]


@dataclass(frozen=True)
class Comparison:
    r"""All aggregators on one data set.

    Args:
        data (str): The data set.
        backbone (str): The backbone.
        metric (str): What the scores are.
        lines (list): One for each aggregator, the baseline first.
        verdict (str): What the evidence supports.
        notes (list): What else a reader has to know.
        one_split (bool): Whether all runs are on one split and differ in their seeds alone.
    """

    data: str
    backbone: str
    metric: str
    lines: list[Line]
    verdict: str
    notes: list[str]
    one_split: bool

    def as_dict(self) -> dict[str, Any]:
        r"""Plain values, with :obj:`None` for what is not a number."""
        lines = [
            {**vars(line), "paired": vars(line.paired) if line.paired else None}
            for line in self.lines
        ]
        found: dict[str, Any] = json_safe({**vars(self), "lines": lines})
        return found


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
        selected (Selected): Rows that fit together.
        backbone (str): The backbone.
        aggrs (sequence): The aggregators, in the order of the table.
        data (str): The data set.
        metric (str, optional): What is compared. (default: :obj:`"test_score"`)
        name (str, optional): What that is called. (default: :obj:`"accuracy"`)
    """
    ordered = sorted(dict.fromkeys(aggrs), key=lambda aggr: aggr != BASELINE)
    base = scores(selected.of(backbone, BASELINE).values(), metric)
    pairs: dict[str, Paired | None] = {}
    for aggr in ordered:
        own = scores(selected.of(backbone, aggr).values(), metric)
        shared = sorted(set(own) & set(base))
        compared = aggr != BASELINE and shared
        pairs[aggr] = (
            paired([own[s] for s in shared], [base[s] for s in shared]) if compared else None
        )
    tested = [aggr for aggr in ordered if pairs[aggr] is not None]
    adjusted = dict(zip(tested, holm([_p(pairs[aggr]) for aggr in tested]), strict=True))
    lines = [
        _line(aggr, selected.of(backbone, aggr), metric, pairs[aggr], adjusted.get(aggr, math.nan))
        for aggr in ordered
    ]
    told = [
        Compared(line.aggr, line.mean, line.std, line.paired, line.adjusted_p, line.failed)
        for line in lines
    ]
    splits = {row.split_hash for row in selected.rows}
    seeds = {row.seed for row in selected.rows}
    one = len(splits) == 1 and len(seeds) > 1
    said = verdict(told, baseline=BASELINE, one_split=one)
    return Comparison(data, backbone, name, lines, said, selected.notes, one)


def mean_and_std(values: Sequence[float]) -> tuple[float, float]:
    r"""The mean and the standard deviation (of a sample); NaN where there is none."""
    mean = statistics.fmean(values) if values else math.nan
    return mean, statistics.stdev(values) if len(values) > 1 else math.nan


def _line(
    aggr: str, rows: dict[int, Row], metric: str, pair: Paired | None, adjusted: float
) -> Line:
    good = [row for row in rows.values() if row.status == "ok"]
    bad = [row for row in rows.values() if row.status != "ok"]
    mean, std = mean_and_std(list(scores(good, metric).values()))
    learned: dict[str, list[float]] = {}
    for row in good:
        for name, values in row.learned.items():
            learned.setdefault(name, []).extend(values)
    moved = [
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
        val_mean=mean_and_std(list(scores(good, "val_score").values()))[0],
        paired=pair,
        adjusted_p=adjusted,
        learned={
            name: (statistics.fmean(values), min(values), max(values))
            for name, values in learned.items()
        },
        maxness=statistics.fmean(moved) if moved else None,
        seconds=statistics.median([row.seconds for row in good]) if good else math.nan,
        alone=bool(good) and all(row.alone for row in good),
        errors=sorted({f"{row.status}: {row.error}" for row in bad}),
    )


def _has_aggregator(row: Row, layer: str, value: float) -> bool:
    r"""Whether a layer has the row's aggregator, not a linear one."""
    if row.learned:
        return _layer(layer) in _layers(row)
    return row.aggr != "max" or value > 0


def _layer(name: str) -> str:
    return ".".join(name.split(".")[:2])


def _layers(row: Row) -> set[str]:
    return {_layer(name) for name in row.learned}


def _p(pair: Paired | None) -> float:
    return math.nan if pair is None else pair.p
