r"""Softmax over the edges of each target, with scores that edges get from their two ends."""

from __future__ import annotations

import numpy as np
import torch
from numba import prange
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.numba.blocks import as_array, blocks_of_graph
from meanmax.ops.numba.launch import kernel, larger, subroutine, where
from meanmax.ops.numba.vector_math import ONE, ZERO, U, exp


def attention(source: Tensor, target: Tensor, graph: Graph, slope: float) -> Tensor:
    r"""Attention of every edge, :obj:`[num_edges, heads]`."""
    blocks, s = blocks_of_graph(graph), as_array(source)
    alpha = np.empty((graph.num_edges, s.shape[1]), s.dtype)
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
def score_softmax(blocks, rowptr, col, source, target, slope, alpha):
    r"""Softmax of :math:`\mathrm{LeakyReLU}(s_u + t_v)` over the edges of each target."""
    for b in prange(blocks.shape[0]):
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
    blocks, rowptr, col, source, target, slope, alpha, grad, edge_grad, target_grad
):  # fmt: skip
    r"""The gradient of every edge's score before the bend, and its sums over targets."""
    for b in prange(blocks.shape[0]):
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
def sum_by_source(blocks, colptr, position, values, out):
    r"""Sums values of edges over the edges that leave each source."""
    for b in prange(blocks.shape[0]):
        for u in range(blocks[b, 0], blocks[b, 1]):
            row = out[u]
            for h in range(values.shape[1]):
                row[h] = ZERO
            for e in range(colptr[u], colptr[u + 1]):
                value = values[position[e]]
                for h in range(values.shape[1]):
                    row[h] += value[h]


@kernel()
def softmax_in_place(blocks, rowptr, alpha):
    r"""Softmax of given scores over the edges of each target."""
    for b in prange(blocks.shape[0]):
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
def softmax_backward(blocks, rowptr, alpha, grad, out):
    r"""The gradient of the scores of a softmax."""
    for b in prange(blocks.shape[0]):
        mean = np.empty(alpha.shape[1], alpha.dtype)
        for v in range(blocks[b, 0], blocks[b, 1]):
            mean_gradient(alpha, grad, rowptr[v], rowptr[v + 1], mean)
            for e in range(rowptr[v], rowptr[v + 1]):
                a, g, row = alpha[e], grad[e], out[e]
                for h in range(alpha.shape[1]):
                    row[h] = a[h] * (g[h] - mean[h])
