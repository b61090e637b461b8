r"""Tilted norms: the Lp aggregator."""

from __future__ import annotations

import torch
from torch import Tensor

from meanmax.ops.scaling import Channel
from meanmax.ops.torch.tilted import Pieces
from meanmax.ops.torch.sparse import transposed_product
from meanmax.ops.torch.state import State
from meanmax.ops.torch.tilt import (power_slope, power_tilt, relative_log)


def norm_output(state: State) -> Tensor:
    r"""The norm of every row plus the shift."""
    nodes = state.nodes
    out = nodes.dst(Channel.RANGE) * _norm(state) + nodes.dst(Channel.MU) * _root(state)
    return torch.where(state.total > 0, out, 0.0)


def norm_backward(state: State, grad: Tensor) -> Pieces:
    r"""One product with the transpose."""
    nodes, x = state.nodes, state.x
    p = nodes.dst(Channel.THETA)
    alive = state.below > 0
    # S^(1/p - 1); without a neighbour above the origin only p = 1 has a slope there.
    slope = torch.where(alive, _norm(state) / _one(state.below), (p == 1).to(x.dtype))
    grad = torch.where(state.total > 0, grad, 0.0)
    q = slope * grad
    carried = transposed_product(q, state.graph, state.weight)
    logarithm = relative_log(x, nodes)
    tilt = power_tilt(x, nodes, logarithm)
    dx = power_slope(x, nodes, tilt) * carried
    span, mu = nodes.table[:, Channel.RANGE].double(), nodes.table[:, Channel.MU].double()
    exponent = nodes.table[:, Channel.THETA].double()
    entropy = nodes.sum_dst(grad * _norm(state) * _one(state.below).log()) * span
    root = _root(state)
    if state.form.shift == "consistent":
        entropy = entropy + nodes.sum_dst(grad * root * _one(state.total).log()) * mu
    theta = nodes.sum_src(tilt * logarithm * carried) * span / exponent - entropy / exponent**2
    whole = grad * nodes.dst(Channel.MU) * root / (p * _one(state.total))
    return Pieces(
        dx,
        theta.sum(0),
        nodes.sum_dst(grad * root).sum(1),
        q * nodes.dst(Channel.RANGE) / p,
        whole if state.form.shift == "consistent" else grad * 0,
    )


def _norm(state: State) -> Tensor:
    p = state.nodes.dst(Channel.THETA)
    norm = torch.where(p == 1, state.below, _one(state.below) ** (1 / p))
    return torch.where(state.below > 0, norm, 0.0)


def _root(state: State) -> Tensor:
    if state.form.shift == "paper":
        return torch.ones_like(state.total)
    return _one(state.total) ** (1 / state.nodes.dst(Channel.THETA))


def _one(values: Tensor) -> Tensor:
    return torch.where(values > 0, values, 1.0)
