r"""The graph attention layer."""

from __future__ import annotations

from typing import Literal, final, overload

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from meanmax.graph import Graph
from meanmax.nn.conv import Aggr, Neighbourhood, Pair, as_graph, as_pair, check_positive, check_rate
from meanmax.nn.linear import Features, Linear, fast_dropout
from meanmax.ops import attention
from meanmax.ops.autograd import row_totals, with_heads
from meanmax.ops.scaling import NotFiniteError


def scores(h: Tensor, *vectors: Tensor) -> tuple[Tensor, ...]:
    r"""The scores of every node and head, :math:`a \cdot h`, for each of some vectors :math:`a`.

    One product with a block-diagonal matrix: no product per node, head and channel is formed, and
    the gradient of :obj:`h` is one array.

    Args:
        h (Tensor): :obj:`[num_nodes, heads, channels]`.
        vectors (Tensor): :obj:`[1, heads, channels]` each.
    """
    heads = h.size(1)
    diagonal = torch.eye(heads, dtype=h.dtype, device=h.device).unsqueeze(1)  # [heads, 1, heads]
    blocks = [(vector[0].to(h.dtype).unsqueeze(2) * diagonal).flatten(0, 1) for vector in vectors]
    return (h.flatten(1) @ torch.cat(blocks, dim=1)).chunk(len(vectors), dim=1)


def with_own_loops(graph: Graph) -> Graph:
    r"""The graph with self-loops in place of those it has, remembered; between different sources
    and targets, as in PyG, between the first ones of both.
    """
    if graph.num_src == graph.num_dst:
        return graph.prepared(None, "replace")
    if "own_loops" in graph.cache:
        known: Graph = graph.cache["own_loops"]
        return known
    with torch.inference_mode(False):
        edges, weight = graph.edge_index, graph.edge_weight
        keep = edges[0] != edges[1]
        shared = torch.arange(min(graph.num_src, graph.num_dst), device=graph.device)
        if weight is not None:
            weight = torch.cat([weight[keep], weight.new_ones(len(shared), *weight.shape[1:])])
        edges = torch.cat([edges[:, keep], shared.expand(2, -1)], dim=1)
        looped = Graph.from_edge_index(edges, (graph.num_src, graph.num_dst), weight).prepared()
    if weight is None or not weight.requires_grad:
        graph.cache["own_loops"] = looped
    return looped


def attended(source: Tensor, target: Tensor | None, graph: Graph, slope: float) -> Tensor:
    r"""Attention of every edge in CSR order, :obj:`[num_edges, heads]`; 1 in sum per target. The
    graph's weights play no part in it.

    Args:
        source (Tensor): Scores of sources, :obj:`[num_src, heads]`.
        target (Tensor, optional): Scores of targets, zeros if they have no features.
        graph (Graph): The graph, with :obj:`edge_index` in CSR order.
        slope (float): The slope of the LeakyReLU.
    """
    if not bool(torch.isfinite(source.detach()).all()):
        raise NotFiniteError
    if target is None:
        target = source.new_zeros(graph.num_dst, source.size(1))
    alpha: Tensor = per_edge_attention(source, target, graph, slope)
    return alpha


@torch.compiler.disable  # type: ignore[untyped-decorator]
def per_edge_attention(source: Tensor, target: Tensor, graph: Graph, slope: float) -> Tensor:
    r"""The kernel, in float32 at least."""
    if source.dtype not in (torch.float32, torch.float64):
        source, target = source.float(), target.float()
    with torch.autocast(source.device.type, enabled=False):
        return attention(graph.sources(source), target, graph.local, slope)


def reweighted(alpha: Tensor, graph: Graph, weight: Tensor | None) -> Tensor:
    r"""Attention times weights, if there are any, and 1 in sum over each target again, or 0."""
    if weight is None:
        return alpha
    alpha = alpha * with_heads(weight).to(alpha.dtype)
    total = row_totals(graph, alpha)
    share = torch.where(total > 0, 1 / torch.where(total > 0, total, 1.0), 0.0)
    return alpha * share.repeat_interleave(graph.rowptr.diff(), 0, output_size=graph.num_edges)


def combine_heads(out: Tensor, concat: bool) -> Tensor:
    r"""Heads side by side or their mean."""
    return out.flatten(1) if concat else out.mean(dim=1)


@final
class GATConv(Module):
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
        in_channels (int): Channels of the input.
        out_channels (int): Channels of the output, for each head.
        heads (int, optional): The number of heads. (default: :obj:`1`)
        concat (bool, optional): Whether heads are concatenated, else averaged.
            (default: :obj:`True`)
        aggr (str or LearnableAggregation, optional): :obj:`"lp"`, :obj:`"poly"`,
            :obj:`"softmax"` (each with one parameter per head), :obj:`"max"`, an aggregator, or
            :obj:`None` for the weighted sum. (default: :obj:`None`)
        negative_slope (float, optional): The slope of the LeakyReLU. (default: :obj:`0.2`)
        dropout (float, optional): Dropout of attention: in training an edge is left out with this
            probability, and the rest is scaled up. (default: :obj:`0.0`)
        add_self_loops (bool, optional): Whether each node attends to itself; existing self-loops
            are replaced. (default: :obj:`True`)
        bias (bool, optional): Whether :math:`b` is added. (default: :obj:`True`)
    """

    def __init__(
        self,
        in_channels: int,
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
        super().__init__()
        check_positive(in_channels=in_channels, out_channels=out_channels, heads=heads)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.heads = heads
        self.concat = concat
        self.negative_slope = negative_slope
        self.dropout = check_rate(dropout)
        self.add_self_loops = add_self_loops
        self.lin = Linear(in_channels, heads * out_channels, bias=False, init="glorot")
        self.att_src = Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = Parameter(torch.empty(1, heads, out_channels))
        self.aggr = Neighbourhood(aggr, heads=heads)
        width = heads * out_channels if concat else out_channels
        self.bias = Parameter(torch.zeros(width)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Draws new weights and sets the aggregator's parameter back to its start."""
        self.lin.reset_parameters()
        torch.nn.init.xavier_uniform_(self.att_src)
        torch.nn.init.xavier_uniform_(self.att_dst)
        if self.aggr.learned is not None:
            self.aggr.learned.reset_parameters()
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    @overload
    def forward(
        self, x: Features | Pair, graph: Graph | Tensor, edge_weight: Tensor | None = None
    ) -> Tensor: ...

    @overload
    def forward(
        self,
        x: Features | Pair,
        graph: Graph | Tensor,
        edge_weight: Tensor | None = None,
        *,
        return_attention_weights: Literal[True],
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]: ...

    def forward(
        self,
        x: Features | Pair,
        graph: Graph | Tensor,
        edge_weight: Tensor | None = None,
        *,
        return_attention_weights: bool = False,
    ) -> Tensor | tuple[Tensor, tuple[Tensor, Tensor]]:
        r"""Runs the layer.

        Args:
            x (Tensor, SparseFeatures or tuple): :obj:`[num_nodes, in_channels]`; or a pair for
                sources and targets, of which the first ones are then taken for the same nodes,
                as in PyG, unless :obj:`add_self_loops=False`.
            graph (Graph or Tensor): The graph, or PyG's :obj:`edge_index`.
            edge_weight (Tensor, optional): Weights in place of the graph's own, in the order of
                its edges. (default: :obj:`None`)
            return_attention_weights (bool, optional): Whether to return as well
                :obj:`(edge_index, alpha)`, with self-loops and grouped by target.
                (default: :obj:`False`)
        """
        graph = as_graph(graph, x, edge_weight)
        source, target = as_pair(x, self.in_channels, graph)
        graph = with_own_loops(graph) if self.add_self_loops else graph.prepared()
        h = self.lin(source).view(-1, self.heads, self.out_channels)
        of_target: Tensor | None = None
        if target is source:
            of_source, of_target = scores(h, self.att_src, self.att_dst)
        else:
            (of_source,) = scores(h, self.att_src)
            if target is not None:
                other = self.lin(target).view(-1, self.heads, self.out_channels)
                (of_target,) = scores(other, self.att_dst)
        alpha = attended(of_source, of_target, graph, self.negative_slope)
        alpha = reweighted(alpha, graph, graph.weight)
        dropped = fast_dropout(alpha, self.dropout, self.training)
        out = combine_heads(self.aggr(h, graph, dropped), self.concat)
        out = out if self.bias is None else out + self.bias
        return (out, (graph.edge_index, alpha)) if return_attention_weights else out

    def extra_repr(self) -> str:
        r"""Channels, heads and dropout."""
        return (
            f"{self.in_channels}, {self.out_channels}, heads={self.heads}, concat={self.concat}, "
            f"negative_slope={self.negative_slope}, dropout={self.dropout}, "
            f"add_self_loops={self.add_self_loops}"
        )
