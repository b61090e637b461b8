r"""Sum, maximum and attention over neighbours, and products along edges, on the numba backend."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.numba.blocks import as_array, blocks_of_graph
from meanmax.ops.numba.gather import edge_dots, gather_sum
from meanmax.ops.numba.launch import kernel, larger, scratch, subroutine, where
from meanmax.ops.numba.memory import empty, empty_like
from meanmax.ops.numba.vector_math import ONE, ZERO, U, exp


def weighted_sum(x: Tensor, graph: Graph, weight: Tensor | None) -> Tensor:
    r"""Weighted sums over the rows of the graph."""
    blocks, z = blocks_of_graph(graph), as_array(x)
    out = empty((graph.num_dst, z.shape[1]), z.dtype)
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
    dx = empty((graph.num_src, g.shape[1]), g.dtype)
    product(blocks.source_blocks, blocks.colptr, blocks.row, weights.transposed, g, dx)
    dw = edge_products(x, grad, graph, weights.edge.shape[1]) if need_weight else None
    return torch.from_numpy(dx), dw


def edge_products(x: Tensor, y: Tensor, graph: Graph, heads: int) -> Tensor:
    r"""The inner product of :obj:`x` at the source and :obj:`y` at the target of every edge, head
    by head, :obj:`[num_edges, heads]`.
    """
    blocks, z = blocks_of_graph(graph), as_array(x)
    out = empty((graph.num_edges, heads), z.dtype)
    sampled_products(blocks.row_blocks, blocks.rowptr, blocks.col, z, as_array(y), out)
    return torch.from_numpy(out)


def neighbour_max(x: Tensor, graph: Graph, weight: Tensor | None) -> tuple[Tensor, Tensor]:
    r"""The largest neighbour of positive weight, and how many attain it."""
    blocks, z = blocks_of_graph(graph), as_array(x)
    out, ties = (empty((graph.num_dst, z.shape[1]), z.dtype) for _ in range(2))
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
    dx = empty_like(z)
    maximum_backward(
        blocks.source_blocks, blocks.colptr, blocks.row, transposed, z, as_array(out), share, dx
    )
    return torch.from_numpy(dx)


def attention(source: Tensor, target: Tensor, graph: Graph, slope: float) -> Tensor:
    r"""Attention of every edge, :obj:`[num_edges, heads]`."""
    blocks, s = blocks_of_graph(graph), as_array(source)
    alpha = empty((graph.num_edges, s.shape[1]), s.dtype)
    bend = s.dtype.type(slope)
    score_softmax(blocks.row_blocks, blocks.rowptr, blocks.col, s, as_array(target), bend, alpha)
    return torch.from_numpy(alpha)


def attention_backward(
    grad: Tensor, alpha: Tensor, source: Tensor, target: Tensor, graph: Graph, slope: float
) -> tuple[Tensor, Tensor]:
    r"""The gradients of the scores of sources and of targets."""
    blocks, s, t = blocks_of_graph(graph), as_array(source), as_array(target)
    edge, by_source, by_target = np.empty_like(as_array(alpha)), np.empty_like(s), np.empty_like(t)
    score_softmax_backward(
        blocks.row_blocks, blocks.rowptr, blocks.col, s, t, s.dtype.type(slope), as_array(alpha),
        as_array(grad), edge, by_target,
    )  # fmt: skip
    sum_by_source(blocks.source_blocks, blocks.colptr, blocks.csc_to_csr, edge, by_source)
    return torch.from_numpy(by_source), torch.from_numpy(by_target)


def row_softmax(score: Tensor, graph: Graph) -> Tensor:
    r"""The softmax of scores over the edges of each target."""
    blocks, alpha = blocks_of_graph(graph), as_array(score).copy()
    softmax_in_place(blocks.row_blocks, blocks.rowptr, alpha)
    return torch.from_numpy(alpha)


def row_softmax_backward(grad: Tensor, alpha: Tensor, graph: Graph) -> Tensor:
    r"""The gradient of the scores."""
    blocks, out = blocks_of_graph(graph), np.empty_like(as_array(alpha))
    softmax_backward(blocks.row_blocks, blocks.rowptr, as_array(alpha), as_array(grad), out)
    return torch.from_numpy(out)


@kernel()
def product(b, blocks, pointer, neighbour, weight, x, out):
    r"""Weighted sums over the rows of :obj:`pointer`, of the graph or of its transpose."""
    acc = scratch(x.shape[1], x.dtype)
    width = x.shape[1] // weight.shape[1]
    for v in range(blocks[b, 0], blocks[b, 1]):
        gather_sum(acc, x, neighbour, weight, pointer[v], pointer[v + 1], width)
        row = out[v]
        for c in range(x.shape[1]):
            row[c] = acc[c]


@kernel(reassociate=True)
def sampled_products(b, blocks, rowptr, col, x, y, out):
    r"""Inner products along edges: :math:`\langle y_v, x_u \rangle` per head."""
    width = x.shape[1] // out.shape[1]
    for v in range(blocks[b, 0], blocks[b, 1]):
        edge_dots(y[v], x, col, rowptr[v], rowptr[v + 1], width, out)


@kernel()
def maximum(b, blocks, rowptr, col, weight, x, out, ties):
    r"""The largest neighbour of positive weight and how many attain it; 0 where there is none."""
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
def maximum_backward(b, blocks, colptr, row_of, weight, x, out, share, grad):
    r"""Gives each neighbour that attains the maximum its equal share of the gradient."""
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


@subroutine
def normalise(alpha, first, last, top, total):
    r"""Turns the scores of a row, of which :obj:`top` are the largest, into their softmax."""
    heads = alpha.shape[1]
    for h in range(heads):
        total[h] = ZERO
    for e in range(first, last):
        row = alpha[e]
        for h in range(heads):
            row[h] -= top[h]
    flat = alpha[first:last].reshape(-1)
    for i in range(U(flat.size)):  # one long loop: heads may be few
        flat[i] = exp(flat[i])
    for e in range(first, last):
        row = alpha[e]
        for h in range(heads):
            total[h] += row[h]
    for h in range(heads):
        total[h] = ONE / total[h]
    for e in range(first, last):
        row = alpha[e]
        for h in range(heads):
            row[h] *= total[h]


@kernel()
def score_softmax(b, blocks, rowptr, col, source, target, slope, alpha):
    r"""Softmax of :math:`\mathrm{LeakyReLU}(s_u + t_v)` over the edges of each target."""
    heads = source.shape[1]
    top, total = np.empty(heads, source.dtype), np.empty(heads, source.dtype)
    for v in range(blocks[b, 0], blocks[b, 1]):
        of_target = target[v]
        for h in range(heads):
            top[h] = -np.inf
        for e in range(rowptr[v], rowptr[v + 1]):
            of_source, row = source[col[e]], alpha[e]
            for h in range(heads):
                score = of_source[h] + of_target[h]
                row[h] = where(score > ZERO, score, slope * score)
            for h in range(heads):
                top[h] = larger(row[h], top[h])
        normalise(alpha, rowptr[v], rowptr[v + 1], top, total)


@kernel()
def score_softmax_backward(
    b, blocks, rowptr, col, source, target, slope, alpha, grad, edge_grad, target_grad
):  # fmt: skip
    r"""The gradient of every edge's score before the LeakyReLU, and its sums over targets."""
    heads = source.shape[1]
    mean = np.empty(heads, source.dtype)
    for v in range(blocks[b, 0], blocks[b, 1]):
        of_target, summed = target[v], target_grad[v]
        mean_gradient(alpha, grad, rowptr[v], rowptr[v + 1], mean)
        for h in range(heads):
            summed[h] = ZERO
        for e in range(rowptr[v], rowptr[v + 1]):
            of_source, a, g, out = source[col[e]], alpha[e], grad[e], edge_grad[e]
            for h in range(heads):
                bend = where(of_source[h] + of_target[h] > ZERO, ONE, slope)
                out[h] = bend * a[h] * (g[h] - mean[h])
            for h in range(heads):
                summed[h] += out[h]


@subroutine
def mean_gradient(alpha, grad, first, last, mean):
    r"""The attention-weighted mean of a row's gradients, which the softmax subtracts."""
    for h in range(alpha.shape[1]):
        mean[h] = ZERO
    for e in range(first, last):
        a, g = alpha[e], grad[e]
        for h in range(alpha.shape[1]):
            mean[h] += a[h] * g[h]


@kernel()
def sum_by_source(b, blocks, colptr, position, values, out):
    r"""Sums values of edges over the edges that leave each source."""
    for u in range(blocks[b, 0], blocks[b, 1]):
        row = out[u]
        for h in range(values.shape[1]):
            row[h] = ZERO
        for e in range(colptr[u], colptr[u + 1]):
            value = values[position[e]]
            for h in range(values.shape[1]):
                row[h] += value[h]


@kernel()
def softmax_in_place(b, blocks, rowptr, alpha):
    r"""Softmax of given scores over the edges of each target."""
    heads = alpha.shape[1]
    top, total = np.empty(heads, alpha.dtype), np.empty(heads, alpha.dtype)
    for v in range(blocks[b, 0], blocks[b, 1]):
        for h in range(heads):
            top[h] = -np.inf
        for e in range(rowptr[v], rowptr[v + 1]):
            row = alpha[e]
            for h in range(heads):
                top[h] = larger(row[h], top[h])
        normalise(alpha, rowptr[v], rowptr[v + 1], top, total)


@kernel()
def softmax_backward(b, blocks, rowptr, alpha, grad, out):
    r"""The gradient of the scores of a softmax."""
    mean = scratch(alpha.shape[1], alpha.dtype)
    for v in range(blocks[b, 0], blocks[b, 1]):
        mean_gradient(alpha, grad, rowptr[v], rowptr[v + 1], mean)
        for e in range(rowptr[v], rowptr[v + 1]):
            a, g, row = alpha[e], grad[e], out[e]
            for h in range(alpha.shape[1]):
                row[h] = a[h] * (g[h] - mean[h])
