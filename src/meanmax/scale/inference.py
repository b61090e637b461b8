r"""Each layer as passes over all nodes, with the results of its own :obj:`forward`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import normalize as l2_normalize
from torch.nn.functional import relu

from meanmax import functional
from meanmax.scale.edges_blocks import Block
from meanmax.scale.edges import Loops
from meanmax.scale.edges_errors import BatchingError
from meanmax.scale.passes import Passes
from meanmax.scale.rows import (DenseRows, Rows)
from meanmax.ops.edge_weight import summed_weights
from meanmax.nn import (GATConv, GCNConv, GINConv, Linear, MaskedGCNConv, SAGEConv)
from meanmax.nn.attention import (attended, combine_heads, reweighted, scores)
from meanmax.nn.linear import (Features, as_dense)
from meanmax.nn.neighbourhood import Neighbourhood

Finish = Callable[[Tensor, Features], Tensor]
Aggregate = Callable[[Block, Tensor], Tensor]


def run_layer(layer: Module, x: Rows, passes: Passes, finish: Finish, width: int) -> DenseRows:
    r"""The rows that a layer makes of all nodes.

    Args:
        layer (Module): The layer, in evaluation mode.
        x (Rows): Its input.
        passes (Passes): What to run with.
        finish (callable): What follows the layer, of its output rows and its input rows.
        width (int): The channels of what is finished.
    """
    run = _RUNS.get(type(layer))
    if run is None:
        known = ", ".join(kind.__name__ for kind in _RUNS)
        raise BatchingError(
            f"layer-wise inference knows {known} (got {type(layer).__name__}): run the model on "
            f"the whole graph"
        )
    return run(layer, x, passes, finish, width)


def _gcn(layer: Any, x: Rows, passes: Passes, finish: Finish, width: int) -> DenseRows:
    loops = "add" if layer.add_self_loops else "none"
    norm = "sym" if layer.normalize else None
    return _ordered(layer, x, x, passes, finish, width, layer.lin, loops=loops, normalize=norm)


def _masked(layer: Any, x: Rows, passes: Passes, finish: Finish, width: int) -> DenseRows:
    inverse, degree = torch.exp(-layer.log_variance), passes.graphs.degree
    centre = as_dense(x.read(0, min(1024, x.shape[0]))).mean(dim=0)  # any will do: it cancels

    def mask(block: Block, source: Tensor) -> Tensor:
        own = as_dense(x.read(block.first, block.last))
        centred, source = own - centre, source - centre
        both = functional.sum(torch.cat([source, source * source], dim=1), block.graph)
        first, second = both.chunk(2, dim=1)
        total = summed_weights(block.graph)
        spread = (centred * (centred * total - 2 * first) + second).clamp(min=0)
        share = torch.from_numpy(degree[block.first : block.last]).unsqueeze(1)
        return own * torch.exp(-spread / share * inverse)

    masked = passes.over_neighbours(x, mask, x.shape[1], normalize="sym", loops="add")
    out = _ordered(layer, masked, x, passes, finish, width, layer.lin, loops="add", normalize="sym")
    passes.store.release(masked.array)
    return out


def _sage(layer: Any, x: Rows, passes: Passes, finish: Finish, width: int) -> DenseRows:
    sent = x
    if layer.lin is not None:
        sent = passes.mapped(x, lambda rows: relu(layer.lin(rows)), x.shape[1])

    def after(out: Tensor, own: Features) -> Tensor:
        if layer.lin_r is not None:
            out = out + layer.lin_r(own)
        return finish(l2_normalize(out, dim=-1) if layer.normalize else out, own)

    weigh, bias = layer.lin_l.without_bias, layer.lin_l.bias
    out = _ordered(layer, sent, x, passes, after, width, weigh, normalize="row", bias=bias)
    if isinstance(sent, DenseRows) and sent is not x:
        passes.store.release(sent.array)
    return out


def _gin(layer: Any, x: Rows, passes: Passes, finish: Finish, width: int) -> DenseRows:
    modules = list(layer.nn) if isinstance(layer.nn, torch.nn.Sequential) else []
    first = modules[0] if modules and isinstance(modules[0], Linear) else None
    commuting = first if x.is_sparse and layer.aggr.is_linear else None
    sent: Rows = x
    if commuting is not None:
        sent = passes.mapped(x, commuting.without_bias, commuting.out_features)
    aggregate = _aggregation(layer.aggr, sent, passes)

    def after(block: Block, source: Tensor) -> Tensor:
        own = as_dense(sent.read(block.first, block.last))
        h = aggregate(block, source) + (1 + layer.eps) * own
        if commuting is None:
            h = layer.nn(h)
        else:
            h = h if commuting.bias is None else h + commuting.bias
            for module in modules[1:]:
                h = module(h)
        return finish(h, x.read(block.first, block.last))

    out = passes.over_neighbours(sent, after, width)
    if commuting is not None and isinstance(sent, DenseRows):
        passes.store.release(sent.array)
    return out


def _gat(layer: Any, x: Rows, passes: Passes, finish: Finish, width: int) -> DenseRows:
    shape = (-1, layer.heads, layer.out_channels)
    sent = passes.mapped(x, layer.lin, layer.heads * layer.out_channels)
    mu = passes.origin(layer.aggr, sent)

    def attend(block: Block, source: Tensor) -> Tensor:
        h, own = source.view(shape), sent.read(block.first, block.last).view(shape)
        (of_source,), (of_target,) = scores(h, layer.att_src), scores(own, layer.att_dst)
        alpha = attended(of_source, of_target, block.graph, layer.negative_slope)
        alpha = reweighted(alpha, block.graph, block.graph.weight)
        out = combine_heads(aggregated(layer.aggr, h, block, mu, alpha), layer.concat)
        out = out if layer.bias is None else out + layer.bias
        return finish(out, x.read(block.first, block.last))

    loops: Loops = "replace" if layer.add_self_loops else "none"
    out = passes.over_neighbours(sent, attend, width, loops=loops, heads=layer.heads)
    passes.store.release(sent.array)
    return out


def _ordered(
    layer: Any,
    sent: Rows,
    x: Rows,
    passes: Passes,
    finish: Finish,
    width: int,
    transform: Callable[[Features], Tensor],
    *,
    bias: Tensor | None = None,
    **graph: Any,
) -> DenseRows:
    r"""Transforms and aggregates in the layer's order; see :func:`meanmax.nn.order.ordered`."""
    bias = getattr(layer, "bias", None) if bias is None else bias
    first = layer.order == "transform-first" or (sent.is_sparse and layer.aggr.is_linear)
    rows: Rows = sent
    if first:
        rows = passes.mapped(sent, transform, layer.out_channels)
    aggregate = _aggregation(layer.aggr, rows, passes)

    def function(block: Block, source: Tensor) -> Tensor:
        out = aggregate(block, source)
        out = out if first else transform(out)
        out = out if bias is None else out + bias
        return finish(out, x.read(block.first, block.last))

    out = passes.over_neighbours(rows, function, width, **graph)
    if first and isinstance(rows, DenseRows):
        passes.store.release(rows.array)
    return out


def _aggregation(aggr: Neighbourhood, rows: Rows, passes: Passes) -> Aggregate:
    mu = passes.origin(aggr, rows)
    return lambda block, source: aggregated(aggr, source, block, mu)


def aggregated(
    aggr: Neighbourhood,
    source: Tensor,
    block: Block,
    mu: Tensor | None,
    weight: Tensor | None = None,
) -> Tensor:
    r"""A layer's aggregation over a block, with :math:`\mu` of the whole graph."""
    if aggr.learned is not None:
        return aggr.learned.on_graph(source, block.graph, weight, mu)
    out: Tensor = aggr(source, block.graph, weight)
    return out


_RUNS: dict[type[Module], Callable[[Any, Rows, Passes, Finish, int], DenseRows]] = {
    GCNConv: _gcn,
    MaskedGCNConv: _masked,
    GATConv: _gat,
    SAGEConv: _sage,
    GINConv: _gin,
}
