r"""Models by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

from torch.nn import BatchNorm1d, LayerNorm, Module

from meanmax.aggr.base import LearnableAggregation
from meanmax.names import aggregator_name
from meanmax.nn.cat import StructuralEmbedding
from meanmax.nn.conv import Aggr, check_order, check_positive, check_rate
from meanmax.nn.linear import Linear
from meanmax.nn.model import ACTIVATIONS, NodeModel, Shortcut
from meanmax.nn.registry import (
    Activation,
    Backbone,
    LayerPlan,
    find_backbone,
    make_aggregator,
    make_layer_options,
)
from meanmax.ops.spec import check_choice

Nonlinear: TypeAlias = Literal["first", "all", "hidden"]
Skip: TypeAlias = Literal["linear", "residual"] | None
Norm: TypeAlias = Literal["batch", "layer"] | None


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
            :obj:`"sage"` or :obj:`"gin"`.
        aggr (str or LearnableAggregation, optional): :obj:`"lp"`, :obj:`"poly"`,
            :obj:`"softmax"`, :obj:`"max"`, an aggregator, of which every layer gets a copy, or
            :obj:`"linear"` or :obj:`None` for the backbone's own linear aggregation.
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
    if not isinstance(aggr, LearnableAggregation):
        aggregator_name(aggr)
    options = make_layer_options(backbone, layer_options or {})
    check_positive(in_channels=in_channels, hidden=hidden, out_channels=out_channels)
    check_positive(layers=layers, out_heads=options.out_heads)
    check_choice("nonlinear", nonlinear, get_args(Nonlinear))
    check_choice("skip", skip, ("linear", "residual", None))  # type: ignore[arg-type]
    check_choice("norm", norm, ("batch", "layer", None))  # type: ignore[arg-type]
    activation = activation or family.activation
    check_choice("activation", activation, tuple(ACTIVATIONS))
    heads = check_heads(backbone, family, heads, hidden, layers)
    order = check_order(options.order or family.order)
    rate = check_rate(dropout)

    plans = []
    for index in range(layers):
        is_last = index == layers - 1
        width, count = (out_channels, options.out_heads) if is_last else (hidden, heads)
        own: Aggr = None
        if nonlinear == "all" or index == 0 or (nonlinear == "hidden" and not is_last):
            before = order == "aggregate-first"
            channels = (hidden if index else in_channels) if before else width
            channels *= count if is_last and family.heads else 1
            per_head = count if family.heads else None
            own = make_aggregator(aggr, aggr_options or {}, per_head, channels, family.form)
        plans.append(
            LayerPlan(
                in_channels=hidden if index else in_channels,
                out_channels=width,
                hidden=hidden,
                heads=count,
                concat=not is_last,
                aggr=own,
                dropout=rate,
                order=order,
                options=options,
            )
        )
    structure = None
    if options.num_nodes is not None:
        structure = StructuralEmbedding(options.num_nodes, out_channels)
    return NodeModel(
        [family.layer(plan) for plan in plans],
        skips=[_skip(skip, plan) for plan in plans],
        norms=[_norm(norm, hidden) for _ in plans[1:]],
        activation=activation,
        dropout=rate,
        drops_input=family.drops_input,
        structure=structure,
        structure_channels=out_channels,
        structure_weight=options.structure_weight,
    )


def check_heads(
    backbone: str, family: Backbone, heads: int | None, hidden: int, layers: int
) -> int:
    r"""The heads of hidden layers, 1 for backbones that have none."""
    if not family.heads:
        if heads not in (None, 1):
            raise ValueError(
                f"backbone {backbone!r} has no heads (got heads={heads!r}): leave them out, or use "
                f"'gat' or 'cat'"
            )
        return 1
    heads = family.heads if heads is None else heads
    check_positive(heads=heads)
    if layers > 1 and hidden % heads:
        raise ValueError(
            f"'hidden' is the width of all heads together and must be a multiple of 'heads' "
            f"(got hidden={hidden}, heads={heads}): {heads} heads of 8 channels are "
            f"hidden={8 * heads}"
        )
    return heads


def _skip(kind: Skip, plan: LayerPlan) -> Module | None:
    if kind is None:
        return None
    if kind == "residual" and plan.in_channels == plan.out_channels:
        return Shortcut()
    return Linear(plan.in_channels, plan.out_channels)


def _norm(kind: Norm, channels: int) -> Module | None:
    if kind is None:
        return None
    return BatchNorm1d(channels) if kind == "batch" else LayerNorm(channels)
