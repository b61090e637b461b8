r"""The backbones by name: which layer each is made of, and its customs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from torch.nn import Module, ReLU, Sequential

from meanmax.aggr.base import LearnableAggregation
from meanmax.nn.cat import CATConv, Conjunction
from meanmax.nn.conv import AGGREGATORS, CLASSES, Aggr, Order
from meanmax.nn.gat import GATConv
from meanmax.nn.gcn import GCNConv
from meanmax.nn.gin import GINConv
from meanmax.nn.linear import Linear
from meanmax.nn.masked_gcn import MaskedGCNConv
from meanmax.nn.sage import SAGEConv
from meanmax.ops.spec import Form

BackboneName: TypeAlias = Literal["gcn", "masked_gcn", "gat", "cat", "sage", "gin"]
Activation: TypeAlias = Literal["relu", "elu", "none"]


@dataclass(frozen=True)
class LayerPlan:
    r"""What a layer of a model is built from.

    Args:
        in_channels (int): Channels of the input.
        out_channels (int): Channels of the output, all heads together if they are concatenated.
        hidden (int): The width of hidden layers, for layers that have an MLP.
        heads (int): The number of heads.
        concat (bool): Whether heads are concatenated, else averaged.
        aggr (str or LearnableAggregation, optional): The aggregation.
        order (str, optional): The order of transform and aggregation; :obj:`None` for the layer's
            own.
        dropout (float): Dropout, of attention or of what a mask has left.
        pool (bool): Whether GraphSAGE has a dense layer before the aggregation.
        conjunction (str): CAT's form.
    """

    in_channels: int
    out_channels: int
    hidden: int
    heads: int
    concat: bool
    aggr: Aggr
    order: Order | None
    dropout: float
    pool: bool
    conjunction: Conjunction

    @property
    def head_channels(self) -> int:
        r"""Output channels of one head."""
        return self.out_channels // self.heads if self.concat else self.out_channels


@dataclass(frozen=True)
class Backbone:
    r"""One architecture.

    Args:
        layer (callable): Builds a layer from its plan.
        activation (str): What hidden layers end with.
        heads (int): The usual number of heads; 0 for layers without heads.
        ordered (bool): Whether the layer has an order of transform and aggregation.
        drops_input (bool): Whether the layer applies dropout to its input itself.
        first (str): What the layer does first unless told otherwise.
        form (str): The form of a polynomial or softmax given by name.
    """

    layer: Callable[[LayerPlan], Module]
    activation: Activation = "relu"
    heads: int = 0
    ordered: bool = True
    drops_input: bool = False
    first: Order = "transform-first"
    form: Form = "weighted"


def _gcn(plan: LayerPlan) -> Module:
    order = plan.order or BACKBONES["gcn"].first
    return GCNConv(plan.in_channels, plan.out_channels, aggr=plan.aggr, order=order)


def _masked_gcn(plan: LayerPlan) -> Module:
    order = plan.order or BACKBONES["masked_gcn"].first
    sizes = (plan.in_channels, plan.out_channels)
    return MaskedGCNConv(*sizes, aggr=plan.aggr, order=order, dropout=plan.dropout)


def _gat(plan: LayerPlan) -> Module:
    sizes = (plan.in_channels, plan.head_channels, plan.heads)
    return GATConv(*sizes, concat=plan.concat, aggr=plan.aggr, dropout=plan.dropout)


def _cat(plan: LayerPlan) -> Module:
    return CATConv(
        plan.in_channels,
        plan.head_channels,
        plan.heads,
        concat=plan.concat,
        aggr=plan.aggr,
        conjunction=plan.conjunction,
        dropout=plan.dropout,
    )


def _sage(plan: LayerPlan) -> Module:
    order = plan.order or BACKBONES["sage"].first
    sizes = (plan.in_channels, plan.out_channels)
    return SAGEConv(*sizes, aggr=plan.aggr, order=order, pool=plan.pool)


def _gin(plan: LayerPlan) -> Module:
    mlp = Sequential(
        Linear(plan.in_channels, plan.hidden), ReLU(), Linear(plan.hidden, plan.out_channels)
    )
    return GINConv(mlp, aggr=plan.aggr, train_eps=True)


BACKBONES: dict[str, Backbone] = {
    "gcn": Backbone(_gcn),
    "masked_gcn": Backbone(_masked_gcn, drops_input=True),
    "gat": Backbone(_gat, activation="elu", heads=8, ordered=False),
    "cat": Backbone(_cat, activation="elu", heads=8, ordered=False),
    "sage": Backbone(_sage, first="aggregate-first"),
    "gin": Backbone(_gin, ordered=False, first="aggregate-first", form="sum"),
}


PARAMETERS = {"lp": "p", "poly": "alpha", "softmax": "gamma"}


def check_aggregator(aggr: object) -> None:
    r"""A :class:`ValueError` that lists what is known, unless :obj:`aggr` is."""
    if aggr is None or isinstance(aggr, LearnableAggregation) or aggr in (*AGGREGATORS, "none"):
        return
    listed = ", ".join(repr(name) for name in ("none", *AGGREGATORS))
    raise ValueError(
        f"unknown aggregator {aggr!r}: 'aggr' must be one of {listed}, None, or an aggregator "
        f"such as meanmax.LpAggregation()"
    )


def make_aggregator(
    aggr: Aggr | str,
    options: Mapping[str, Any],
    heads: int | None,
    channels: int,
    form: Form = "weighted",
) -> Aggr:
    r"""The aggregator of one layer.

    Args:
        aggr (str or LearnableAggregation, optional): Its name, or one that is copied.
        options (mapping): Arguments of its class. :obj:`start` is the start value under one name
            for all; :obj:`per="head"` and :obj:`"channel"` need no number.
        heads (int, optional): The layer's heads; :obj:`None` if it has none.
        channels (int): The channels that are aggregated, all heads together.
        form (str, optional): The form of a polynomial or softmax, unless :obj:`options` has
            one. (default: :obj:`"weighted"`)
    """
    if isinstance(aggr, LearnableAggregation):
        if options:
            raise ValueError(
                f"'aggr_options' is for aggregators given by name (got {dict(options)} beside an "
                f"object): pass them to {type(aggr).__name__} itself"
            )
        _check_fit(aggr, heads, channels)
        return copy.deepcopy(aggr)
    if aggr not in CLASSES:
        if options:
            raise ValueError(
                f"'aggr_options' has no effect with aggr={aggr!r} (got {dict(options)}): leave it "
                f"out, or choose one of {', '.join(repr(name) for name in CLASSES)}"
            )
        return "max" if aggr == "max" else None
    kind = CLASSES[aggr]
    arguments = dict(options)
    if "start" in arguments:
        arguments[PARAMETERS[str(aggr)]] = arguments.pop("start")
    if "normalize" in arguments:  # the name in stored rows, settings files and saved models
        arguments["form"] = arguments.pop("normalize")
    if aggr != "lp":
        arguments.setdefault("form", form)
    per = arguments.setdefault("per", "layer" if heads is None else "head")
    if per == "head" and heads is None:
        arguments["per"] = "layer"
    elif per == "head":
        arguments["heads"] = heads
    elif per == "channel":
        arguments["channels"] = channels
    try:
        return kind(**arguments)
    except TypeError as error:
        raise ValueError(f"'aggr_options' does not fit {kind.__name__}: {error}") from None


def _check_fit(aggr: LearnableAggregation, heads: int | None, channels: int) -> None:
    found = {"layer": 1, "head": heads or 1, "channel": channels}[aggr.per]
    count = aggr.raw.numel()
    if aggr.per != "layer" and count not in (found, channels // (heads or 1)):
        raise ValueError(
            f"the aggregator has {count} parameters, one per {aggr.per}, but a layer has {found}: "
            f"give it by name with aggr_options={{'per': {aggr.per!r}}}, which fits every layer"
        )
