r"""What PyTorch Geometric's layers are called with: dense features and edges, made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import add_self_loops, remove_self_loops

from meanmax.graph import (Graph, SparseFeatures)
from meanmax.nn.linear import Features

Edges: TypeAlias = Literal["normalized", "looped", "plain"]

_DENSE: WeakKeyDictionary[SparseFeatures, Tensor] = WeakKeyDictionary()


def dense(x: Features, dtype: torch.dtype) -> Tensor:
    r"""The features as a dense tensor. That of sparse features is remembered as long as they live,
    unless they carry a gradient.

    Args:
        x (Tensor or SparseFeatures): The features.
        dtype (torch.dtype): The type that sparse features take; dense ones keep theirs.
    """
    if isinstance(x, Tensor):
        return x
    if x.value.requires_grad:
        return x.to_dense().to(dtype)
    if x not in _DENSE or _DENSE[x].dtype != dtype:
        with torch.inference_mode(False):  # what is remembered may be trained with later
            _DENSE[x] = x.to_dense().to(dtype)
    return _DENSE[x]


def edges_of(graph: Graph, edges: Edges, dtype: torch.dtype) -> tuple[Tensor, ...]:
    r"""What a layer takes after the features. It is remembered with the graph, unless weights that
    carry a gradient play a part in it.

    Args:
        graph (Graph): The graph as it is.
        edges (str): :obj:`"normalized"` for :obj:`edge_index` with self-loops and the weights of
            PyG's :obj:`gcn_norm`, in which the graph's own weights play a part;
            :obj:`"looped"` for :obj:`edge_index` with self-loops in place of those there are, as
            PyG's :obj:`GATConv` makes them; :obj:`"plain"` for :obj:`edge_index` as it is. The
            latter two leave the graph's weights out.
        dtype (torch.dtype): The type of normalised weights.
    """
    if edges == "normalized":
        weight = graph.weight
        if weight is not None and weight.dim() != 1:
            raise ValueError(
                f"PyG's GCNConv takes one weight per edge (got {weight.size(1)}): pass "
                f"graph.with_weight(graph.edge_weight.mean(1)), or graph.with_weight(None)"
            )
        if weight is not None and weight.requires_grad:
            return _normalized(graph, dtype)
    key = ("pyg", edges, dtype if edges == "normalized" else None)
    if key not in graph.cache:
        with torch.inference_mode(False):  # what is remembered may be trained with later
            graph.cache[key] = _MAKE[edges](graph, dtype)
    found: tuple[Tensor, ...] = graph.cache[key]
    return found


def _normalized(graph: Graph, dtype: torch.dtype) -> tuple[Tensor, ...]:
    weight = graph.edge_weight
    weight = None if weight is None else weight.to(dtype)
    index, normalized = gcn_norm(graph.edge_index, weight, graph.num_nodes, dtype=dtype)
    return index, normalized


def _looped(graph: Graph, _: torch.dtype) -> tuple[Tensor, ...]:
    index, _none = remove_self_loops(graph.edge_index)
    index, _none = add_self_loops(index, num_nodes=graph.num_nodes)
    return (index,)


def _plain(graph: Graph, _: torch.dtype) -> tuple[Tensor, ...]:
    return (graph.edge_index,)


_MAKE: dict[Edges, Callable[[Graph, torch.dtype], tuple[Tensor, ...]]] = {
    "normalized": _normalized,
    "looped": _looped,
    "plain": _plain,
}
