r"""Models by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

from torch.nn import BatchNorm1d, LayerNorm, Module

from meanmax.aggr.base import LearnableAggregation
from meanmax.nn.cat import Conjunction, StructuralEmbedding
from meanmax.nn.conv import Aggr, Order, check_order, check_positive, check_rate
from meanmax.nn.linear import Linear
from meanmax.nn.model import ACTIVATIONS, NodeModel, Shortcut
from meanmax.nn.registry import (
    BACKBONES,
    Activation,
    Backbone,
    LayerPlan,
    check_aggregator,
    make_aggregator,
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
    out_heads: int = 1,
    order: Order | None = None,
    pool: bool = False,
    conjunction: Conjunction = "implicit",
    num_nodes: int | None = None,
    structure_weight: float = 0.01,
) -> NodeModel:
    r"""Builds a model that gives every node an output.

    Args:
        backbone (str): :obj:`"gcn"`, :obj:`"masked_gcn"`, :obj:`"gat"`, :obj:`"cat"`,
            :obj:`"sage"` or :obj:`"gin"`.
        aggr (str or LearnableAggregation, optional): :obj:`"lp"`, :obj:`"poly"`,
            :obj:`"softmax"`, :obj:`"max"`, an aggregator, of which every layer gets a copy, or
            :obj:`None` or :obj:`"none"` for the backbone's own linear aggregation.
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
        out_heads (int, optional): Heads of the last layer, which are averaged.
            (default: :obj:`1`)
        order (str, optional): :obj:`"transform-first"` or :obj:`"aggregate-first"`, for
            backbones without attention but GIN. (default: the backbone's own)
        pool (bool, optional): GraphSAGE's dense layer before the aggregation.
            (default: :obj:`False`)
        conjunction (str, optional): CAT's form. (default: :obj:`"implicit"`)
        num_nodes (int, optional): The nodes of the one graph CAT is trained on, for which it
            learns structural embeddings; without, they are fitted to each graph it sees.
            (default: :obj:`None`)
        structure_weight (float, optional): The weight :math:`\lambda` of the loss of learned
            embeddings. (default: :obj:`0.01`)

    Example:
        >>> build_model("gcn", "softmax", 1433, 64, 7).learned()
        {'layers.0.gamma': tensor(1.)}
    """
    family = _check_backbone(backbone)
    check_aggregator(aggr)
    check_positive(in_channels=in_channels, hidden=hidden, out_channels=out_channels)
    check_positive(layers=layers, out_heads=out_heads)
    check_choice("nonlinear", nonlinear, get_args(Nonlinear))
    check_choice("skip", skip, ("linear", "residual", None))  # type: ignore[arg-type]
    check_choice("norm", norm, ("batch", "layer", None))  # type: ignore[arg-type]
    activation = activation or family.activation
    check_choice("activation", activation, tuple(ACTIVATIONS))
    heads = _check_heads(backbone, family, heads, out_heads, hidden, layers)
    _check_options(backbone, family, order, pool)
    if backbone != "cat" and (num_nodes is not None or conjunction != "implicit"):
        raise ValueError(
            f"'num_nodes' and 'conjunction' belong to backbone 'cat' (got {backbone!r}): leave "
            f"them out"
        )
    rate = check_rate(dropout)

    plans = []
    for index in range(layers):
        is_last = index == layers - 1
        width, count = (out_channels, out_heads) if is_last else (hidden, heads)
        own: Aggr = None
        if nonlinear == "all" or index == 0 or (nonlinear == "hidden" and not is_last):
            before = (order or family.first) == "aggregate-first"
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
                order=order,
                dropout=rate,
                pool=pool,
                conjunction=conjunction,
            )
        )
    structure = None
    if backbone == "cat" and num_nodes is not None:
        structure = StructuralEmbedding(num_nodes, out_channels)
    return NodeModel(
        [family.layer(plan) for plan in plans],
        skips=[_skip(skip, plan) for plan in plans],
        norms=[_norm(norm, hidden) for _ in plans[1:]],
        activation=activation,
        dropout=rate,
        drops_input=family.drops_input,
        structure=structure,
        structure_channels=out_channels,
        structure_weight=structure_weight,
    )


def _check_backbone(name: object) -> Backbone:
    if not isinstance(name, str) or name not in BACKBONES:
        listed = ", ".join(repr(known) for known in BACKBONES)
        raise ValueError(f"unknown backbone {name!r}: 'backbone' must be one of {listed}")
    return BACKBONES[name]


def _check_heads(
    backbone: str, family: Backbone, heads: int | None, out_heads: int, hidden: int, layers: int
) -> int:
    if not family.heads:
        if heads not in (None, 1) or out_heads != 1:
            raise ValueError(
                f"backbone {backbone!r} has no heads (got heads={heads!r}, out_heads="
                f"{out_heads!r}): leave them out, or use 'gat' or 'cat'"
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


def _check_options(backbone: str, family: Backbone, order: Order | None, pool: bool) -> None:
    if order is not None:
        check_order(order)
        if not family.ordered:
            raise ValueError(
                f"backbone {backbone!r} has one order of transform and aggregation (got order="
                f"{order!r}): leave it out"
            )
    if pool and backbone != "sage":
        raise ValueError(f"'pool' belongs to backbone 'sage' (got {backbone!r}): leave it out")


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
