r"""DeeperGCN's layer."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, Literal, TypeAlias, final

import torch
from torch import Tensor
from torch.nn import BatchNorm1d, Identity, LayerNorm, Module, ReLU, Sequential
from torch_geometric.nn import MessageNorm

from meanmax.graph import Graph
from meanmax.nn.conv import (
    Aggr,
    Channels,
    Conv,
    LayerAggregation,
    as_pair,
    check_channels,
    check_positive,
)
from meanmax.nn.linear import Features, Linear, as_dense
from meanmax.ops.spec import check_choice

Norm: TypeAlias = Literal["batch", "layer"] | None
NORMS: Final = ("batch", "layer", None)


@final
class GENConv(Conv):
    r"""The layer of `"DeeperGCN: All You Need to Train Deeper GCNs"
    <https://arxiv.org/abs/2006.07739>`_ with any aggregator.

    .. math::
        h'_v = \mathrm{MLP} \big( h_v + \mathrm{AGG}_{u \in \mathcal{N}(v)} (
        \mathrm{ReLU}(h_u) + \epsilon ) \big)

    where a linear map comes before the message and the sum if widths differ. The parameters are
    those of PyG's :class:`GENConv` without edge attributes, and so is the output:

    ======================================== ==================================================
    PyG's :obj:`aggr`                        here
    ======================================== ==================================================
    ``"softmax", t=t, learn_t=True``         ``SoftmaxAggregation(t)``; ``"softmax"`` for t = 1
    ``"softmax", t=t``                       ``SoftmaxAggregation(t, learn=False)``
    ``"powermean", p=p, learn_p=True``       ``LpAggregation(p, sign="abs")``, which does not clamp
                                             messages and means of powers to [0.0001, 100]
    ``"mean"``                               ``None``
    ``"max"``                                ``"max"``
    ``"add"``                                ``SoftmaxAggregation(0.0, beta=1.0, learn=False)``
    ======================================== ==================================================

    An aggregator with :obj:`beta` multiplies by a power of the number of neighbours; with
    :obj:`learn_beta=True` it is DeeperGCN's :math:`\mathrm{SoftMax\_SumNorm}`. The others see
    neighbours of the weight :math:`1 / |\mathcal{N}(v)|`, as in :class:`SAGEConv`.

    Args:
        in_channels (int or tuple): Channels of the input, or those of sources and of targets; -1
            takes them from the first input.
        out_channels (int): Channels of the messages and of the output.
        aggr (str or LearnableAggregation, optional): As in :class:`GCNConv`; :obj:`None` is the
            mean. (default: :obj:`None`)
        msg_norm (bool, optional): Whether the aggregation is divided by its length and multiplied
            by that of :math:`h_v`. (default: :obj:`False`)
        learn_msg_scale (bool, optional): Whether a factor of that is learned.
            (default: :obj:`False`)
        norm (str, optional): :obj:`"batch"` or :obj:`"layer"` normalisation inside of the MLP.
            (default: :obj:`"batch"`)
        num_layers (int, optional): Layers of the MLP. (default: :obj:`2`)
        expansion (int, optional): The width of its hidden layers as a multiple of
            :obj:`out_channels`. (default: :obj:`2`)
        eps (float, optional): :math:`\epsilon`. (default: :obj:`1e-7`)
        bias (bool, optional): Whether linear maps have a bias. (default: :obj:`False`)

    Example:
        >>> conv = GENConv(8, 16, aggr="softmax")
        >>> conv(torch.rand(3, 8), torch.tensor([[0, 1, 2], [1, 2, 0]])).shape
        torch.Size([3, 16])
    """

    takes_pair = True

    def __init__(
        self,
        in_channels: Channels,
        out_channels: int,
        *,
        aggr: Aggr = None,
        msg_norm: bool = False,
        learn_msg_scale: bool = False,
        norm: Norm = "batch",
        num_layers: int = 2,
        expansion: int = 2,
        eps: float = 1e-7,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.in_channels = check_channels(in_channels, self.takes_pair, out_channels=out_channels)
        check_positive(num_layers=num_layers, expansion=expansion)
        check_choice("norm", norm, NORMS)  # type: ignore[arg-type]
        self.out_channels = out_channels
        self.eps = float(eps)
        self.lin_src, self.lin_dst = (
            None if size == out_channels else Linear(size, out_channels, bias=bias)
            for size in as_pair(self.in_channels)
        )
        self.aggr = LayerAggregation(aggr)
        hidden = [out_channels * expansion] * (num_layers - 1)
        parts: list[Module] = []
        for before, width in pairwise([out_channels, *hidden]):
            norms = [] if norm is None else [make_norm(norm, width)]
            # The last one has the place of PyG's dropout, whose rate is 0.
            parts += [Linear(before, width, bias=bias), *norms, ReLU(), Identity()]
        self.mlp = Sequential(*parts, Linear([out_channels, *hidden][-1], out_channels, bias=bias))
        self.msg_norm = MessageNorm(learn_msg_scale) if msg_norm else None

    def send(self, x: Features) -> Tensor:
        r"""The messages."""
        h = as_dense(x) if self.lin_src is None else self.lin_src(x)
        return torch.relu(h) + self.eps

    def prepare(self, graph: Graph) -> Graph:
        r"""The graph with weights that sum to 1 at each target, or as it is for an aggregator with
        :obj:`beta`, which normalises by itself.
        """
        return graph.prepared(None if self.aggr.is_scaled else "row")

    def receive(
        self, sent: Features, own: Features | None, x: Features | None, graph: Graph
    ) -> Tensor:
        r"""Aggregates, adds the targets' own term, and runs the MLP; see :meth:`Conv.receive`."""
        h: Tensor = self.aggr(as_dense(sent), graph)
        if self.msg_norm is not None:
            if x is None:
                raise ValueError(
                    "msg_norm=True needs features of the targets: pass a pair (x_source, x_target)"
                )
            h = self.msg_norm(as_dense(x), h)
        if x is not None:
            h = h + (as_dense(x) if self.lin_dst is None else self.lin_dst(x))
        out: Tensor = self.mlp(h)
        return out

    def extra_repr(self) -> str:
        r"""The channels."""
        return f"{self.in_channels}, {self.out_channels}"


def make_norm(kind: Norm, channels: int) -> Module:
    r"""A norm by its name, which changes nothing if that is :obj:`None`."""
    if kind is None:
        return Identity()
    return BatchNorm1d(channels) if kind == "batch" else LayerNorm(channels)
