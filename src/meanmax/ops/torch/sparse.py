r"""Sparse products with the graph's matrix and its transpose, head by head."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from meanmax.graph import Graph


def product(x: Tensor, graph: Graph, weight: Tensor) -> Tensor:
    r"""Weighted sums over the rows of the graph.

    Args:
        x (Tensor): :obj:`[num_src, channels]`.
        graph (Graph): The graph.
        weight (Tensor): In CSR order, :obj:`[num_edges, heads]`; heads divide the channels.
    """
    size = (graph.num_dst, graph.num_src)
    return _by_head(graph.rowptr, graph.col, weight, size, x)


def transposed_product(x: Tensor, graph: Graph, weight: Tensor) -> Tensor:
    r"""The same with the transpose: sums over the edges that leave each source."""
    size = (graph.num_src, graph.num_dst)
    weight = weight.index_select(0, graph.csc_to_csr)
    return _by_head(graph.colptr, graph.row, weight, size, x)


def _by_head(
    pointer: Tensor, neighbour: Tensor, weight: Tensor, size: tuple[int, int], x: Tensor
) -> Tensor:
    heads = weight.size(1)
    if heads == 1:
        return _csr(pointer, neighbour, weight[:, 0], size) @ x
    blocks = x.view(x.size(0), heads, -1).unbind(1)
    parts = [
        _csr(pointer, neighbour, weight[:, h].contiguous(), size) @ block.contiguous()
        for h, block in enumerate(blocks)
    ]
    return torch.cat(parts, dim=1)


def _csr(pointer: Tensor, neighbour: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse", category=UserWarning)
        return torch.sparse_csr_tensor(pointer, neighbour, values, size, check_invariants=False)
