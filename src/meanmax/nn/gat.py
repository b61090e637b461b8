r"""The graph attention layer."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, final, overload

import torch
from torch import Tensor
from torch.nn import Parameter

from meanmax.graph import Graph
from meanmax.graph.build import with_self_loops
from meanmax.nn.conv import (
    Aggr,
    Channels,
    Conv,
    LayerAggregation,
    Pair,
    as_graph,
    check_channels,
    check_rate,
    with_bias,
)
from meanmax.nn.linear import Features, Linear, fast_dropout
from meanmax.ops import attention
from meanmax.ops.autograd import row_totals, with_heads
from meanmax.ops.library import STEPS, Result, TracedGraph, operation
from meanmax.ops.scaling import NotFiniteError


def scores(h: Tensor, *vectors: Tensor) -> tuple[Tensor, ...]:
    r"""The scores of every node and head, :math:`a \cdot h`, for each of some vectors :math:`a`.

    One product with a block-diagonal matrix: no product per node, head and channel is formed, and
    the gradient of :obj:`h` is one array.
    """
    heads = h.size(1)
    diagonal = torch.eye(heads, dtype=h.dtype, device=h.device).unsqueeze(1)  # [heads, 1, heads]
    blocks = [(vector[0].to(h.dtype).unsqueeze(2) * diagonal).flatten(0, 1) for vector in vectors]
    return (h.flatten(1) @ torch.cat(blocks, dim=1)).chunk(len(vectors), dim=1)


def with_own_loops(graph: Graph) -> Graph:
    r"""The graph with self-loops in place of those it has, cached; between different sources
    and targets, as in PyG, between the first ones of both.
    """
    if graph.num_src == graph.num_dst:
        return graph.prepared(None, "replace")
    if isinstance(graph, TracedGraph):
        most = graph.num_edges + min(graph.num_src, graph.num_dst)
        return graph.then("own_loops", (graph.num_src, graph.num_dst, most), graph.trailing)

    def make() -> Graph:
        sizes = (graph.num_src, graph.num_dst)
        src, dst = graph.edge_index
        src, dst, weight = with_self_loops(src, dst, graph.edge_weight, min(sizes), "replace")
        return Graph.from_edge_index(torch.stack([src, dst]), sizes, weight).prepared()

    return make() if graph.has_learned_weight else graph.cached("own_loops", make)


STEPS["own_loops"] = lambda graph, _: with_own_loops(graph)


def _attention(source: Tensor, _: Any, graph: Graph, *__: Any) -> Result:
    dtype = source.dtype if source.dtype == torch.float64 else torch.float32
    return (graph.num_edges, source.size(1)), dtype


@operation("Tensor source, Tensor? target, Graph graph, float slope", _attention)
def attended(source: Tensor, target: Tensor | None, graph: Graph, slope: float) -> Tensor:
    r"""Attention of every edge in CSR order, :obj:`[num_edges, heads]`; sums to 1 over each
    target's edges. Ignores the graph's weights. Computed in float32 at least.
    """
    if not bool(torch.isfinite(source.detach()).all()):
        raise NotFiniteError
    if target is None:
        target = source.new_zeros(graph.num_dst, source.size(1))
    if source.dtype not in (torch.float32, torch.float64):
        source, target = source.float(), target.float()
    with torch.autocast(source.device.type, enabled=False):
        return attention(graph.sources(source), target, graph.local, slope)


@operation("Edges alpha, Graph graph, Edges? weight", lambda alpha, *_: (alpha.shape, alpha.dtype))
def reweighted(alpha: Tensor, graph: Graph, weight: Tensor | None) -> Tensor:
    r"""Attention times edge weights, normalised to sum to 1 at each target (0 without weight)."""
    if weight is None:
        return alpha
    alpha = alpha * with_heads(weight).to(alpha.dtype)
    total = row_totals(graph, alpha)
    share = torch.where(total > 0, 1 / torch.where(total > 0, total, 1.0), 0.0)
    return alpha * share.repeat_interleave(graph.rowptr.diff(), 0, output_size=graph.num_edges)


class AttentionConv(Conv):
    r"""What GAT and CAT share: the map of each head, its attention vectors, and the output.

    The map is :obj:`lin`, or :obj:`lin_src` and :obj:`lin_dst` for a pair of :obj:`in_channels`.
    """

    lin: Linear | None
    lin_src: Linear | None
    lin_dst: Linear | None

    def __init__(
        self,
        in_channels: Channels,
        out_channels: int,
        heads: int,
        concat: bool,
        aggr: Aggr,
        negative_slope: float,
        dropout: float,
        bias: bool,
    ) -> None:
        super().__init__()
        self.in_channels = check_channels(
            in_channels, self.takes_pair, out_channels=out_channels, heads=heads
        )
        self.out_channels = out_channels
        self.heads = heads
        self.concat = concat
        self.negative_slope = negative_slope
        self.dropout = check_rate(dropout)
        make = partial(Linear, out_channels=heads * out_channels, bias=False, init="glorot")
        self.lin = self.lin_src = self.lin_dst = None
        if isinstance(self.in_channels, tuple):
            self.lin_src, self.lin_dst = map(make, self.in_channels)
        else:
            self.lin = make(self.in_channels)
        self.att_src = Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = Parameter(torch.empty(1, heads, out_channels))
        self.aggr = LayerAggregation(aggr, heads=heads)
        if self.aggr.is_scaled:
            raise ValueError(
                "'beta' has no effect where attention weights sum to 1: give an aggregator "
                "without it"
            )
        width = heads * out_channels if concat else out_channels
        self.bias = Parameter(torch.zeros(width)) if bias else None
        self.reset_parameters()

    def combine_heads(self, out: Tensor) -> Tensor:
        r"""Heads side by side or their mean, plus the bias."""
        return with_bias(out.flatten(1) if self.concat else out.mean(dim=1), self.bias)

    def extra_repr(self) -> str:
        r"""Channels, heads and dropout."""
        return (
            f"{self.in_channels}, {self.out_channels}, heads={self.heads}, concat={self.concat}, "
            f"negative_slope={self.negative_slope}, dropout={self.dropout}"
        )


@final
class GATConv(AttentionConv):
    r"""The layer of `"Graph Attention Networks" <https://arxiv.org/abs/1710.10903>`_ with any
    aggregator.

    .. math::
        h'_v = \mathrm{AGG}(\alpha_v, W h) + b, \qquad
        \alpha_{vu} = \mathrm{softmax}_u \, \mathrm{LeakyReLU}(a_l \cdot W h_u + a_r \cdot W h_v)

    for each head. With :obj:`aggr=None` the aggregation is the sum weighted by :math:`\alpha`, and
    the layer is PyG's :class:`GATConv` with the same parameters. Attention lives on
    :obj:`[num_edges, heads]`; nothing is formed per edge and channel, forward or backward.

    Beyond the paper: attention dropout masks whole edges per head for every aggregator, where the
    authors of the nonlinear ones mask edges and channels of their softmax. On a weighted graph
    attention is :math:`a_{vu} \alpha_{vu}`, divided by its sum; PyG's layer takes no weights.
    With :obj:`aggr="max"` attention decides nothing and is not trained.

    Args:
        in_channels (int or tuple): Channels of the input, or those of sources and of targets,
            which then have a map each; -1 takes them from the first input.
        out_channels (int): Channels of the output, for each head.
        heads (int, optional): The number of heads. (default: :obj:`1`)
        concat (bool, optional): Whether heads are concatenated, else averaged.
            (default: :obj:`True`)
        aggr (str or LearnableAggregation, optional): As in :class:`GCNConv`; an aggregator given
            by name has one parameter per head. (default: :obj:`None`)
        negative_slope (float, optional): The slope of the LeakyReLU. (default: :obj:`0.2`)
        dropout (float, optional): Dropout of attention: in training an edge is left out with this
            probability, and the rest is scaled up. (default: :obj:`0.0`)
        add_self_loops (bool, optional): Whether each node attends to itself; existing self-loops
            are replaced. (default: :obj:`True`)
        bias (bool, optional): Whether :math:`b` is added. (default: :obj:`True`)

    Example:
        >>> graph = Graph.from_edge_index([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> GATConv(8, 4, heads=2, aggr="softmax")(torch.randn(3, 8), graph).shape
        torch.Size([3, 8])
    """

    takes_pair = True

    def __init__(
        self,
        in_channels: Channels,
        out_channels: int,
        heads: int = 1,
        *,
        concat: bool = True,
        aggr: Aggr = None,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        add_self_loops: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__(
            in_channels, out_channels, heads, concat, aggr, negative_slope, dropout, bias
        )
        self.add_self_loops = add_self_loops
        self.needs_own = self.lin is not None  # a map of the targets' own is applied in receive

    @overload
    def forward(
        self, x: Features | Pair, edge_index: Graph | Tensor, edge_weight: Tensor | None = None
    ) -> Tensor: ...

    @overload
    def forward(
        self,
        x: Features | Pair,
        edge_index: Graph | Tensor,
        edge_weight: Tensor | None = None,
        *,
        return_attention_weights: Literal[True],
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]: ...

    def forward(
        self,
        x: Features | Pair,
        edge_index: Graph | Tensor,
        edge_weight: Tensor | None = None,
        *,
        return_attention_weights: bool = False,
    ) -> Tensor | tuple[Tensor, tuple[Tensor, Tensor]]:
        r"""Runs the layer.

        Args:
            x (Tensor, SparseFeatures or tuple): :obj:`[num_nodes, in_channels]`; or a pair for
                sources and targets, of which the first ones are then taken for the same nodes,
                as in PyG, unless :obj:`add_self_loops=False`.
            edge_index, edge_weight: As in :meth:`GCNConv.forward`.
            return_attention_weights (bool, optional): Whether to return as well
                :obj:`(edge_index, alpha)`, with self-loops and grouped by target.
                (default: :obj:`False`)
        """
        if return_attention_weights and torch.compiler.is_compiling():
            found: tuple[Tensor, tuple[Tensor, Tensor]]
            found = self._with_attention(x, edge_index, edge_weight)
            return found
        graph = as_graph(edge_index, x, edge_weight)
        source, target = self.features(x, graph)
        sent, own = self.send_both(source, target)
        graph = self.prepare(graph)
        out, alpha = self._attend(sent, own, target, graph)
        return (out, (graph.edge_index, alpha)) if return_attention_weights else out

    def features(self, x: Features | Pair, graph: Graph) -> Pair:
        r"""The features of sources and of targets; see :meth:`Conv.features`."""
        source, target = super().features(x, graph)
        if self.lin is not None and target is not None and source.size(1) != target.size(1):
            raise ValueError(
                f"GATConv({self.in_channels}, ...) has one map for all nodes, but sources have "
                f"{source.size(1)} channels and targets {target.size(1)}: build it with "
                f"in_channels=(-1, -1), or use SAGEConv"
            )
        return source, target

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _with_attention(
        self, x: Features | Pair, edge_index: Graph | Tensor, edge_weight: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        r"""Outside of compiled code, which does not know how many edges there are."""
        return self.forward(x, edge_index, edge_weight, return_attention_weights=True)

    def send(self, x: Features) -> Features:
        r"""The transformed features of all heads, :obj:`[num_nodes, heads * out_channels]`."""
        lin = self.lin or self.lin_src
        assert lin is not None
        out: Tensor = lin(x)
        return out

    def prepare(self, graph: Graph) -> Graph:
        r"""The graph with self-loops in place of its own, if nodes attend to themselves."""
        return with_own_loops(graph) if self.add_self_loops else graph.prepared()

    def receive(
        self, sent: Features, own: Features | None, x: Features | None, graph: Graph
    ) -> Tensor:
        r"""Attends and aggregates; see :meth:`Conv.receive`."""
        return self._attend(sent, own, x, graph)[0]

    def _attend(
        self, sent: Features, own: Features | None, x: Features | None, graph: Graph
    ) -> tuple[Tensor, Tensor]:
        r"""The output, and attention before dropout."""
        h, of_target = self._by_head(sent), None
        if self.lin_dst is not None and x is not None:
            own = self.lin_dst(x)
        if own is sent:
            of_source, of_target = scores(h, self.att_src, self.att_dst)
        else:
            (of_source,) = scores(h, self.att_src)
            if own is not None:
                (of_target,) = scores(self._by_head(own), self.att_dst)
        alpha = attended(of_source, of_target, graph, self.negative_slope)
        alpha = reweighted(alpha, graph, graph.weight)
        dropped = fast_dropout(alpha, self.dropout, self.training)
        return self.combine_heads(self.aggr(h, graph, dropped)), alpha

    def _by_head(self, h: Features) -> Tensor:
        assert isinstance(h, Tensor)
        return h.view(len(h), self.heads, self.out_channels)

    def extra_repr(self) -> str:
        r"""Channels, heads, dropout and self-loops."""
        return f"{super().extra_repr()}, add_self_loops={self.add_self_loops}"
