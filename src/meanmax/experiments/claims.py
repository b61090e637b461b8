r"""Which of the paper's claims rows support: is an aggregator better than its baseline?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from meanmax.experiments.comparison import BASELINE, Comparison
from meanmax.experiments.paired import Paired, holm
from meanmax.experiments.paper_tables import paper_value
from meanmax.experiments.verdict import ALPHA


@dataclass(frozen=True)
class Claim:
    r"""One aggregator against its baseline, here and in the paper.

    Args:
        data (str): The data set.
        backbone (str): The backbone.
        aggr (str): The aggregator.
        paper (float): The paper's difference of means, in points.
        paired (Paired): Ours, paired over splits.
        adjusted_p (float): Corrected for all claims of the table.
    """

    data: str
    backbone: str
    aggr: str
    paper: float
    paired: Paired
    adjusted_p: float

    @property
    def holds(self) -> str:
        r""":obj:`"better"` or :obj:`"worse"` where the evidence is clear, else
        :obj:`"undecided"`.
        """
        if self.adjusted_p < ALPHA and self.paired.low > 0:
            return "better"
        return "worse" if self.adjusted_p < ALPHA and self.paired.high < 0 else "undecided"

    def as_dict(self) -> dict[str, Any]:
        r"""Plain values."""
        pair = {name: _number(value) for name, value in vars(self.paired).items()}
        facts = {**vars(self), "paired": pair, "holds": self.holds}
        return {name: _number(value) for name, value in facts.items()}


def claims(number: int, comparisons: Sequence[Comparison]) -> list[Claim]:
    r"""All comparisons of a table, with p-values corrected (Holm) for their number.

    Args:
        number (int): The table.
        comparisons (sequence): One for each backbone and data set.
    """
    found = [
        (comparison, line.aggr, line.paired)
        for comparison in comparisons
        for line in comparison.lines
        if line.paired is not None
    ]
    adjusted = holm([pair.p for _, _, pair in found])
    return [
        Claim(
            comparison.data,
            comparison.backbone,
            aggr,
            _paper_gain(number, comparison.backbone, aggr, comparison.data),
            pair,
            p,
        )
        for (comparison, aggr, pair), p in zip(found, adjusted, strict=True)
    ]


def summary(listed: Sequence[Claim]) -> str:
    r"""How many claims hold, in a sentence."""
    if not listed:
        return "No aggregator can be compared with its baseline yet."
    counts = {
        word: sum(claim.holds == word for claim in listed)
        for word in ("better", "worse", "undecided")
    }
    up = sum(claim.paired.difference > 0 for claim in listed)
    paper = sum(claim.paper > 0 for claim in listed)
    return (
        f"Of {len(listed)} comparisons of an aggregator with its baseline, paired over splits, the "
        f"aggregator is clearly better in {counts['better']}, clearly worse in {counts['worse']}, "
        f"and not to be told apart in {counts['undecided']} (interval and Holm-adjusted Wilcoxon "
        f"p < {ALPHA:g}); its mean is higher in {up}. In the paper it is higher in {paper}. Random "
        f"splits of one graph overlap: the p-values look surer than they are."
    )


def _paper_gain(number: int, backbone: str, aggr: str, data: str) -> float:
    name = "ppi" if data == "ppi-go" else data
    own = paper_value(number, backbone, aggr, name)
    base = paper_value(number, backbone, BASELINE, name)
    return math.nan if own is None or base is None else own.mean - base.mean


def _number(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value
