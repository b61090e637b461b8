r"""Learnable neighbourhood aggregators between mean and max for graph neural networks."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meanmax import data, functional, layers
    from meanmax.aggregators import (
        LpAggregation,
        PolynomialAggregation,
        SoftmaxAggregation,
    )
    from meanmax.aggregators.maxness import maxness
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
    "data",
    "functional",
    "layers",
    "maxness",
    "use_backend",
]

# Imported when first asked for: the command need not wait for what it does not use.
_PLACES = {
    "Graph": "graph",
    "SparseFeatures": "graph",
    "use_backend": "kernels",
    "LpAggregation": "aggregators",
    "PolynomialAggregation": "aggregators",
    "SoftmaxAggregation": "aggregators",
    "maxness": "aggregators",
    "NodeModel": "models",
    "build_model": "models",
    "NodeClassifier": "training",
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
