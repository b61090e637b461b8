"""Masked GCN and CAT written out with dense float64 matrices, from the equations alone."""

from __future__ import annotations

import torch
from torch import Tensor


def adjacency(edges: Tensor, weight: Tensor | None, num_nodes: int) -> Tensor:
    """Entry [v, u] sums the weights of the edges from u to v."""
    matrix = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    values = torch.ones(edges.size(1)) if weight is None else weight
    return matrix.index_put((edges[1], edges[0]), values.double(), accumulate=True)


def simple_edges(num_nodes: int, seed: int = 0) -> Tensor:
    """Directed edges without duplicates or self-loops; the last two nodes are isolated."""
    generator = torch.Generator().manual_seed(seed)
    dense = torch.rand(num_nodes, num_nodes, generator=generator) < 0.2
    dense.fill_diagonal_(False)
    dense[-2:], dense[:, -2:] = False, False
    return dense.nonzero().t().contiguous()


def symmetric(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """The GCN's normalised matrix and the degrees, with self-loops of weight 1."""
    looped = matrix + torch.eye(len(matrix), dtype=torch.float64)
    degree = looped.sum(1)
    return looped / (degree.sqrt()[:, None] * degree.sqrt()[None, :]), degree


def masked_gcn(x, matrix, weight, log_variance, bias):
    normal, degree = symmetric(matrix)
    difference = (x[:, None, :] - x[None, :, :]) ** 2  # [i, j, channel]
    summed = (normal[:, :, None] * difference).sum(1)
    mask = torch.exp(-summed / (log_variance.exp() * degree[:, None]))
    return normal @ ((mask * x) @ weight.T) + bias


def cat(x, matrix, structure, layer, *, explicit):
    """One CAT layer with its parameters taken from ours, head by head."""
    looped = matrix + torch.eye(len(matrix), dtype=torch.float64)
    edge, degree = looped > 0, looped.sum(1)
    away = torch.tensor(-torch.inf, dtype=torch.float64)
    s = torch.where(edge, structure @ structure.T, away).softmax(1)
    heads, channels = layer.heads, layer.out_channels
    weight = layer.lin.weight.double().view(heads, channels, -1)
    outs = []
    for h in range(heads):
        wh = x @ weight[h].T
        left = wh @ layer.att_src.double()[0, h]
        right = wh @ layer.att_dst.double()[0, h]
        score = right[:, None] + left[None, :]
        score = torch.where(score > 0, score, 0.2 * score)
        f = torch.where(edge, score, away).softmax(1)
        if explicit:
            alpha = f * s / (f * s).sum(1, keepdim=True)
        else:
            r = torch.softmax(layer.mix.double()[h], 0)
            alpha = r[0] * f + r[1] * s
        alpha = looped * alpha / (looped * alpha).sum(1, keepdim=True)
        outs.append(alpha @ wh + torch.sigmoid(layer.own.double()) * wh / degree[:, None])
    return torch.cat(outs, 1) + layer.bias.double()


def structure_loss(structure: Tensor, matrix: Tensor) -> Tensor:
    matrix = matrix - torch.diag(torch.diag(matrix))
    return 0.25 * ((matrix - structure @ structure.T) ** 2).sum()
