r"""The conjoint attention layer."""

from __future__ import annotations

from typing import Literal, TypeAlias, final, get_args

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from meanmax.graph import Graph
from meanmax.ops import (edge_dot, row_softmax)
from meanmax.ops.edge_weight import summed_weights
from meanmax.ops.spec import check_choice
from meanmax.nn.conv import (as_graph, check_features, check_positive, check_rate)
from meanmax.nn.attention import (attended, combine_heads, reweighted, scores)
from meanmax.nn.linear import (Features, Linear, fast_dropout)
from meanmax.nn.neighbourhood import (Aggr, Neighbourhood)

Conjunction: TypeAlias = Literal["implicit", "explicit"]


@final
class CATConv(Module):
    r"""The layer of `"Learning Conjoint Attentions for Graph Neural Nets"
    <https://arxiv.org/abs/2102.03147>`_ with any aggregator: attention to what neighbours are and
    to where they stand in the graph.

    .. math::
        h'_v &= \mathrm{AGG}(\alpha_v, W h) + \mathrm{Dropout}\Big(
        \frac{\mathrm{sigmoid}(\epsilon)}{d_v} W h_v \Big) + b \\
        \alpha_{vu} &= r_f f_{vu} + r_s s_{vu}, \qquad (r_f, r_s) = \mathrm{softmax}(g) \\
        s_{vu} &= \mathrm{softmax}_u (S_v \cdot S_u)

    for each head, with :math:`f` the attention of :class:`GATConv`, :math:`S` the structural
    embeddings (:class:`StructuralEmbedding`), :math:`g \in R^2` and :math:`\epsilon` learned from
    0 on. The explicit form is :math:`\alpha_{vu} \propto f_{vu} s_{vu}`.

    Our reading where the paper leaves a choice: :math:`S` is shared by heads and layers, the
    degree :math:`d_v` counts the self-loop, attention dropout masks :math:`\alpha`, and on a
    weighted graph :math:`\alpha` is multiplied with the weights and normalised again.

    Args:
        in_channels (int): Channels of the input.
        out_channels (int): Channels of the output, for each head.
        heads (int, optional): The number of heads. (default: :obj:`1`)
        concat (bool, optional): Whether heads are concatenated, else averaged.
            (default: :obj:`True`)
        aggr (str or LearnableAggregation, optional): :obj:`"lp"`, :obj:`"poly"`,
            :obj:`"softmax"` (each with one parameter per head), :obj:`"max"`, an aggregator, or
            :obj:`None` for the weighted sum. (default: :obj:`None`)
        conjunction (str, optional): :obj:`"implicit"` or :obj:`"explicit"`.
            (default: :obj:`"implicit"`)
        negative_slope (float, optional): The slope of the LeakyReLU. (default: :obj:`0.2`)
        dropout (float, optional): Dropout of attention. (default: :obj:`0.0`)
        self_dropout (float, optional): Dropout of the node's own term. (default: :obj:`0.9`)
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
        conjunction: Conjunction = "implicit",
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        self_dropout: float = 0.9,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_positive(in_channels=in_channels, out_channels=out_channels, heads=heads)
        check_choice("conjunction", conjunction, get_args(Conjunction))
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.heads = heads
        self.concat = concat
        self.conjunction = conjunction
        self.negative_slope = negative_slope
        self.dropout = check_rate(dropout)
        self.self_dropout = check_rate(self_dropout, "self_dropout")
        self.lin = Linear(in_channels, heads * out_channels, bias=False, init="glorot")
        self.att_src = Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = Parameter(torch.empty(1, heads, out_channels))
        self.mix = Parameter(torch.zeros(heads, 2)) if conjunction == "implicit" else None
        self.own = Parameter(torch.zeros(()))
        self.aggr = Neighbourhood(aggr, heads=heads)
        width = heads * out_channels if concat else out_channels
        self.bias = Parameter(torch.zeros(width)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Draws new weights and sets the other parameters back to their start."""
        self.lin.reset_parameters()
        torch.nn.init.xavier_uniform_(self.att_src)
        torch.nn.init.xavier_uniform_(self.att_dst)
        for parameter in (self.mix, self.own, self.bias):
            if parameter is not None:
                torch.nn.init.zeros_(parameter)
        if self.aggr.learned is not None:
            self.aggr.learned.reset_parameters()

    def forward(
        self,
        x: Features,
        graph: Graph | Tensor,
        structure: Tensor,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        r"""Runs the layer.

        Args:
            x (Tensor or SparseFeatures): :obj:`[num_nodes, in_channels]`.
            graph (Graph or Tensor): The graph, or PyG's :obj:`edge_index`.
            structure (Tensor): The structural embeddings :math:`S` of the graph's nodes,
                :obj:`[num_nodes, any]`.
            edge_weight (Tensor, optional): Weights in place of the graph's own, in the order of
                its edges. (default: :obj:`None`)
        """
        graph = as_graph(graph, x, edge_weight)
        if not graph.is_whole:
            raise ValueError(
                "CAT learns an embedding of every node and needs the whole graph in one process "
                "(got a part of it): choose another layer"
            )
        x = check_features(x, self.in_channels, graph.num_nodes)
        _check_structure(structure, graph)
        graph = graph.prepared(None, "replace")
        h = self.lin(x).view(-1, self.heads, self.out_channels)
        alpha = fast_dropout(self._conjoint(h, graph, structure), self.dropout, self.training)
        degree = summed_weights(graph).to(h.dtype).unsqueeze(2)  # [num_nodes, heads or 1, 1]
        degree = degree.where(degree > 0, 1.0)  # a row that was left out has no edge
        own = fast_dropout(torch.sigmoid(self.own) * h / degree, self.self_dropout, self.training)
        out = combine_heads(self.aggr(h, graph, alpha) + own, self.concat)
        return out if self.bias is None else out + self.bias

    def _conjoint(self, h: Tensor, graph: Graph, structure: Tensor) -> Tensor:
        r"""Attention of every edge in CSR order, :obj:`[num_edges, heads]`."""
        of_source, of_target = scores(h, self.att_src, self.att_dst)
        by_feature = attended(of_source, of_target, graph, self.negative_slope)
        # [num_edges, 1]
        by_structure: Tensor = structural_attention(structure.to(by_feature.dtype), graph)
        if self.mix is None:
            alpha = reweighted(by_feature, graph, by_structure)
        else:
            share = self.mix.softmax(dim=1)  # [heads, 2]
            alpha = share[:, 0] * by_feature + share[:, 1] * by_structure
        return reweighted(alpha, graph, graph.weight)

    def extra_repr(self) -> str:
        r"""Channels, heads and form."""
        return (
            f"{self.in_channels}, {self.out_channels}, heads={self.heads}, concat={self.concat}, "
            f"conjunction={self.conjunction!r}, negative_slope={self.negative_slope}, "
            f"dropout={self.dropout}, self_dropout={self.self_dropout}"
        )


@torch.compiler.disable  # type: ignore[untyped-decorator]
def structural_attention(structure: Tensor, graph: Graph) -> Tensor:
    r"""Softmax over each target's edges of :math:`S_v \cdot S_u`, :obj:`[num_edges, 1]`."""
    with torch.autocast(structure.device.type, enabled=False):
        return row_softmax(edge_dot(structure, structure, graph), graph)


def _check_structure(structure: object, graph: Graph) -> None:
    if not isinstance(structure, Tensor) or structure.dim() != 2:
        got = list(structure.shape) if isinstance(structure, Tensor) else type(structure).__name__
        raise ValueError(
            f"'structure' must be the graph's structural embeddings, [num_nodes, any] (got {got}); "
            f"fit them with meanmax.nn.fit_structure(graph, channels)"
        )
    if structure.size(0) != graph.num_nodes:
        raise ValueError(
            f"'structure' holds embeddings of {structure.size(0)} nodes, but the graph has "
            f"{graph.num_nodes}: for a graph that was not trained on, fit them with "
            f"meanmax.nn.fit_structure(graph, channels)"
        )
