r"""The Lp-norm aggregator as a module that holds its parameter."""

from __future__ import annotations

from typing import Unpack, final

from torch import Tensor

from meanmax.aggr.base import FamilyOptions, TiltedAggregation
from meanmax.aggr.parameter import Start
from meanmax.ops.spec import AggregationSpec, Shift, Sign


@final
class LpAggregation(TiltedAggregation):
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

    Args:
        p (float, sequence or Tensor, optional): The start value, at least 1, or one for
            each head or channel. (default: :obj:`2.0`)
        shift (str, optional): What is added back: :math:`\mu A_v^{1/p}` (:obj:`"consistent"`) or
            :math:`\mu` (:obj:`"paper"`, Eq. 7). (default: :obj:`"consistent"`)
        sign (str, optional): :obj:`"shift"` measures features from :math:`\mu`, :obj:`"abs"` takes
            :math:`|z|` and adds nothing back (Eq. 6). (default: :obj:`"shift"`)
        **options: :obj:`learn`, :obj:`per` and so on, and the shapes: see
            :class:`~meanmax.aggr.base.LearnableAggregation`; :obj:`signed` and :obj:`beta`, towards
            the minimum and the sum: see :class:`~meanmax.aggr.base.TiltedAggregation`.

    Example:
        >>> import torch
        >>> from meanmax import Graph
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
        shift: Shift = "consistent",
        sign: Sign = "shift",
        **options: Unpack[FamilyOptions],
    ) -> None:
        super().__init__(AggregationSpec("lp", shift=shift), p, sign, **options)
        self.shift: Shift = shift

    @property
    def p(self) -> Tensor:
        r"""The parameter in its domain: :obj:`[]`, :obj:`[heads]` or :obj:`[channels]`."""
        return self.strength

    def _options(self) -> dict[str, str]:
        return {"shift": self.shift, "sign": self.sign}
