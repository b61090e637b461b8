r"""The aggregators as PyG modules that hold their learnable parameter."""

from meanmax.aggr.base import LearnableAggregation, TiltedAggregation
from meanmax.aggr.lp import LpAggregation
from meanmax.aggr.maxness import maxness
from meanmax.aggr.polynomial import PolynomialAggregation
from meanmax.aggr.softmax import SoftmaxAggregation, SpreadAggregation

AGGREGATIONS: dict[str, type[LearnableAggregation]] = {
    "lp": LpAggregation,
    "poly": PolynomialAggregation,
    "softmax": SoftmaxAggregation,
    "spread": SpreadAggregation,
}
r"""The learnable aggregators by the names of :mod:`meanmax.names`."""

__all__ = [
    "AGGREGATIONS",
    "LearnableAggregation",
    "LpAggregation",
    "PolynomialAggregation",
    "SoftmaxAggregation",
    "SpreadAggregation",
    "TiltedAggregation",
    "maxness",
]
