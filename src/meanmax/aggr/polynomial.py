r"""The polynomial aggregator as a module that holds its parameter."""

from __future__ import annotations

from typing import final, get_args

from torch import Tensor

from meanmax import functional
from meanmax.aggr.base import LearnableAggregation, Maybe
from meanmax.aggr.parameter import Per, Reparam, Start
from meanmax.graph import Graph
from meanmax.ops.spec import AggregationSpec, Form, Sign, check_choice


@final
class PolynomialAggregation(LearnableAggregation):
    r"""The polynomial mean over neighbours, from their weighted mean (:math:`\alpha = 0`) to their
    maximum (:math:`\alpha \to \infty`), of the `"Generalizing Aggregation Functions in GNNs:
    High-Capacity GNNs via Nonlinear Neighborhood Aggregators" <https://arxiv.org/abs/2202.09145>`_
    paper.

    .. math::
        \mathrm{out}_v = \frac{\sum_u a_{vu} (z_u - \mu)^{\alpha + 1}}
        {\sum_u a_{vu} (z_u - \mu)^{\alpha}} + \mu,

    with :math:`\mu` the minimum of the features; monotone in :math:`\alpha`. With
    :obj:`form="sum"` it is multiplied by :math:`A_v = \sum_u a_{vu}`: the weighted *sum* of a
    linear layer at :math:`\alpha = 0`, and :math:`A_v \max` in the limit. A group without weight
    gives 0, one whose members all sit at :math:`\mu` gives :math:`\mu`.

    It is a PyG aggregation: :obj:`SAGEConv(..., aggr=PolynomialAggregation())` works, and so does
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
        alpha (float, sequence or Tensor, optional): The start value, at least 0, or one for
            each head or channel. (default: :obj:`1.0`)
        learn (bool, optional): Whether it is learned; else it is kept as a buffer.
            (default: :obj:`True`)
        per (str, optional): One parameter for the :obj:`"layer"`, or one for each :obj:`"head"`
            or :obj:`"channel"`. (default: :obj:`"layer"`)
        heads (int, optional): The number of heads, needed by :obj:`per="head"`: the features'
            second last dimension. (default: :obj:`None`)
        channels (int, optional): The number of channels, needed by :obj:`per="channel"`: the
            features' last dimension, or heads times that. (default: :obj:`None`)
        reparam (str, optional): How the learned value is kept in its domain: :obj:`"projected"`
            with a straight-through gradient, which can hold :math:`\alpha = 0` exactly,
            :obj:`"softplus"` (above 0) or :obj:`"sigmoid"` (between 0 and
            :obj:`upper`). (default: :obj:`"projected"`)
        upper (float, optional): The upper bound of :obj:`reparam="sigmoid"`.
            (default: :obj:`2.0`)
        form (str, optional): :obj:`"weighted"` as above, or :obj:`"sum"`, times :math:`A_v`;
            :obj:`"paper"` (Eq. 12) is the same as :obj:`"weighted"`.
            (default: :obj:`"weighted"`)
        sign (str, optional): :obj:`"shift"` measures features from :math:`\mu`, :obj:`"abs"` takes
            :math:`|z|` and adds nothing back (Eq. 11). (default: :obj:`"shift"`)
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
        >>> aggr = PolynomialAggregation(alpha=1.0)
        >>> aggr
        PolynomialAggregation(alpha=1.0, learn=True, per='layer', reparam='projected',
                              form='weighted', sign='shift')
        >>> x = torch.tensor([[0.0], [2.0], [6.0]])
        >>> aggr(x, torch.tensor([0, 1, 1])).round(decimals=4).tolist()
        [[0.0], [5.0]]
        >>> graph = Graph.from_edge_index([[0, 1, 2], [0, 1, 1]], num_nodes=3)
        >>> aggr(x, graph, edge_weight=torch.tensor([1.0, 3.0, 1.0])).round(decimals=4).tolist()
        [[0.0], [4.0], [0.0]]
    """

    def __init__(
        self,
        alpha: Start = 1.0,
        *,
        learn: bool = True,
        per: Per = "layer",
        heads: int | None = None,
        channels: int | None = None,
        reparam: Reparam = "projected",
        upper: float | None = None,
        form: Form = "weighted",
        sign: Sign = "shift",
        edge_dropout: float = 0.0,
    ) -> None:
        AggregationSpec("polynomial", form=form)  # checks it
        check_choice("sign", sign, get_args(Sign))
        super().__init__(
            "polynomial",
            alpha,
            learn=learn,
            per=per,
            heads=heads,
            channels=channels,
            reparam=reparam,
            upper=upper,
            edge_dropout=edge_dropout,
        )
        self.form: Form = form
        self.sign = sign

    @property
    def alpha(self) -> Tensor:
        r"""The parameter in its domain: :obj:`[]`, :obj:`[heads]` or :obj:`[channels]`."""
        return self.value

    def _aggregate(
        self, x: Tensor, graph: Graph, theta: Tensor, edge_weight: Maybe, mu: Maybe
    ) -> Tensor:
        return functional.polynomial(
            x, graph, theta, edge_weight=edge_weight, form=self.form, sign=self.sign, mu=mu
        )

    def _options(self) -> dict[str, str]:
        return {"form": self.form, "sign": self.sign}
