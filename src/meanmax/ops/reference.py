r"""The definition of truth: every aggregator edge by edge, in float64, with plain autograd.

Nothing here is fast. Each row is scaled by its own largest neighbour, so no exponential overflows
and none that matters underflows; gradients are those of the written formula, with the library's
conventions where the formula has none (see :func:`power`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.spec import AggregationSpec

# Only edges of weight zero can ask for more; times any float32 it still fits float64.
LARGEST_EXPONENT = 300.0


def reference(
    x: Tensor, graph: Graph, theta: Tensor, weight: Tensor, mu: Tensor | None, spec: AggregationSpec
) -> Tensor:
    r"""Aggregates :obj:`x` over :obj:`graph`, differentiable in every floating argument.

    Args:
        x (Tensor): Features of the source nodes, :obj:`[num_src, channels]`.
        graph (Graph): The graph.
        theta (Tensor): The parameter of every channel, :obj:`[channels]`.
        weight (Tensor): Edge weights in CSR order, :obj:`[num_edges, weight_heads]`, where
            :obj:`weight_heads` divides :obj:`channels`.
        mu (Tensor, optional): The origin of the features of every graph, :obj:`[num_graphs]`;
            the minimum of the graph's features if :obj:`None`.
        spec (AggregationSpec): What to compute.
    """
    x, theta, weight = x.double(), theta.double(), weight.double()
    if spec.has_mu:
        mu = graph_minimum(x, graph) if mu is None else mu.double()
    target = edge_targets(graph)
    return aggregate_rows(
        x, theta, weight, graph.col, target, graph.num_dst, spec, *per_node(mu, graph)
    )


def aggregate_rows(
    x: Tensor,
    theta: Tensor,
    weight: Tensor,
    col: Tensor,
    target: Tensor,
    num_rows: int,
    spec: AggregationSpec,
    mu_src: Tensor | None,
    mu_dst: Tensor | None,
) -> Tensor:
    r"""The formulas of the three aggregators over edges given as :obj:`(col, target)`.

    Where :obj:`mu_src` and :obj:`mu_dst` are given, they hold :math:`\mu` per source and per row.
    """
    channels = x.size(1)
    a = weight.repeat_interleave(channels // weight.size(1), dim=1)  # [num_edges, channels]
    total = row_sum(a, target, num_rows)
    if spec.kind == "softmax":
        out = _softmax(x[col], theta, a, target, num_rows, spec)
    else:
        assert mu_src is not None and mu_dst is not None
        y = x[col] - mu_src[col].unsqueeze(1)
        mu = mu_dst.unsqueeze(1)
        if spec.kind == "lp":
            out = _lp(y, theta, a, target, num_rows, spec, total, mu)
        else:
            out = _polynomial(y, theta, a, target, num_rows, mu)
    if spec.times_weight:
        out = out * total
    return torch.where(total > 0, out, 0.0)


def _softmax(
    z: Tensor, gamma: Tensor, a: Tensor, target: Tensor, num_rows: int, spec: AggregationSpec
) -> Tensor:
    counted = torch.ones_like(a) if spec.unit_denominator else a
    top = row_max(z.detach().masked_fill(counted == 0, -torch.inf), target, num_rows)
    tilt = (gamma * (z - top[target])).clamp(max=LARGEST_EXPONENT).exp()
    below = _nonzero(row_sum(counted * tilt, target, num_rows))
    anchor = _largest_term(counted * tilt, z, target, num_rows)
    mean = row_sum(a * tilt * (z - anchor[target]), target, num_rows) / below
    if not spec.unit_denominator:
        return mean + anchor
    # Measured from the weight of the largest term, since the derivative of a mean of weights has
    # nothing left if all are equal.
    own = _largest_term(tilt, a, target, num_rows)
    share = row_sum((a - own[target]) * tilt, target, num_rows) / below
    return mean + anchor * (own + share)


def _lp(
    y: Tensor, p: Tensor, a: Tensor, target: Tensor, num_rows: int, spec: AggregationSpec,
    total: Tensor, mu: Tensor,
) -> Tensor:  # fmt: skip
    scale = _row_scale(y, a, target, num_rows)
    ratio = _bounded_ratio(y, scale[target], p)
    norm = scale * power(row_sum(a * power(ratio, p), target, num_rows), 1 / p)
    if spec.shift == "paper":
        return norm + mu
    return norm + mu * power(_nonzero(total), 1 / p)


def _polynomial(
    y: Tensor, alpha: Tensor, a: Tensor, target: Tensor, num_rows: int, mu: Tensor
) -> Tensor:
    scale = _row_scale(y, a, target, num_rows)
    ratio = _bounded_ratio(y, scale[target], alpha)
    # In units of the row's scale, 0^0 = 1 moves with alpha although y^alpha at y = 0 does not.
    still = (y == 0) & (alpha == 0)
    moving = torch.where(still, scale[target], 1.0) ** -alpha
    tilt = torch.where(still, moving, power(ratio, alpha))
    below = row_sum(a * tilt, target, num_rows)
    anchor = _largest_term(a * tilt, ratio, target, num_rows)
    mean = row_sum(a * tilt * (ratio - anchor[target]), target, num_rows) / _nonzero(below)
    return torch.where(below > 0, scale * (anchor + mean), 0.0) + mu


def power(y: Tensor, exponent: Tensor) -> Tensor:
    r""":math:`y^\theta` for :math:`y \geq 0` with the library's conventions at zero.

    :math:`0^\theta` is 0 for :math:`\theta > 0` and 1 for :math:`\theta = 0`. Its derivative in
    :math:`y` is the limit where that is finite and 0 for :math:`0 < \theta < 1`; its derivative
    in :math:`\theta` is 0.
    """
    zero = y == 0
    regular = torch.where(zero, 1.0, y) ** exponent
    at_zero = (exponent == 0).to(y.dtype) + torch.where(exponent == 1, y, 0.0)
    return torch.where(zero, at_zero, regular)


def graph_minimum(x: Tensor, graph: Graph) -> Tensor:
    r"""The smallest feature of every graph of the batch, :obj:`[num_graphs]`, 0 for empty ones."""
    ranges = graph.src_ptr.tolist()
    pieces = [x[lo:hi] for lo, hi in zip(ranges, ranges[1:], strict=False)]
    return torch.stack([z.amin() if z.numel() else x.new_zeros(()) for z in pieces])


def per_node(values: Tensor | None, graph: Graph) -> tuple[Tensor | None, Tensor | None]:
    r"""Spreads one value per graph over the graph's sources and over its targets."""
    if values is None:
        return None, None
    return (
        values.repeat_interleave(graph.src_ptr.diff(), output_size=graph.num_src),
        values.repeat_interleave(graph.dst_ptr.diff(), output_size=graph.num_dst),
    )


def edge_targets(graph: Graph) -> Tensor:
    r"""The target of every edge in CSR order, int64."""
    rows = torch.arange(graph.num_dst, device=graph.rowptr.device)
    return rows.repeat_interleave(graph.rowptr.diff(), output_size=graph.num_edges)


def row_sum(values: Tensor, target: Tensor, num_rows: int) -> Tensor:
    r"""Sums the edges of every row."""
    return values.new_zeros(num_rows, values.size(1)).index_add(0, target, values)


def row_max(values: Tensor, target: Tensor, num_rows: int) -> Tensor:
    r"""The largest edge of every row; 0 where the row has none above :math:`-\infty`."""
    index = target.unsqueeze(1).expand_as(values)
    top = values.new_full((num_rows, values.size(1)), -torch.inf)
    top = top.scatter_reduce(0, index, values, "amax")
    return torch.where(top == -torch.inf, 0.0, top)


def _largest_term(term: Tensor, z: Tensor, target: Tensor, num_rows: int) -> Tensor:
    r"""The feature (or weight) with the largest term of every row: a mean measured from there loses
    nothing to features that hardly count, however far away they are.
    """
    term, z = term.detach(), z.detach()
    largest = row_max(term, target, num_rows)[target]
    return row_max(z.masked_fill(term < largest, -torch.inf), target, num_rows)


def _row_scale(y: Tensor, a: Tensor, target: Tensor, num_rows: int) -> Tensor:
    top = row_max(torch.where(a > 0, y, 0.0).detach(), target, num_rows)
    return _nonzero(top)


def _bounded_ratio(y: Tensor, scale: Tensor, theta: Tensor) -> Tensor:
    largest = (LARGEST_EXPONENT / theta.detach().clamp(min=1.0)).exp()
    return torch.minimum(y / scale, largest)


def _nonzero(values: Tensor) -> Tensor:
    return torch.where(values > 0, values, 1.0)
