r"""The aggregators as PyG modules that hold their learnable parameter."""

from meanmax.aggregators.base import LearnableAggregation
from meanmax.aggregators.lp import LpAggregation
from meanmax.aggregators.maxness import maxness
from meanmax.aggregators.polynomial import PolynomialAggregation
from meanmax.aggregators.softmax import SoftmaxAggregation

__all__ = [
    "LearnableAggregation",
    "LpAggregation",
    "PolynomialAggregation",
    "SoftmaxAggregation",
    "maxness",
]
