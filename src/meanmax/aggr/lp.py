r"""The Lp-norm aggregator as a module that holds its parameter."""

from __future__ import annotations

from typing import final, get_args

from torch import Tensor

from meanmax import functional
from meanmax.aggr.base import LearnableAggregation, Maybe
from meanmax.aggr.parameter import Per, Reparam, Start
from meanmax.graph import Graph
from meanmax.ops.spec import AggregationSpec, Shift, Sign, check_choice


@final
class LpAggregation(LearnableAggregation):
    r"""The Lp norm over neighbours, from their weighted sum (:math:`p = 1`) to their maximum
    (:math:`p \to \infty`), of the `"Generalizing Aggregation Functions in GNNs: High-Capacity GNNs
    via Nonlinear Neighborhood Aggregators" <https://arxiv.org/abs/2202.09145>`_ paper.

    .. math::
        \mathrm{out}_v = \Big( \sum_{u \in \mathcal{N}(v)} a_{vu} (z_u - \mu)^p \Big)^{1/p}
        + \mu A_v^{1/p}, \qquad A_v = \sum_u a_{vu},

    with :math:`\mu` the minimum of the features. As printed (Eq. 7, :obj:`shift="paper"`) it adds
    :math:`\mu`, and is the weighted sum at :math:`p = 1` only where :math:`A_v = 1`. It is
    monotone in :math:`p` where :math:`A_v = 1`. A group without weight gives 0. Messages without
    weights count 1 each: :math:`A_v` is their number, and :math:`p = 1` their sum.

    It is a PyG aggregation: :obj:`SAGEConv(..., aggr=LpAggregation())` works, and so does
    every other layer. Called with a :class:`~meanmax.Graph` in place of :obj:`index` it aggregates
    the features of nodes over the graph: faster, and without a tensor of messages.

    .. note::
        :math:`\mu` is the minimum of the messages, over all groups, for each element of leading
        batch dimensions. In a PyG mini-batch its graphs share it; a :class:`~meanmax.Graph` keeps
        one per graph.

        Inside PyG's :class:`GCNConv` and :class:`GATConv` messages arrive already multiplied
        by their weight: the tilt then acts on :math:`a z`, which is not the paper's formula. Call
        it with a graph, or pass :obj:`edge_weight`, to have that.

    Args:
        p (float, sequence or Tensor, optional): The start value, at least 1, or one for
            each head or channel. (default: :obj:`2.0`)
        learn (bool, optional): Whether it is learned; else it is kept as a buffer.
            (default: :obj:`True`)
        per (str, optional): One parameter for the :obj:`"layer"`, or one for each :obj:`"head"`
            or :obj:`"channel"`. (default: :obj:`"layer"`)
        heads (int, optional): The number of heads, needed by :obj:`per="head"`: the features'
            second last dimension. (default: :obj:`None`)
        channels (int, optional): The number of channels, needed by :obj:`per="channel"`: the
            features' last dimension, or heads times that. (default: :obj:`None`)
        reparam (str, optional): How the learned value is kept in its domain: :obj:`"projected"`
            with a straight-through gradient, which can hold :math:`p = 1` exactly,
            :obj:`"softplus"` (above 1) or :obj:`"sigmoid"` (between 1 and
            :obj:`upper`). (default: :obj:`"projected"`)
        upper (float, optional): The upper bound of :obj:`reparam="sigmoid"`.
            (default: :obj:`2.0`)
        shift (str, optional): What is added back: :math:`\mu A_v^{1/p}` (:obj:`"consistent"`) or
            :math:`\mu` (:obj:`"paper"`, Eq. 7). (default: :obj:`"consistent"`)
        sign (str, optional): :obj:`"shift"` measures features from :math:`\mu`, :obj:`"abs"` takes
            :math:`|z|` and adds nothing back (Eq. 6). (default: :obj:`"shift"`)
        edge_dropout (float, optional): In training, the share of edges or messages left out at
            random; the rest weighs the more. (default: :obj:`0.0`)

    Shapes:
        - **input:** messages :math:`(*, |\mathcal{E}|, F)` or
          :math:`(|\mathcal{E}|, H, F)` with :obj:`dim=0`, and index
          :math:`(|\mathcal{E}|)`; or features :math:`(|\mathcal{V}_s|, F)` or
          :math:`(|\mathcal{V}_s|, H, F)` and a graph
        - **output:** :math:`(*, |\mathcal{V}_t|, F)` or :math:`(|\mathcal{V}_t|, H, F)`

    Example:
        >>> import torch
        >>> aggr = LpAggregation(p=2.0)
        >>> aggr
        LpAggregation(p=2.0, learn=True, per='layer', reparam='projected', shift='consistent',
                      sign='shift')
        >>> x = torch.tensor([[0.0], [3.0], [4.0]])
        >>> aggr(x, torch.tensor([0, 1, 1])).tolist()
        [[0.0], [5.0]]
        >>> graph = Graph.from_edge_index([[0, 1, 2], [0, 1, 1]], num_nodes=3)
        >>> aggr(x, graph, edge_weight=torch.tensor([1.0, 0.0, 0.25])).tolist()
        [[0.0], [2.0], [0.0]]
    """

    def __init__(
        self,
        p: Start = 2.0,
        *,
        learn: bool = True,
        per: Per = "layer",
        heads: int | None = None,
        channels: int | None = None,
        reparam: Reparam = "projected",
        upper: float | None = None,
        shift: Shift = "consistent",
        sign: Sign = "shift",
        edge_dropout: float = 0.0,
    ) -> None:
        AggregationSpec("lp", shift=shift)  # checks it
        check_choice("sign", sign, get_args(Sign))
        super().__init__(
            "lp",
            p,
            learn=learn,
            per=per,
            heads=heads,
            channels=channels,
            reparam=reparam,
            upper=upper,
            edge_dropout=edge_dropout,
        )
        self.shift: Shift = shift
        self.sign = sign

    @property
    def p(self) -> Tensor:
        r"""The parameter in its domain: :obj:`[]`, :obj:`[heads]` or :obj:`[channels]`."""
        return self.value

    def _aggregate(
        self, x: Tensor, graph: Graph, theta: Tensor, edge_weight: Maybe, mu: Maybe
    ) -> Tensor:
        return functional.lp(
            x, graph, theta, edge_weight=edge_weight, shift=self.shift, sign=self.sign, mu=mu
        )

    def _options(self) -> dict[str, str]:
        return {"shift": self.shift, "sign": self.sign}
