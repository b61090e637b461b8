r"""Which of the paper's claims the rows support: is an aggregator better than its baseline?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from meanmax.study.paper.result_tables import paper_value
from meanmax.study.stats.comparison import ALPHA, BASELINE, Comparison, Judgement
from meanmax.study.stats.paired import Paired
from meanmax.study.stats.verdict import CAVEAT, ONE_SPLIT, unit_of


@dataclass(frozen=True)
class Claim:
    r"""One aggregator against its baseline, here and in the paper.

    Args:
        data (str): The data set.
        backbone (str): The backbone.
        aggr (str): The aggregator.
        paper (float): The paper's difference of means, in points.
        paired (Paired): Ours, paired over splits.
        adjusted_p (float): The p-value, corrected for the aggregators of one comparison.
        reachable_p (float): The smallest such value that its number of splits allows.
        one_split (bool): Whether the runs are seeds on one split.
        holds (str): The judgement of :class:`~meanmax.study.stats.comparison.Line`.
    """

    data: str
    backbone: str
    aggr: str
    paper: float
    paired: Paired
    adjusted_p: float
    reachable_p: float
    one_split: bool
    holds: Judgement


def claims(number: int, comparisons: Sequence[Comparison]) -> list[Claim]:
    r"""The claims of a table.

    P-values are corrected (Holm) among the aggregators of one backbone on one data set. Over a
    whole table of sixty comparisons nothing could ever be significant: ten splits give no p-value
    below 2/1024. So one of some twenty families may look different by chance, and :func:`summary`
    says so.

    Args:
        number (int): The table.
        comparisons (sequence): One for each backbone and data set.
    """
    return [
        Claim(
            comparison.data,
            comparison.backbone,
            line.aggr,
            paper_gain(number, comparison.backbone, line.aggr, comparison.data),
            line.paired,
            line.adjusted_p,
            line.reachable_p,
            comparison.one_split,
            line.judgement,
        )
        for comparison in comparisons
        for line in comparison.lines
        if line.paired is not None and line.judgement is not None
    ]


def summary(listed: Sequence[Claim], *, caveat: bool = True) -> str:
    r"""The number of claims that hold, in sentences.

    Args:
        listed (sequence): The claims of a table.
        caveat (bool, optional): Whether the sentences include the caveat on random splits, where
            it applies. (default: :obj:`True`)
    """
    if not listed:
        return "No aggregator can be compared with its baseline yet."
    one_split = all(claim.one_split for claim in listed)
    unit = unit_of(one_split)
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
    name = "ppi" if data == "ppi-go" else data
    own = paper_value(number, backbone, aggr, name)
    base = paper_value(number, backbone, BASELINE, name)
    return math.nan if own is None or base is None else own.mean - base.mean
