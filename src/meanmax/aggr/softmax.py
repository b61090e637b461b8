r"""The softmax aggregator as a module that holds its parameter."""

from __future__ import annotations

from typing import Unpack, final

import torch
from torch import Tensor

from meanmax.aggr.base import FamilyOptions, TiltedAggregation
from meanmax.aggr.parameter import Start
from meanmax.ops.spec import AggregationSpec, Form


@final
class SoftmaxAggregation(TiltedAggregation):
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

    Args:
        gamma (float, sequence or Tensor, optional): The start value, at least 0, or one for
            each head or channel. (default: :obj:`1.0`)
        form (str, optional): :obj:`"weighted"`, :obj:`"sum"` or :obj:`"paper"`.
            (default: :obj:`"weighted"`)
        **options: :obj:`learn`, :obj:`per` and so on, and the shapes: see
            :class:`~meanmax.aggr.base.LearnableAggregation`; :obj:`signed` and :obj:`beta`, towards
            the minimum and the sum: see :class:`~meanmax.aggr.base.TiltedAggregation`.

    Example:
        >>> import torch
        >>> from meanmax import Graph
        >>> aggr = SoftmaxAggregation(gamma=1.0)
        >>> aggr
        SoftmaxAggregation(gamma=1.0, learn=True, per='layer', reparam='projected',
                           form='weighted')
        >>> x = torch.tensor([[0.0], [1.0], [2.0]])
        >>> aggr(x, torch.tensor([0, 0, 0])).detach()
        tensor([[1.5752]])
        >>> graph = Graph.from_edge_index([[0, 1, 2], [0, 0, 0]], num_nodes=3)
        >>> aggr(x, graph, edge_weight=torch.tensor([1.0, 1.0, 0.0]))[0]
        tensor([0.7311], grad_fn=<SelectBackward0>)
    """

    def __init__(
        self,
        gamma: Start = 1.0,
        *,
        form: Form = "weighted",
        **options: Unpack[FamilyOptions],
    ) -> None:
        super().__init__(AggregationSpec("softmax", form), gamma, **options)
        self.form: Form = form

    @property
    def gamma(self) -> Tensor:
        r"""The parameter in its domain: :obj:`[]`, :obj:`[heads]` or :obj:`[channels]`."""
        return self.strength

    def _options(self) -> dict[str, str]:
        return {"form": self.form}


@final
class SpreadAggregation(TiltedAggregation):
    r"""The softmax aggregation with a parameter for each channel, spread evenly from
    :math:`-\mathrm{limit}` (near the minimum) over 0 (the mean) to :math:`\mathrm{limit}` (near the
    maximum): all of them at once, to let the next layer choose.

    It is :class:`SoftmaxAggregation` with :obj:`signed=True` and such start values.

    Args:
        limit (float, optional): The largest :math:`\gamma`, at least 0. (default: :obj:`4.0`)
        form (str, optional): :obj:`"weighted"` or :obj:`"sum"`. (default: :obj:`"weighted"`)
        **options: :obj:`channels`, which it needs, :obj:`learn` and so on: see
            :class:`~meanmax.aggr.base.LearnableAggregation`.

    Example:
        >>> import torch
        >>> aggr = SpreadAggregation(channels=3)
        >>> aggr.gamma.tolist()
        [-4.0, 0.0, 4.0]
        >>> x = torch.tensor([[0.0], [1.0], [2.0]]).expand(3, 3)
        >>> aggr(x, torch.tensor([0, 0, 0])).detach()
        tensor([[0.0186, 1.0000, 1.9814]])
    """

    def __init__(
        self, limit: float = 4.0, *, form: Form = "weighted", **options: Unpack[FamilyOptions]
    ) -> None:
        channels = options.get("channels")
        if options.setdefault("per", "channel") != "channel" or channels is None:
            raise ValueError(
                f"'spread' has a parameter for each channel: give channels=, and leave out 'per' "
                f"(got channels={channels!r}, per={options['per']!r})"
            )
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit >= 0:
            raise ValueError(f"'limit' must be a number of at least 0 (got {limit!r})")
        if not options.setdefault("signed", True):
            raise ValueError("'spread' reaches from minimum to maximum: leave out signed=False")
        gamma = torch.linspace(-limit, limit, channels) if channels > 1 else torch.zeros(channels)
        super().__init__(AggregationSpec("softmax", form), gamma, **options)
        self.form: Form = form

    @property
    def gamma(self) -> Tensor:
        r"""The parameter, :obj:`[channels]`."""
        return self.value

    def _options(self) -> dict[str, str]:
        return {"form": self.form}
