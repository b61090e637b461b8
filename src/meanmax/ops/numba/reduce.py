r"""Sum and maximum over neighbours, and products along edges, on the numba backend."""

from __future__ import annotations

import numpy as np
import torch
from numba import prange
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.numba.blocks import as_array, blocks_of_graph
from meanmax.ops.numba.gather import edge_dots, gather_sum
from meanmax.ops.numba.launch import kernel, larger, where
from meanmax.ops.numba.vector_math import ONE, ZERO, U


def weighted_sum(x: Tensor, graph: Graph, weight: Tensor | None) -> Tensor:
    r"""Weighted sums over the rows of the graph."""
    blocks, z = blocks_of_graph(graph), as_array(x)
    out = np.empty((graph.num_dst, z.shape[1]), z.dtype)
    edge = blocks.weights(weight, x.dtype).edge
    product(blocks.row_blocks, blocks.rowptr, blocks.col, edge, z, out)
    return torch.from_numpy(out)


def weighted_sum_backward(
    grad: Tensor, x: Tensor, graph: Graph, weight: Tensor | None, need_weight: bool
) -> tuple[Tensor, Tensor | None]:
    r"""The gradients of features and weights."""
    blocks = blocks_of_graph(graph)
    weights = blocks.weights(weight, x.dtype)
    g = as_array(grad)
    dx = np.empty((graph.num_src, g.shape[1]), g.dtype)
    product(blocks.source_blocks, blocks.colptr, blocks.row, weights.transposed, g, dx)
    dw = edge_products(x, grad, graph, weights.edge.shape[1]) if need_weight else None
    return torch.from_numpy(dx), dw


def edge_products(x: Tensor, y: Tensor, graph: Graph, heads: int) -> Tensor:
    r"""The inner product of :obj:`x` at the source and :obj:`y` at the target of every edge, head
    by head, :obj:`[num_edges, heads]`.
    """
    blocks, z = blocks_of_graph(graph), as_array(x)
    out = np.empty((graph.num_edges, heads), z.dtype)
    sampled_products(blocks.row_blocks, blocks.rowptr, blocks.col, z, as_array(y), out)
    return torch.from_numpy(out)


def neighbour_max(x: Tensor, graph: Graph, weight: Tensor | None) -> tuple[Tensor, Tensor]:
    r"""The largest neighbour of positive weight, and how many attain it."""
    blocks, z = blocks_of_graph(graph), as_array(x)
    out, ties = np.empty((2, graph.num_dst, z.shape[1]), z.dtype)
    edge = blocks.weights(weight, x.dtype).edge
    maximum(blocks.row_blocks, blocks.rowptr, blocks.col, edge, z, out, ties)
    return torch.from_numpy(out), torch.from_numpy(ties)


def neighbour_max_backward(
    grad: Tensor, x: Tensor, graph: Graph, weight: Tensor | None, out: Tensor, ties: Tensor
) -> Tensor:
    r"""The gradient of the features, shared evenly among ties."""
    blocks, z = blocks_of_graph(graph), as_array(x)
    transposed = blocks.weights(weight, x.dtype).transposed
    share = as_array(grad) / np.maximum(as_array(ties), 1)
    dx = np.empty_like(z)
    maximum_backward(
        blocks.source_blocks, blocks.colptr, blocks.row, transposed, z, as_array(out), share, dx
    )
    return torch.from_numpy(dx)


@kernel()
def product(blocks, pointer, neighbour, weight, x, out):
    r"""Weighted sums over the rows of :obj:`pointer`, of the graph or of its transpose."""
    for b in prange(blocks.shape[0]):
        acc = np.empty(x.shape[1], x.dtype)
        width = x.shape[1] // weight.shape[1]
        for v in range(blocks[b, 0], blocks[b, 1]):
            gather_sum(acc, x, neighbour, weight, pointer[v], pointer[v + 1], width)
            row = out[v]
            for c in range(x.shape[1]):
                row[c] = acc[c]


@kernel(reassociate=True)
def sampled_products(blocks, rowptr, col, x, y, out):
    r"""Inner products along edges: :math:`\langle y_v, x_u \rangle` per head."""
    for b in prange(blocks.shape[0]):
        width = x.shape[1] // out.shape[1]
        for v in range(blocks[b, 0], blocks[b, 1]):
            edge_dots(y[v], x, col, rowptr[v], rowptr[v + 1], width, out)


@kernel()
def maximum(blocks, rowptr, col, weight, x, out, ties):
    r"""The largest neighbour of positive weight and how many attain it; 0 where there is none."""
    for b in prange(blocks.shape[0]):
        heads = weight.shape[1]
        width = x.shape[1] // heads
        for v in range(blocks[b, 0], blocks[b, 1]):
            best, count = out[v], ties[v]
            for c in range(x.shape[1]):
                best[c] = -np.inf
            for c in range(x.shape[1]):
                count[c] = ZERO
            for e in range(rowptr[v], rowptr[v + 1]):
                z = x[col[e]]
                for h in range(heads):
                    if not weight[e, h] > ZERO:
                        continue
                    start, stop = U(h) * U(width), U(h) * U(width) + U(width)
                    for c in range(start, stop):
                        more = count[c] + where(z[c] == best[c], ONE, ZERO)
                        count[c] = where(z[c] > best[c], ONE, more)
                    for c in range(start, stop):
                        best[c] = larger(z[c], best[c])
            for c in range(x.shape[1]):
                best[c] = where(count[c] > ZERO, best[c], ZERO)


@kernel()
def maximum_backward(blocks, colptr, row_of, weight, x, out, share, grad):
    r"""Gives each neighbour that attains the maximum its equal share of the gradient."""
    for b in prange(blocks.shape[0]):
        heads = weight.shape[1]
        width = x.shape[1] // heads
        for u in range(blocks[b, 0], blocks[b, 1]):
            z, grad_row = x[u], grad[u]
            for c in range(x.shape[1]):
                grad_row[c] = ZERO
            for e in range(colptr[u], colptr[u + 1]):
                best, part = out[row_of[e]], share[row_of[e]]
                for h in range(heads):
                    if not weight[e, h] > ZERO:
                        continue
                    start = U(h) * U(width)
                    for c in range(start, start + U(width)):
                        grad_row[c] += where(z[c] == best[c], part[c], ZERO)
