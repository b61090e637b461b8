r"""The backbones by name, and aggregators made from their names and options."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from torch.nn import Module, ReLU, Sequential

from meanmax.aggr.base import LearnableAggregation
from meanmax.names import aggregator_name
from meanmax.nn.cat import CATConv, Conjunction
from meanmax.nn.conv import CLASSES, Aggr, Order
from meanmax.nn.gat import GATConv
from meanmax.nn.gcn import GCNConv
from meanmax.nn.gin import GINConv
from meanmax.nn.linear import Linear
from meanmax.nn.masked_gcn import MaskedGCNConv
from meanmax.nn.sage import SAGEConv
from meanmax.ops.spec import Form

Activation: TypeAlias = Literal["relu", "elu", "none"]
PARAMETERS = {"lp": "p", "poly": "alpha", "softmax": "gamma"}


@dataclass(frozen=True)
class LayerOptions:
    r"""Options that only some backbones have.

    Args:
        order (str, optional): :obj:`"transform-first"` or :obj:`"aggregate-first"`, for
            :obj:`"gcn"`, :obj:`"masked_gcn"` and :obj:`"sage"`. (default: the backbone's own)
        pool (bool, optional): GraphSAGE's dense layer before the aggregation.
            (default: :obj:`False`)
        out_heads (int, optional): Heads of the last layer of :obj:`"gat"` and :obj:`"cat"`, which
            are averaged. (default: :obj:`1`)
        conjunction (str, optional): CAT's form. (default: :obj:`"implicit"`)
        num_nodes (int, optional): The nodes of the one graph CAT is trained on, for which it
            learns structural embeddings; if :obj:`None`, they are fitted to each graph it sees.
            (default: :obj:`None`)
        structure_weight (float, optional): The weight :math:`\lambda` of the loss of CAT's learned
            embeddings. (default: :obj:`0.01`)
    """

    order: Order | None = None
    pool: bool = False
    out_heads: int = 1
    conjunction: Conjunction = "implicit"
    num_nodes: int | None = None
    structure_weight: float = 0.01


LAYER_OPTIONS = tuple(LayerOptions.__dataclass_fields__)


@dataclass(frozen=True)
class LayerPlan:
    r"""What a layer of a model is built from."""

    in_channels: int  # channels of the input
    out_channels: int  # channels of the output, all heads together if they are concatenated
    hidden: int  # the width of hidden layers, for layers that have an MLP
    heads: int
    concat: bool  # whether heads are concatenated, else averaged
    aggr: Aggr  # the aggregation
    dropout: float  # dropout of attention, or of the masked input
    order: Order  # the order of transform and aggregation
    options: LayerOptions  # the backbone's own options

    @property
    def sizes(self) -> tuple[int, int]:
        r"""Input channels, and output channels of one head."""
        heads = self.heads if self.concat else 1
        return self.in_channels, self.out_channels // heads


@dataclass(frozen=True)
class Backbone:
    r"""One architecture."""

    layer: Callable[[LayerPlan], Module]  # builds a layer from its plan
    options: tuple[str, ...] = ()  # the fields of LayerOptions that it has
    activation: Activation = "relu"  # the activation of hidden layers
    heads: int = 0  # the usual number of heads; 0 for layers without heads
    drops_input: bool = False  # whether the layer applies dropout to its input itself
    order: Order = "transform-first"  # the default order of transform and aggregation
    form: Form = "weighted"  # the form of a polynomial or softmax given by name


def _gcn(plan: LayerPlan) -> Module:
    return GCNConv(*plan.sizes, aggr=plan.aggr, order=plan.order)


def _masked_gcn(plan: LayerPlan) -> Module:
    return MaskedGCNConv(*plan.sizes, aggr=plan.aggr, order=plan.order, dropout=plan.dropout)


def _gat(plan: LayerPlan) -> Module:
    return GATConv(
        *plan.sizes, plan.heads, concat=plan.concat, aggr=plan.aggr, dropout=plan.dropout
    )


def _cat(plan: LayerPlan) -> Module:
    return CATConv(
        *plan.sizes,
        plan.heads,
        concat=plan.concat,
        aggr=plan.aggr,
        conjunction=plan.options.conjunction,
        dropout=plan.dropout,
    )


def _sage(plan: LayerPlan) -> Module:
    return SAGEConv(*plan.sizes, aggr=plan.aggr, order=plan.order, pool=plan.options.pool)


def _gin(plan: LayerPlan) -> Module:
    mlp = Sequential(
        Linear(plan.in_channels, plan.hidden), ReLU(), Linear(plan.hidden, plan.out_channels)
    )
    return GINConv(mlp, aggr=plan.aggr, train_eps=True)


_CAT_OPTIONS = ("out_heads", "conjunction", "num_nodes", "structure_weight")
BACKBONES: dict[str, Backbone] = {
    "gcn": Backbone(_gcn, ("order",)),
    "masked_gcn": Backbone(_masked_gcn, ("order",), drops_input=True),
    "gat": Backbone(_gat, ("out_heads",), activation="elu", heads=8),
    "cat": Backbone(_cat, _CAT_OPTIONS, activation="elu", heads=8),
    "sage": Backbone(_sage, ("order", "pool"), order="aggregate-first"),
    "gin": Backbone(_gin, order="aggregate-first", form="sum"),
}


def find_backbone(name: object) -> Backbone:
    r"""The backbone of a name; a :class:`ValueError` that lists the known ones if there is none."""
    if not isinstance(name, str) or name not in BACKBONES:
        listed = ", ".join(repr(known) for known in BACKBONES)
        raise ValueError(f"unknown backbone {name!r}: 'backbone' must be one of {listed}")
    return BACKBONES[name]


def make_layer_options(backbone: str, given: Mapping[str, Any]) -> LayerOptions:
    r"""The options of a backbone's layers; a :class:`ValueError` for those of another one."""
    family, usual = BACKBONES[backbone], LayerOptions()
    for name, value in given.items():
        if name not in LAYER_OPTIONS:
            raise ValueError(
                f"'layer_options' has no {name!r}: it may hold {', '.join(LAYER_OPTIONS)}"
            )
        if name not in family.options and value != getattr(usual, name):
            owners = [repr(known) for known, one in BACKBONES.items() if name in one.options]
            raise ValueError(
                f"{name!r} belongs to backbone {' and '.join(owners)} (got {name}={value!r} for "
                f"{backbone!r}): leave it out"
            )
    return replace(usual, **given)


def nest_layer_options(options: Mapping[str, Any]) -> dict[str, Any]:
    r"""Arguments of :func:`~meanmax.build_model` from a flat dictionary, the form that settings
    and saved models have.

    Example:
        >>> nest_layer_options({"skip": "linear", "pool": True})
        {'skip': 'linear', 'layer_options': {'pool': True}}
    """
    nested = {name: value for name, value in options.items() if name not in LAYER_OPTIONS}
    layer = {name: value for name, value in options.items() if name in LAYER_OPTIONS}
    return {**nested, "layer_options": {**nested.get("layer_options", {}), **layer}}


def make_aggregator(
    aggr: Aggr | str,
    options: Mapping[str, Any],
    heads: int | None,
    channels: int,
    form: Form = "weighted",
) -> Aggr:
    r"""The aggregator of one layer."""
    if isinstance(aggr, LearnableAggregation):
        if options:
            raise ValueError(
                f"'aggr_options' is for aggregators given by name (got {dict(options)} beside an "
                f"object): pass them to {type(aggr).__name__} itself"
            )
        _check_fit(aggr, heads, channels)
        return copy.deepcopy(aggr)
    name = aggregator_name(aggr)
    if name not in CLASSES:
        if options:
            raise ValueError(
                f"'aggr_options' has no effect with aggr={aggr!r} (got {dict(options)}): leave it "
                f"out, or choose one of {', '.join(repr(name) for name in CLASSES)}"
            )
        return "max" if name == "max" else None
    kind = CLASSES[name]
    arguments = dict(options)
    if "start" in arguments:
        arguments[PARAMETERS[name]] = arguments.pop("start")
    if "normalize" in arguments:  # the name in stored rows, settings files and saved models
        arguments["form"] = arguments.pop("normalize")
    if name != "lp":
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
