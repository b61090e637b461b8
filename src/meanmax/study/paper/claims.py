r"""Which of the paper's claims rows support: is an aggregator better than its baseline?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from meanmax.study.paper.tables import paper_value
from meanmax.study.runs.row import json_safe
from meanmax.study.stats.comparison import BASELINE, Comparison
from meanmax.study.stats.paired import Paired, reachable
from meanmax.study.stats.verdict import ALPHA, ONE_SPLIT


@dataclass(frozen=True)
class Claim:
    r"""One aggregator against its baseline, here and in the paper.

    Args:
        data (str): The data set.
        backbone (str): The backbone.
        aggr (str): The aggregator.
        paper (float): The paper's difference of means, in points.
        paired (Paired): Ours, paired over splits.
        adjusted_p (float): Corrected for the aggregators of one backbone and data set.
        reachable_p (float): The smallest such value that so many splits could give.
        one_split (bool): Whether they are seeds on one split.
    """

    data: str
    backbone: str
    aggr: str
    paper: float
    paired: Paired
    adjusted_p: float
    reachable_p: float
    one_split: bool

    @property
    def holds(self) -> str:
        r""":obj:`"better"` or :obj:`"worse"` where the evidence is clear, :obj:`"too few"` where
        no result on so few splits could be, else :obj:`"undecided"`.
        """
        if not self.reachable_p < ALPHA:
            return "too few"
        if self.adjusted_p < ALPHA and self.paired.low > 0:
            return "better"
        return "worse" if self.adjusted_p < ALPHA and self.paired.high < 0 else "undecided"

    def as_dict(self) -> dict[str, Any]:
        r"""Plain values."""
        found: dict[str, Any] = json_safe(
            {**vars(self), "paired": vars(self.paired), "holds": self.holds}
        )
        return found


def claims(number: int, comparisons: Sequence[Comparison]) -> list[Claim]:
    r"""All comparisons of a table.

    P-values are corrected (Holm) among the aggregators of one backbone on one data set. Over a
    whole table of sixty comparisons nothing could ever count: ten splits give no p-value below
    2/1024. So of some twenty families one may look different by chance, and :func:`summary` says
    so.

    Args:
        number (int): The table.
        comparisons (sequence): One for each backbone and data set.
    """
    return [claim for comparison in comparisons for claim in _family(number, comparison)]


def _family(number: int, comparison: Comparison) -> list[Claim]:
    pairs = [(line, line.paired) for line in comparison.lines if line.paired is not None]
    reach = reachable([pair for _, pair in pairs])
    return [
        Claim(
            comparison.data,
            comparison.backbone,
            line.aggr,
            paper_gain(number, comparison.backbone, line.aggr, comparison.data),
            pair,
            line.adjusted_p,
            least,
            comparison.one_split,
        )
        for (line, pair), least in zip(pairs, reach, strict=True)
    ]


def summary(listed: Sequence[Claim]) -> str:
    r"""How many claims hold, in a sentence."""
    if not listed:
        return "No aggregator can be compared with its baseline yet."
    up = sum(claim.paired.difference > 0 for claim in listed)
    paper = sum(claim.paper > 0 for claim in listed)
    where = " on its own PPI graphs" if any(claim.data == "ppi-go" for claim in listed) else ""
    count = "1 comparison" if len(listed) == 1 else f"{len(listed)} comparisons"
    found = [
        f"Of {count} of an aggregator with its baseline, paired over splits, {_judged(listed)}",
        f"Its mean is higher in {up}; in the paper{where} it is in {paper}.",
    ]
    if all(claim.one_split for claim in listed):
        return f"{' '.join(found).replace('split', 'seed')} {ONE_SPLIT}"
    if any(claim.holds != "too few" for claim in listed):
        found.append("Random splits of one graph overlap: the p-values look surer than they are.")
    return " ".join(found)


def _judged(listed: Sequence[Claim]) -> str:
    r"""Of claims that have splits enough, how many hold; how many have not."""
    counts = Counter(claim.holds for claim in listed)
    few = counts["too few"]
    if few == len(listed):
        return "none has splits enough to tell them apart."
    families = len({(claim.data, claim.backbone) for claim in listed if claim.holds != "too few"})
    said = (
        f"the aggregator is clearly better in {counts['better']}, clearly worse in "
        f"{counts['worse']}, and not to be told apart in {counts['undecided']} (interval without 0 "
        f"and Wilcoxon p < {ALPHA:g}, Holm-adjusted within each backbone and data set: of "
        f"{families} such {'family' if families == 1 else 'families'} {ALPHA * families:.1f} would "
        f"look different by chance)"
    )
    return (
        f"{said}; {few} {'has' if few == 1 else 'have'} too few splits to tell."
        if few
        else f"{said}."
    )


def paper_gain(number: int, backbone: str, aggr: str, data: str) -> float:
    r"""The paper's difference of an aggregator's mean to its baseline's; NaN if it has none."""
    name = "ppi" if data == "ppi-go" else data
    own = paper_value(number, backbone, aggr, name)
    base = paper_value(number, backbone, BASELINE, name)
    return math.nan if own is None or base is None else own.mean - base.mean
