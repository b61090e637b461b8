r"""Models by name: the backbones, their options and aggregators, and :func:`build_model`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args, overload

from torch.nn import Module, ReLU, Sequential

from meanmax.aggr import LearnableAggregation
from meanmax.names import WITHOUT_AGGREGATOR, Level, aggregator_name
from meanmax.nn.cat import CATConv, Conjunction, StructuralEmbedding
from meanmax.nn.conv import Aggr, Order, check_positive, check_rate, make_aggregator
from meanmax.nn.gat import GATConv
from meanmax.nn.gcn import GCNConv
from meanmax.nn.gen import NORMS, GENConv, Norm, make_norm
from meanmax.nn.gin import GINConv
from meanmax.nn.graph_model import GraphModel, Jump, make_readout
from meanmax.nn.linear import Linear
from meanmax.nn.masked_gcn import MaskedGCNConv
from meanmax.nn.mlp import DenseLayer
from meanmax.nn.model import ACTIVATIONS, Activation, NodeModel, Shortcut
from meanmax.nn.readout import Readout, ReadoutAggr
from meanmax.nn.sage import SAGEConv
from meanmax.ops.spec import Form, check_choice

Nonlinear: TypeAlias = Literal["first", "all", "hidden", "readout"]
Skip: TypeAlias = Literal["linear", "residual", "res+"] | None


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
    "gen": Backbone(GENConv, ("aggr", "norm")),
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


@overload
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
    task: Literal["node"] = "node",
    nonlinear: Nonlinear | None = None,
    skip: Skip = None,
    norm: Norm = None,
    activation: Activation | None = None,
    readout: ReadoutAggr | Sequence[ReadoutAggr] | Readout | None = None,
    jump: Jump = None,
    aggr_options: Mapping[str, Any] | None = None,
    layer_options: Mapping[str, Any] | None = None,
) -> NodeModel: ...
@overload
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
    task: Literal["graph"],
    nonlinear: Nonlinear | None = None,
    skip: Skip = None,
    norm: Norm = None,
    activation: Activation | None = None,
    readout: ReadoutAggr | Sequence[ReadoutAggr] | Readout | None = None,
    jump: Jump = None,
    aggr_options: Mapping[str, Any] | None = None,
    layer_options: Mapping[str, Any] | None = None,
) -> GraphModel: ...
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
    task: Level = "node",
    nonlinear: Nonlinear | None = None,
    skip: Skip = None,
    norm: Norm = None,
    activation: Activation | None = None,
    readout: ReadoutAggr | Sequence[ReadoutAggr] | Readout | None = None,
    jump: Jump = None,
    aggr_options: Mapping[str, Any] | None = None,
    layer_options: Mapping[str, Any] | None = None,
) -> NodeModel | GraphModel:
    r"""Builds a model that gives every node an output, or every graph of a batch.

    Args:
        backbone (str): :obj:`"gcn"`, :obj:`"masked_gcn"`, :obj:`"gat"`, :obj:`"cat"`,
            :obj:`"sage"`, :obj:`"gin"`, :obj:`"gen"`, or :obj:`"mlp"`, which ignores the edges:
            with one layer, it is logistic regression.
        aggr (str or LearnableAggregation, optional): :obj:`"lp"`, :obj:`"poly"`,
            :obj:`"softmax"`, :obj:`"spread"`, :obj:`"max"`, an aggregator, of which every layer
            gets a copy, or :obj:`"linear"` or :obj:`None` for the backbone's own linear
            aggregation. Of :obj:`"mlp"`, which has none, it is the readout's alone.
        in_channels (int): Channels of the input.
        hidden (int): Channels of hidden layers, all heads together.
        out_channels (int): Channels of the output: classes, or labels.
        layers (int, optional): The number of layers. (default: :obj:`2`)
        heads (int, optional): Heads of the hidden layers of :obj:`"gat"` and :obj:`"cat"`.
            (default: :obj:`8` there)
        dropout (float, optional): Dropout of each layer's input and of attention; where graphs
            have the outputs not of the features themselves, which are often few. (default:
            :obj:`0.5`)
        task (str, optional): :obj:`"node"` or :obj:`"graph"`, for one output for each node or
            for each graph. (default: :obj:`"node"`)
        nonlinear (str, optional): Which layers get :obj:`aggr`: the :obj:`"first"`, :obj:`"all"`,
            or all :obj:`"hidden"` ones. The others keep the linear aggregation. The readout of
            graphs counts as the last layer: :obj:`"all"` includes it, :obj:`"hidden"` does not, and
            :obj:`"readout"` is the readout alone. (default: :obj:`"first"` for nodes,
            :obj:`"all"` for graphs)
        skip (str, optional): What is added to each layer's output: a :obj:`"linear"` map of its
            input, or the :obj:`"residual"`, the input itself where widths allow and a linear map
            of it elsewhere. :obj:`"res+"` is for deep models: what a layer of equal widths adds
            to is its input before norm and activation, as in DeeperGCN and PyG's
            :class:`DeepGCNLayer`; other layers have no skip. (default: :obj:`None`)
        norm (str, optional): :obj:`"batch"` or :obj:`"layer"` normalisation of hidden layers, and
            inside of the MLPs of :obj:`"gen"`. (default: :obj:`None`)
        activation (str, optional): :obj:`"relu"`, :obj:`"elu"` or :obj:`"none"`.
            (default: the backbone's own: ELU for attention, else ReLU)
        readout (str, sequence or Readout, optional): For graphs: :obj:`"mean"` or :obj:`"sum"`
            over nodes, in whose place :obj:`aggr` stands if :obj:`nonlinear` says so, beginning
            there; or any other readout of :class:`~meanmax.nn.Readout` as it is, or several side
            by side, such as :obj:`"mean,max"`. One with the name of :obj:`aggr` has the same
            options. (default: :obj:`"mean"`)
        jump (str, optional): For graphs: :obj:`"cat"` to read out the outputs of all layers side
            by side (jumping knowledge). (default: :obj:`None`, the last layer)
        aggr_options (mapping, optional): Further arguments of an aggregator given by name, such
            as :obj:`{"start": 1.05, "reparam": "softplus", "per": "channel"}`.
            (default: :obj:`None`)
        layer_options (mapping, optional): Options that only some backbones have, by the names of
            the fields of :class:`~meanmax.nn.LayerOptions`, such as
            :obj:`{"order": "aggregate-first"}`. (default: :obj:`None`)

    Example:
        >>> build_model("gcn", "softmax", 1433, 64, 7).learned()
        {'layers.0.gamma': tensor(1.)}
        >>> model = build_model("sage", "softmax", 3, 16, 6, layers=1, task="graph")
        >>> model.learned()
        {'layers.0.gamma': tensor(1.), 'readout.gamma': tensor(1.)}
    """
    family = find_backbone(backbone)
    name = None if isinstance(aggr, LearnableAggregation) else aggregator_name(aggr)
    of_graphs = task == "graph"
    in_readout = of_graphs and nonlinear in (None, "all", "readout")
    if backbone in WITHOUT_AGGREGATOR and not in_readout and (name != "none" or aggr_options):
        got = f"aggr={aggr!r}" + (f", aggr_options={dict(aggr_options)}" if aggr_options else "")
        raise ValueError(
            f"backbone {backbone!r} ignores the edges and takes no aggregator but in the readout "
            f"of graphs (got {got}): give it aggr=None, or choose another backbone"
        )
    options = make_layer_options(backbone, layer_options or {})
    check_positive(in_channels=in_channels, hidden=hidden, out_channels=out_channels)
    check_positive(layers=layers, out_heads=options.out_heads)
    check_choice("task", task, get_args(Level))
    _check_level(backbone, of_graphs, nonlinear=nonlinear, readout=readout, jump=jump)
    nonlinear = nonlinear or ("all" if of_graphs else "first")
    check_choice("nonlinear", nonlinear, get_args(Nonlinear))
    check_choice("skip", skip, ("linear", "residual", "res+", None))  # type: ignore[arg-type]
    check_choice("norm", norm, NORMS)  # type: ignore[arg-type]
    activation = activation or family.activation
    check_choice("activation", activation, tuple(ACTIVATIONS))
    heads = check_heads(backbone, heads, hidden, layers)
    order = options.order or family.order
    check_choice("order", order, get_args(Order))
    rate = check_rate(dropout)

    structure = None
    if options.num_nodes is not None:
        structure = StructuralEmbedding(options.num_nodes, out_channels)
    widths = [in_channels, *[hidden] * (layers - 1), hidden if of_graphs else out_channels]
    built = []
    for index, (before, width) in enumerate(pairwise(widths)):
        is_last = index == layers - 1 and not of_graphs
        count = options.out_heads if is_last else heads
        own: Aggr = None
        if {
            "first": index == 0,
            "all": True,
            "hidden": index == 0 or not is_last,
            "readout": False,
        }[nonlinear]:
            channels = before if order == "aggregate-first" else width
            channels *= count if is_last and family.heads else 1
            per_head = count if family.heads else None
            own = make_aggregator(aggr, aggr_options or {}, per_head, channels, family.form)
        known = {**vars(options), "hidden": hidden, "heads": count, "concat": not is_last}
        bare = of_graphs and index == 0 and family.drops_input
        known |= {"aggr": own, "dropout": 0.0 if bare else rate, "order": order, "norm": norm}
        arguments = {name: known[name] for name in family.takes}
        built.append(family.layer(before, width if is_last else width // heads, **arguments))
    model = NodeModel(
        built,
        skips=[_skip(skip, *sizes) for sizes in pairwise(widths)],
        norms=[make_norm(norm, hidden) for _ in range(layers if of_graphs else layers - 1)],
        activation=activation,
        dropout=rate,
        drops_input=family.drops_input,
        drops_features=not of_graphs,
        pre_activation=skip == "res+",
        structure=structure,
        structure_channels=out_channels,
        structure_weight=options.structure_weight,
    )
    if not of_graphs:
        return model
    check_choice("jump", jump, ("cat", None))  # type: ignore[arg-type]
    read = hidden * (layers if jump else 1)
    summary = make_readout(readout or "mean", aggr, nonlinear, aggr_options or {}, read)
    return GraphModel(model, summary, hidden, out_channels, jump)


def _check_level(backbone: str, of_graphs: bool, **given: Any) -> None:
    if of_graphs and backbone == "cat":
        raise ValueError(
            "backbone 'cat' learns an embedding of the nodes of one graph, which the graphs of a "
            "collection do not share: use 'gat' for task='graph'"
        )
    own = {"nonlinear": ("readout",), "readout": None, "jump": None}
    for name, values in own.items():
        value = given[name]
        if not of_graphs and (value in values if values else value is not None):
            raise ValueError(f"{name}={value!r} is for task='graph': leave it out, or give that")


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
    if kind in ("residual", "res+") and in_channels == out_channels:
        return Shortcut()
    return None if kind in (None, "res+") else Linear(in_channels, out_channels)
