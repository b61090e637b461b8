r"""Graphs, features, labels and masks in the forms that people have them in."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data

from meanmax.graph import (Graph, SparseFeatures)
from meanmax.nn.linear import Features


def as_graph(graph: Any, num_nodes: int) -> Graph:
    r"""A graph from a :class:`~meanmax.Graph`, an :obj:`edge_index`, PyG's :obj:`Data`, a scipy
    matrix or a networkx graph.
    """
    if isinstance(graph, Graph) and not graph.is_whole:
        raise ValueError(
            "'graph' is a part of a graph that is spread over processes, which a classifier alone "
            "does not share its gradients with: use meanmax.scale.distributed_init.fit_parts"
        )
    if isinstance(graph, Graph):
        found = graph
    elif isinstance(graph, Data):
        found = Graph.from_data(graph)
    elif scipy.sparse.issparse(graph):
        found = Graph.from_scipy(graph)
    elif isinstance(graph, Tensor | np.ndarray | list | tuple):
        found = Graph.from_edge_index(graph, num_nodes)
    elif hasattr(graph, "nodes") and hasattr(graph, "edges"):
        found = Graph.from_networkx(graph)
    else:
        raise ValueError(
            f"'graph' must be a meanmax.Graph, an edge_index, PyG Data, a scipy sparse matrix or a "
            f"networkx graph (got {type(graph).__name__})"
        )
    if found.num_nodes != num_nodes:
        raise ValueError(
            f"'x' has {num_nodes} rows, but the graph has {found.num_nodes} nodes: give one row of "
            f"features for each node"
        )
    return found


def as_features(x: Any) -> Features:
    r"""Features from a tensor, an array, a data frame, or anything sparse; all must be finite."""
    if x is None:
        raise ValueError(
            "'x' is None, but nodes need features; a graph without any can use "
            "torch.eye(num_nodes) or the nodes' degrees"
        )
    if isinstance(x, SparseFeatures):
        found: Features = x
    elif scipy.sparse.issparse(x):
        found = SparseFeatures.from_scipy(x)
    elif isinstance(x, Tensor) and x.layout != torch.strided:
        found = SparseFeatures.from_torch(x, torch.float32)
    else:
        try:
            found = x.detach() if isinstance(x, Tensor) else torch.from_numpy(np.array(x))
            found = found.to(torch.get_default_dtype())
        except (TypeError, ValueError) as error:
            raise ValueError(f"'x' must hold numbers ({error})") from None
    if len(found.shape) != 2 or 0 in found.shape:
        raise ValueError(
            f"'x' must be [num_nodes, num_features] and not empty (got {list(found.shape)})"
        )
    values = found if isinstance(found, Tensor) else found.value
    wrong = ~torch.isfinite(values)
    if bool(wrong.any()):
        where = "" if not isinstance(found, Tensor) else f", first in row {_first_row(wrong)}"
        raise ValueError(
            f"'x' has {int(wrong.sum())} values that are NaN or infinite{where}: replace them, for "
            f"instance by the feature's mean"
        )
    return found


def as_index(mask: Any, num_nodes: int, name: str) -> Tensor:
    r"""Node indices from a mask or from indices; not empty, none twice."""
    given = mask.detach().cpu() if isinstance(mask, Tensor) else torch.from_numpy(np.array(mask))
    if given.dim() != 1:
        raise ValueError(f"'{name}' must be a mask or a list of nodes (got {list(given.shape)})")
    if given.dtype == torch.bool:
        if given.numel() != num_nodes:
            raise ValueError(
                f"'{name}' is a mask of {given.numel()} nodes, but there are {num_nodes}"
            )
        index = given.nonzero().view(-1)
    elif given.is_floating_point() or given.is_complex():
        raise ValueError(f"'{name}' must be a bool mask or integer indices (got {given.dtype})")
    elif given.numel() == num_nodes > 2 and bool(((given == 0) | (given == 1)).all()):
        raise ValueError(
            f"'{name}' looks like a mask of zeros and ones, which would be read as the nodes 0 and "
            f"1: pass it as bool, for instance {name}.astype(bool)"
        )
    else:
        index = torch.unique(given.long())
        if index.numel() and not 0 <= int(index[0]) <= int(index[-1]) < num_nodes:
            raise ValueError(
                f"'{name}' must hold nodes from 0 to {num_nodes - 1} "
                f"(got {int(index[0])} to {int(index[-1])})"
            )
    if index.numel() == 0:
        raise ValueError(f"'{name}' selects no node")
    return index


def _first_row(wrong: Tensor) -> int:
    return int(wrong.any(dim=1).nonzero()[0])
