r"""Models by name: the backbones, their options and aggregators, and :func:`build_model`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args

from torch.nn import BatchNorm1d, LayerNorm, Module, ReLU, Sequential

from meanmax.aggr import AGGREGATIONS, LearnableAggregation
from meanmax.names import LEARNED, STORED_OPTION_NAMES, WITHOUT_AGGREGATOR, aggregator_name
from meanmax.nn.cat import CATConv, Conjunction, StructuralEmbedding
from meanmax.nn.conv import Aggr, Order, check_positive, check_rate
from meanmax.nn.gat import GATConv
from meanmax.nn.gcn import GCNConv
from meanmax.nn.gin import GINConv
from meanmax.nn.linear import Linear
from meanmax.nn.masked_gcn import MaskedGCNConv
from meanmax.nn.mlp import DenseLayer
from meanmax.nn.model import ACTIVATIONS, Activation, NodeModel, Shortcut
from meanmax.nn.sage import SAGEConv
from meanmax.ops.spec import Form, check_choice

Nonlinear: TypeAlias = Literal["first", "all", "hidden"]
Skip: TypeAlias = Literal["linear", "residual"] | None
Norm: TypeAlias = Literal["batch", "layer"] | None


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
class Backbone:
    r"""One architecture."""

    layer: Callable[..., Module]  # takes the channels of the input and of one head's output, and
    takes: tuple[str, ...]  # these arguments: options of layers and names that build_model knows
    options: tuple[str, ...] = ()  # the fields of LayerOptions that it has
    activation: Activation = "relu"  # of hidden layers
    heads: int = 0  # the usual number of heads; 0 for layers without heads
    drops_input: bool = False  # whether the layer applies dropout to its input itself
    order: Order = "transform-first"  # the default order of transform and aggregation
    form: Form = "weighted"  # the form of a polynomial or softmax given by name


def _gin(in_channels: int, out_channels: int, *, hidden: int, aggr: Aggr) -> GINConv:
    mlp = Sequential(Linear(in_channels, hidden), ReLU(), Linear(hidden, out_channels))
    return GINConv(mlp, aggr=aggr, train_eps=True)


_ATTENTION = ("heads", "concat", "aggr", "dropout")
_CAT_OPTIONS = ("out_heads", "conjunction", "num_nodes", "structure_weight")
BACKBONES: dict[str, Backbone] = {
    "gcn": Backbone(GCNConv, ("aggr", "order"), ("order",)),
    "masked_gcn": Backbone(
        MaskedGCNConv, ("aggr", "order", "dropout"), ("order",), drops_input=True
    ),
    "gat": Backbone(GATConv, _ATTENTION, ("out_heads",), activation="elu", heads=8),
    "cat": Backbone(CATConv, (*_ATTENTION, "conjunction"), _CAT_OPTIONS, activation="elu", heads=8),
    "sage": Backbone(
        SAGEConv, ("aggr", "order", "pool"), ("order", "pool"), order="aggregate-first"
    ),
    "gin": Backbone(_gin, ("hidden", "aggr"), order="aggregate-first", form="sum"),
    "mlp": Backbone(DenseLayer, ()),
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
    nested = dict(options)
    layer = {name: nested.pop(name) for name in options if name in LAYER_OPTIONS}
    return {**nested, "layer_options": {**nested.get("layer_options", {}), **layer}}


def make_aggregator(
    aggr: Aggr, options: Mapping[str, Any], heads: int | None, channels: int, form: Form
) -> Aggr:
    r"""The aggregator of one layer."""
    if isinstance(aggr, LearnableAggregation):
        if options:
            raise ValueError(
                f"'aggr_options' is for aggregators given by name (got {dict(options)} with an "
                f"object): pass them to {type(aggr).__name__} itself"
            )
        found = {"layer": 1, "head": heads or 1, "channel": channels}[aggr.per]
        count = aggr.raw.numel()
        if aggr.per != "layer" and count not in (found, channels // (heads or 1)):
            raise ValueError(
                f"the aggregator has {count} parameters, one per {aggr.per}, but a layer has "
                f"{found}: give it by name with aggr_options={{'per': {aggr.per!r}}}, which fits "
                f"every layer"
            )
        return copy.deepcopy(aggr)
    name = aggregator_name(aggr)
    if name not in LEARNED:
        if options:
            raise ValueError(
                f"'aggr_options' has no effect with aggr={aggr!r} (got {dict(options)}): leave it "
                f"out, or choose one of {', '.join(repr(name) for name in LEARNED)}"
            )
        return "max" if name == "max" else None
    kind = AGGREGATIONS[name]
    arguments = {STORED_OPTION_NAMES.get(key, key): value for key, value in options.items()}
    start = [arguments.pop("start")] if "start" in arguments else []  # its first argument
    if "form" in LEARNED[name]:
        arguments.setdefault("form", form)
    per = arguments.setdefault("per", "layer" if heads is None else "head")
    if name == "spread":
        per = arguments["per"] = "channel"
    if per == "head" and heads is None:
        arguments["per"] = "layer"
    elif per == "head":
        arguments["heads"] = heads
    elif per == "channel":
        arguments["channels"] = channels
    try:
        return kind(*start, **arguments)
    except TypeError as error:
        raise ValueError(f"'aggr_options' does not fit {kind.__name__}: {error}") from None


def build_model(
    backbone: str,
    aggr: str | LearnableAggregation | None,
    in_channels: int,
    hidden: int,
    out_channels: int,
    layers: int = 2,
    heads: int | None = None,
    dropout: float = 0.5,
    *,
    nonlinear: Nonlinear = "first",
    skip: Skip = None,
    norm: Norm = None,
    activation: Activation | None = None,
    aggr_options: Mapping[str, Any] | None = None,
    layer_options: Mapping[str, Any] | None = None,
) -> NodeModel:
    r"""Builds a model that gives every node an output.

    Args:
        backbone (str): :obj:`"gcn"`, :obj:`"masked_gcn"`, :obj:`"gat"`, :obj:`"cat"`,
            :obj:`"sage"`, :obj:`"gin"`, or :obj:`"mlp"`, which ignores the edges: with one layer,
            it is logistic regression.
        aggr (str or LearnableAggregation, optional): :obj:`"lp"`, :obj:`"poly"`,
            :obj:`"softmax"`, :obj:`"spread"`, :obj:`"max"`, an aggregator, of which every layer
            gets a copy, or :obj:`"linear"` or :obj:`None` for the backbone's own linear
            aggregation, the only choice for :obj:`"mlp"`, which has none.
        in_channels (int): Channels of the input.
        hidden (int): Channels of hidden layers, all heads together.
        out_channels (int): Channels of the output: classes, or labels.
        layers (int, optional): The number of layers. (default: :obj:`2`)
        heads (int, optional): Heads of the hidden layers of :obj:`"gat"` and :obj:`"cat"`.
            (default: :obj:`8` there)
        dropout (float, optional): Dropout of each layer's input and of attention.
            (default: :obj:`0.5`)
        nonlinear (str, optional): Which layers get :obj:`aggr`: the :obj:`"first"`, :obj:`"all"`,
            or all :obj:`"hidden"` ones. The others keep the linear aggregation.
            (default: :obj:`"first"`)
        skip (str, optional): What is added to each layer's output: a :obj:`"linear"` map of its
            input, or the :obj:`"residual"`, the input itself where widths allow and a linear map
            of it elsewhere. (default: :obj:`None`)
        norm (str, optional): :obj:`"batch"` or :obj:`"layer"` normalisation of hidden layers.
            (default: :obj:`None`)
        activation (str, optional): :obj:`"relu"`, :obj:`"elu"` or :obj:`"none"`.
            (default: the backbone's own: ELU for attention, else ReLU)
        aggr_options (mapping, optional): Further arguments of an aggregator given by name, such
            as :obj:`{"start": 1.05, "reparam": "softplus", "per": "channel"}`.
            (default: :obj:`None`)
        layer_options (mapping, optional): Options that only some backbones have, by the names of
            the fields of :class:`~meanmax.nn.LayerOptions`, such as
            :obj:`{"order": "aggregate-first"}`. (default: :obj:`None`)

    Example:
        >>> build_model("gcn", "softmax", 1433, 64, 7).learned()
        {'layers.0.gamma': tensor(1.)}
    """
    family = find_backbone(backbone)
    name = None if isinstance(aggr, LearnableAggregation) else aggregator_name(aggr)
    if backbone in WITHOUT_AGGREGATOR and (name != "none" or aggr_options):
        got = f"aggr={aggr!r}" + (f", aggr_options={dict(aggr_options)}" if aggr_options else "")
        raise ValueError(
            f"backbone {backbone!r} ignores the edges and takes no aggregator (got {got}): give "
            f"it aggr=None, or choose another backbone"
        )
    options = make_layer_options(backbone, layer_options or {})
    check_positive(in_channels=in_channels, hidden=hidden, out_channels=out_channels)
    check_positive(layers=layers, out_heads=options.out_heads)
    check_choice("nonlinear", nonlinear, get_args(Nonlinear))
    check_choice("skip", skip, ("linear", "residual", None))  # type: ignore[arg-type]
    check_choice("norm", norm, ("batch", "layer", None))  # type: ignore[arg-type]
    activation = activation or family.activation
    check_choice("activation", activation, tuple(ACTIVATIONS))
    heads = check_heads(backbone, heads, hidden, layers)
    order = options.order or family.order
    check_choice("order", order, get_args(Order))
    rate = check_rate(dropout)

    structure = None
    if options.num_nodes is not None:
        structure = StructuralEmbedding(options.num_nodes, out_channels)
    widths = [in_channels, *[hidden] * (layers - 1), out_channels]
    built = []
    for index, (before, width) in enumerate(pairwise(widths)):
        is_last = index == layers - 1
        count = options.out_heads if is_last else heads
        own: Aggr = None
        if nonlinear == "all" or index == 0 or (nonlinear == "hidden" and not is_last):
            channels = before if order == "aggregate-first" else width
            channels *= count if is_last and family.heads else 1
            per_head = count if family.heads else None
            own = make_aggregator(aggr, aggr_options or {}, per_head, channels, family.form)
        known = {**vars(options), "hidden": hidden, "heads": count, "concat": not is_last}
        known |= {"aggr": own, "dropout": rate, "order": order}
        arguments = {name: known[name] for name in family.takes}
        built.append(family.layer(before, width if is_last else width // heads, **arguments))
    return NodeModel(
        built,
        skips=[_skip(skip, *sizes) for sizes in pairwise(widths)],
        norms=[_norm(norm, hidden) for _ in range(layers - 1)],
        activation=activation,
        dropout=rate,
        drops_input=family.drops_input,
        structure=structure,
        structure_channels=out_channels,
        structure_weight=options.structure_weight,
    )


def check_heads(backbone: str, heads: int | None, hidden: int, layers: int) -> int:
    r"""The heads of hidden layers, 1 for backbones that have none."""
    usual = BACKBONES[backbone].heads
    if not usual:
        if heads not in (None, 1):
            raise ValueError(
                f"backbone {backbone!r} has no heads (got heads={heads!r}): leave them out, or use "
                f"'gat' or 'cat'"
            )
        return 1
    heads = usual if heads is None else heads
    check_positive(heads=heads)
    if layers > 1 and hidden % heads:
        raise ValueError(
            f"'hidden' is the width of all heads together and must be a multiple of 'heads' "
            f"(got hidden={hidden}, heads={heads}): {heads} heads of 8 channels are "
            f"hidden={8 * heads}"
        )
    return heads


def _skip(kind: Skip, in_channels: int, out_channels: int) -> Module | None:
    if kind == "residual" and in_channels == out_channels:
        return Shortcut()
    return None if kind is None else Linear(in_channels, out_channels)


def _norm(kind: Norm, channels: int) -> Module | None:
    if kind is None:
        return None
    return BatchNorm1d(channels) if kind == "batch" else LayerNorm(channels)
