r"""The softmax aggregator as a module that holds its parameter."""

from __future__ import annotations

from typing import final

from torch import Tensor

from meanmax import functional
from meanmax.aggr.base import LearnableAggregation, Maybe
from meanmax.aggr.parameter import Per, Reparam, Start
from meanmax.graph import Graph
from meanmax.ops.spec import AggregationSpec, Form


@final
class SoftmaxAggregation(LearnableAggregation):
    r"""The softmax-weighted mean over neighbours, from their weighted mean (:math:`\gamma = 0`) to
    their maximum (:math:`\gamma \to \infty`), of the `"Generalizing Aggregation Functions in GNNs:
    High-Capacity GNNs via Nonlinear Neighborhood Aggregators" <https://arxiv.org/abs/2202.09145>`_
    paper.

    .. math::
        \mathrm{out}_v = \frac{\sum_u a_{vu} e^{\gamma z_u} z_u}{\sum_u a_{vu} e^{\gamma z_u}},

    monotone in :math:`\gamma`. With :obj:`form="sum"` it is multiplied by
    :math:`A_v = \sum_u a_{vu}`: the weighted *sum* of a linear layer at :math:`\gamma = 0`, and
    :math:`A_v \max` in the limit. As printed (Eq. 15, :obj:`form="paper"`) the denominator
    has no weight; with normalised weights it then divides by the degree twice, and neither end of
    the path holds. Without weights the printed form and :obj:`"weighted"` are the same. A group
    without weight gives 0.

    It is a PyG aggregation: :obj:`SAGEConv(..., aggr=SoftmaxAggregation())` works, and so does
    every other layer. Called with a :class:`~meanmax.Graph` in place of :obj:`index` it aggregates
    the features of nodes over the graph: faster, and without a tensor of messages.

    .. note::
        Inside PyG's :class:`GCNConv` and :class:`GATConv` messages arrive already multiplied
        by their weight: the tilt then acts on :math:`a z`, which is not the paper's formula. Call
        it with a graph, or pass :obj:`edge_weight`, to have that.

    Args:
        gamma (float, sequence or Tensor, optional): The start value, at least 0, or one for
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
            with a straight-through gradient, which can hold :math:`\gamma = 0` exactly,
            :obj:`"softplus"` (above 0) or :obj:`"sigmoid"` (between 0 and
            :obj:`upper`). (default: :obj:`"projected"`)
        upper (float, optional): The upper bound of :obj:`reparam="sigmoid"`.
            (default: :obj:`2.0`)
        form (str, optional): :obj:`"weighted"`, :obj:`"sum"` or :obj:`"paper"`.
            (default: :obj:`"weighted"`)
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
        >>> aggr = SoftmaxAggregation(gamma=1.0)
        >>> aggr
        SoftmaxAggregation(gamma=1.0, learn=True, per='layer', reparam='projected',
                           form='weighted')
        >>> x = torch.tensor([[0.0], [1.0], [2.0]])
        >>> aggr(x, torch.tensor([0, 0, 0]))
        tensor([[1.5752]], grad_fn=<ViewBackward0>)
        >>> graph = Graph.from_edge_index([[0, 1, 2], [0, 0, 0]], num_nodes=3)
        >>> aggr(x, graph, edge_weight=torch.tensor([1.0, 1.0, 0.0]))[0]
        tensor([0.7311], grad_fn=<SelectBackward0>)
    """

    def __init__(
        self,
        gamma: Start = 1.0,
        *,
        learn: bool = True,
        per: Per = "layer",
        heads: int | None = None,
        channels: int | None = None,
        reparam: Reparam = "projected",
        upper: float | None = None,
        form: Form = "weighted",
        edge_dropout: float = 0.0,
    ) -> None:
        AggregationSpec("softmax", form=form)  # checks it
        super().__init__(
            "softmax",
            gamma,
            learn=learn,
            per=per,
            heads=heads,
            channels=channels,
            reparam=reparam,
            upper=upper,
            edge_dropout=edge_dropout,
        )
        self.form: Form = form

    @property
    def gamma(self) -> Tensor:
        r"""The parameter in its domain: :obj:`[]`, :obj:`[heads]` or :obj:`[channels]`."""
        return self.value

    def _aggregate(
        self, x: Tensor, graph: Graph, theta: Tensor, edge_weight: Maybe, mu: Maybe
    ) -> Tensor:
        return functional.softmax(x, graph, theta, edge_weight=edge_weight, form=self.form)

    def _options(self) -> dict[str, str]:
        return {"form": self.form}
