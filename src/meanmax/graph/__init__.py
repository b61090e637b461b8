"""The graph: compressed rows and columns of one graph or a batch, built once, with weights."""

from meanmax.graph.graph import Graph
from meanmax.graph.sparse_features import SparseFeatures

__all__ = ["Graph", "SparseFeatures"]
