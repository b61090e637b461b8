r"""PyG's call, messages and the group of each, in terms of a graph with one source per message."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.graph.checks import as_index


class Messages(NamedTuple):
    r"""Messages as the functional core takes them, and the way back.

    Args:
        x (Tensor): :obj:`[batch * num_messages, heads, channels]`, without :obj:`heads` where the
            messages have none.
        graph (Graph): From each message to its group, once for each element of the batch.
        weight (Tensor, optional): :obj:`[batch * num_messages]`, with :obj:`heads` if given so.
        features (tuple): The shape of one message.
        out_shape (tuple): The shape of the result.
    """

    x: Tensor
    graph: Graph
    weight: Tensor | None
    features: tuple[int, ...]
    out_shape: tuple[int, ...]


def as_messages(
    x: Tensor,
    index: Tensor | None,
    ptr: Tensor | None,
    dim_size: int | None,
    dim: int,
    weight: Tensor | None,
) -> Messages:
    r"""Brings :obj:`x`, :obj:`[*batch, num_messages, *features]`, to the shapes of the core.

    Leading dimensions are a batch of independent inputs, as the graphs of a batch are.
    """
    dim = range(x.dim())[dim]
    leading, size, features = x.shape[:dim], x.size(dim), tuple(x.shape[dim + 1 :])
    graph = group_graph(index, ptr, size, dim_size, x.device)
    out_shape = (*leading, graph.num_dst, *features)
    batch = math.prod(leading)
    if batch > 1:
        graph = Graph.batch([graph] * batch)
        if weight is not None:
            weight = weight.repeat(batch, *[1] * (weight.dim() - 1))
    trailing = features
    if len(features) > 2:
        trailing = (math.prod(features[:-1]), features[-1])
    return Messages(x.reshape(batch * size, *trailing), graph, weight, features, out_shape)


def group_graph(
    index: Tensor | None,
    ptr: Tensor | None,
    size: int,
    dim_size: int | None,
    device: torch.device,
) -> Graph:
    r"""The graph from each of :obj:`size` messages to its group, by :obj:`ptr` if there is one."""
    each = torch.arange(size, device=device)
    if ptr is not None:
        return Graph.from_csr(as_index(ptr, "ptr"), each, num_src=size)
    if index is None:
        raise ValueError("aggregation needs the groups of the messages: pass 'index' or 'ptr'")
    index = as_index(index, "index")
    if index.dim() != 1 or index.numel() != size:
        raise ValueError(
            f"'index' must hold the group of each of {size} messages (got {list(index.shape)})"
        )
    needed = int(index.max()) + 1 if size > 0 else 0
    if dim_size is None:
        dim_size = needed
    elif dim_size < needed:
        raise ValueError(
            f"Encountered invalid 'dim_size' (got '{dim_size}' but expected >= '{needed}')"
        )
    edges = torch.stack([each.to(index.dtype), index])
    return Graph.from_edge_index(edges, num_nodes=(size, dim_size))
