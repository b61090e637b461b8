r"""Learnable neighbourhood aggregators between mean and max for graph neural networks."""

from meanmax import functional
from meanmax.aggregators import (
    LpAggregation,
    PolynomialAggregation,
    SoftmaxAggregation,
    maxness,
)
from meanmax.graph import Graph, SparseFeatures
from meanmax.kernels import use_backend

__version__ = "0.1.0"

__all__ = [
    "Graph",
    "LpAggregation",
    "PolynomialAggregation",
    "SoftmaxAggregation",
    "SparseFeatures",
    "functional",
    "maxness",
    "use_backend",
]
