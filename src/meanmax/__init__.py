r"""Learnable neighbourhood aggregators between mean and max for graph neural networks."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meanmax import data, functional, nn
    from meanmax.aggr import (
        LpAggregation,
        PolynomialAggregation,
        SoftmaxAggregation,
        SpreadAggregation,
    )
    from meanmax.aggr.maxness import maxness
    from meanmax.graph import Graph, SparseFeatures
    from meanmax.nn import NodeModel, accelerate, accelerated, build_model, restore
    from meanmax.ops import use_backend
    from meanmax.train import GraphClassifier, GraphRegressor, NodeClassifier, NodeRegressor

__version__ = "0.1.0"

__all__ = [
    "Graph",
    "GraphClassifier",
    "GraphRegressor",
    "LpAggregation",
    "NodeClassifier",
    "NodeModel",
    "NodeRegressor",
    "PolynomialAggregation",
    "SoftmaxAggregation",
    "SparseFeatures",
    "SpreadAggregation",
    "accelerate",
    "accelerated",
    "build_model",
    "data",
    "functional",
    "nn",
    "maxness",
    "restore",
    "use_backend",
]

# Imported when first asked for: the command need not wait for what it does not use.
_PLACES = {
    "Graph": "graph",
    "SparseFeatures": "graph",
    "use_backend": "ops",
    "LpAggregation": "aggr",
    "PolynomialAggregation": "aggr",
    "SoftmaxAggregation": "aggr",
    "SpreadAggregation": "aggr",
    "maxness": "aggr",
    "NodeModel": "nn",
    "accelerate": "nn",
    "accelerated": "nn",
    "build_model": "nn",
    "restore": "nn",
    "GraphClassifier": "train",
    "GraphRegressor": "train",
    "NodeClassifier": "train",
    "NodeRegressor": "train",
}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        value = getattr(import_module(f"meanmax.{_PLACES[name]}"), name)
    elif name in __all__:
        value = import_module(f"meanmax.{name}")
    else:
        raise AttributeError(f"module 'meanmax' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
