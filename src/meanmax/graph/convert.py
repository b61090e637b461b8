"""Edges as other libraries hold them: PyG's Data, scipy's sparse matrices, networkx's graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.sparse import issparse
from torch import Tensor
from torch_geometric.data import Batch, Data

from meanmax.graph.build import EdgeList

if TYPE_CHECKING:
    import networkx


def edges_of_data(data: Any, weight: str | None) -> EdgeList:
    r"""Reads :obj:`edge_index`, :obj:`num_nodes` and the attribute :obj:`weight` of PyG data."""
    if not isinstance(data, Data):
        raise TypeError(
            "'data' must be a torch_geometric.data.Data or a Batch of them "
            f"(got {type(data).__name__})"
        )
    if data.edge_index is None:
        raise ValueError(f"'data' has no 'edge_index' (it has {sorted(data.keys())})")
    values = None if weight is None else data.get(weight)
    if values is None and weight not in (None, "edge_weight"):
        raise ValueError(f"'data' has no edge weights {weight!r} (it has {sorted(data.keys())})")
    ptr = data.get("ptr") if isinstance(data, Batch) else None
    batch = data.get("batch") if ptr is None else None
    return EdgeList(data.edge_index, data.num_nodes, values, batch, ptr)


def edges_of_scipy(matrix: Any) -> EdgeList:
    r"""Reads a sparse matrix whose entry :obj:`[i, j]` is the weight of the edge from i to j."""
    if not issparse(matrix) or len(matrix.shape) != 2:
        raise TypeError(
            f"'matrix' must be a two-dimensional scipy sparse matrix (got {type(matrix).__name__})"
        )
    coo = matrix.tocoo()
    edge_index = torch.from_numpy(np.stack([coo.row, coo.col]))
    weight = torch.from_numpy(np.require(coo.data, coo.data.dtype.newbyteorder("="), ["W"]))
    return EdgeList(edge_index, (coo.shape[0], coo.shape[1]), weight)


def edges_of_networkx(graph: networkx.Graph, weight: str | None) -> EdgeList:
    r"""Reads a networkx graph: nodes are numbered in the order of :obj:`graph.nodes`, and an
    undirected edge points both ways (the backward edges follow the forward ones), a self-loop
    once.
    """
    number = {node: i for i, node in enumerate(graph.nodes)}
    edges = list(graph.edges(data=False if weight is None else weight))
    src = _numbers(number, (edge[0] for edge in edges), len(edges))
    dst = _numbers(number, (edge[1] for edge in edges), len(edges))
    values = None if weight is None else _values(edges, weight)
    if not graph.is_directed():
        back = (src != dst).nonzero().view(-1)
        src, dst = torch.cat([src, dst[back]]), torch.cat([dst, src[back]])
        values = None if values is None else torch.cat([values, values[back]])
    return EdgeList(torch.stack([src, dst]), len(number), values)


def _numbers(number: Mapping[Any, int], nodes: Iterable[Any], count: int) -> Tensor:
    return torch.from_numpy(np.fromiter((number[node] for node in nodes), np.int64, count))


def _values(edges: list[tuple[Any, Any, Any]], weight: str) -> Tensor:
    for u, v, value in edges:
        if value is None:
            raise ValueError(f"the edge {u!r} -> {v!r} has no attribute {weight!r}")
    return torch.tensor([value for _, _, value in edges], dtype=torch.get_default_dtype())
