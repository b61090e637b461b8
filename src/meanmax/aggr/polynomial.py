r"""The polynomial aggregator as a module that holds its parameter."""

from __future__ import annotations

from typing import Unpack, final

from torch import Tensor

from meanmax.aggr.base import FamilyOptions, TiltedAggregation
from meanmax.aggr.parameter import Start
from meanmax.ops.spec import AggregationSpec, Form, Sign


@final
class PolynomialAggregation(TiltedAggregation):
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

    Args:
        alpha (float, sequence or Tensor, optional): The start value, at least 0, or one for
            each head or channel. (default: :obj:`1.0`)
        form (str, optional): :obj:`"weighted"` as above, or :obj:`"sum"`, times :math:`A_v`;
            :obj:`"paper"` (Eq. 12) is the same as :obj:`"weighted"`.
            (default: :obj:`"weighted"`)
        sign (str, optional): :obj:`"shift"` measures features from :math:`\mu`, :obj:`"abs"` takes
            :math:`|z|` and adds nothing back (Eq. 11). (default: :obj:`"shift"`)
        **options: :obj:`learn`, :obj:`per` and so on, and the shapes: see
            :class:`~meanmax.aggr.base.LearnableAggregation`; :obj:`signed` and :obj:`beta`, towards
            the minimum and the sum: see :class:`~meanmax.aggr.base.TiltedAggregation`.

    Example:
        >>> import torch
        >>> from meanmax import Graph
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
        form: Form = "weighted",
        sign: Sign = "shift",
        **options: Unpack[FamilyOptions],
    ) -> None:
        super().__init__(AggregationSpec("polynomial", form), alpha, sign, **options)
        self.form: Form = form

    @property
    def alpha(self) -> Tensor:
        r"""The parameter in its domain: :obj:`[]`, :obj:`[heads]` or :obj:`[channels]`."""
        return self.strength

    def _options(self) -> dict[str, str]:
        return {"form": self.form, "sign": self.sign}
