r"""Learnable neighbourhood aggregators between mean and max for graph neural networks."""

from meanmax import functional, layers
from meanmax.aggregators import (
    LpAggregation,
    PolynomialAggregation,
    SoftmaxAggregation,
    maxness,
)
from meanmax.graph import Graph, SparseFeatures
from meanmax.kernels import use_backend
from meanmax.models import NodeModel, build_model
from meanmax.training import NodeClassifier

__version__ = "0.1.0"

__all__ = [
    "Graph",
    "LpAggregation",
    "NodeClassifier",
    "NodeModel",
    "PolynomialAggregation",
    "SoftmaxAggregation",
    "SparseFeatures",
    "build_model",
    "functional",
    "layers",
    "maxness",
    "use_backend",
]
