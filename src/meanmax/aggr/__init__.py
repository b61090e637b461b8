r"""The aggregators as PyG modules that hold their learnable parameter."""

from meanmax.aggr.base import LearnableAggregation
from meanmax.aggr.lp import LpAggregation
from meanmax.aggr.maxness import maxness
from meanmax.aggr.polynomial import PolynomialAggregation
from meanmax.aggr.softmax import SoftmaxAggregation

__all__ = [
    "LearnableAggregation",
    "LpAggregation",
    "PolynomialAggregation",
    "SoftmaxAggregation",
    "maxness",
]
