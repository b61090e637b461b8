r"""PyTorch Geometric's models on our kernels, in one line."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeVar

from torch.nn import Module
from torch_geometric import nn as pyg
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.aggr import (
    Aggregation,
    MaxAggregation,
    MeanAggregation,
    PowerMeanAggregation,
    SoftmaxAggregation,
    SumAggregation,
)

from meanmax.aggr import AGGREGATIONS as LEARNED
from meanmax.aggr.base import LearnableAggregation
from meanmax.aggr.placement import warn_if_misplaced
from meanmax.graph.memory import Rule
from meanmax.names import AGGREGATOR_ALIASES
from meanmax.nn import twins
from meanmax.nn.conv import Conv, make_aggregator
from meanmax.nn.twins import FastAggregation, FastConv, Switched, WeightedConv, plain_class

M = TypeVar("M", bound=Module)


def messages_of(*names: str) -> tuple[Any, ...]:
    r"""The methods that make the messages of PyG's layers, of those that this version has."""
    return tuple(getattr(pyg, name).message for name in names if hasattr(pyg, name))


SENDS_FEATURES: Final = messages_of("MessagePassing", "SAGEConv", "GINConv", "MFConv")
r"""Methods of PyG that send the features of the source."""

SENDS_WEIGHTED: Final = messages_of(
    "GCNConv", "GraphConv", "APPNP", "ClusterGCNConv", "GCN2Conv", "GatedGraphConv", "LGConv",
    "MixHopConv", "PDNConv", "SGConv", "SSGConv", "SimpleConv", "TAGConv",
)  # fmt: skip
r"""Methods of PyG that multiply them by :obj:`edge_weight`."""

STEPS: Final = ("aggregate", "update", "edge_update", "message_and_aggregate")
ALWAYS_WEIGHTED: Final = (pyg.GCNConv, pyg.GATConv)


class Replacement(NamedTuple):
    r"""What became of a layer or an aggregation."""

    path: str  # its place in the model, as in named_modules()
    kind: str  # its class
    by: str | None  # what computes it now; None if it was left as it is
    reason: str  # why it was left


def accelerate(
    model: M, aggr: str | LearnableAggregation | None = None, verbose: bool = False
) -> M:
    r"""Lets a PyTorch Geometric model compute on meanmax's kernels, and optionally makes its
    aggregations learnable. The model itself is changed, and returned.

    .. code-block:: python

        model = torch_geometric.nn.GCN(500, hidden_channels=64, num_layers=2, out_channels=3)
        meanmax.accelerate(model)             # the same model, the same results, faster
        out = model(data.x, data.edge_index)  # called as before

    Without :obj:`aggr` parameters, :obj:`state_dict` keys, outputs and gradients stay what they
    were, an optimizer goes on with the same parameters, and :func:`restore` undoes it. No tensor
    of messages is formed any more; the kernels' form of an :obj:`edge_index` is built at its first
    use and kept as long as the tensor lives and is not changed in place.

    **What is replaced.** :class:`GCNConv`, :class:`GATConv`, :class:`SAGEConv`, :class:`GINConv`,
    :class:`GraphConv` and :class:`GENConv` with sum and mean, and where messages carry no weights
    also with maximum, softmax and power mean; other layers, also your own, whose messages are the
    features of the source, perhaps times :obj:`edge_weight` (:class:`APPNP`, :class:`SGConv`,
    :class:`TAGConv`, subclasses of :class:`MessagePassing` with the inherited :obj:`message`);
    and every :class:`MaxAggregation` and :class:`SoftmaxAggregation` that gets messages.

    **What is left**, and listed by :obj:`verbose=True` and :func:`accelerated`: layers with a
    :obj:`message`, :obj:`aggregate` or :obj:`update` of their own, other aggregations and
    flows. Calls that need single messages run PyG's code inside of a replaced layer too: those
    with edge attributes, sparse adjacency matrices, attention weights to return, hooks of messages
    and explanations; and so do other devices, half precision, autocast and :func:`torch.compile`.
    Two things differ from PyG: dropout of attention draws other numbers for the same seed, and the
    kernels have no second derivative and say so.

    **With** :obj:`aggr` each layer aggregates by the paper's formula over its own weights, which
    PyG's layers cannot: they multiply messages by them first. The form follows from what the layer
    does itself, so that training starts from what it did (at :math:`\theta = 0`, or :math:`p = 1`):

    ========================================= ============================ ======================
    layer                                     weights :math:`a_{vu}`       form of softmax, poly
    ========================================= ============================ ======================
    GCNConv                                   :math:`\hat A`               ``"sum"``
    GATConv (a parameter per head)            attention                    ``"sum"``
    GraphConv with ``"add"``                  :obj:`edge_weight`, or 1     ``"sum"``
    GINConv, others with a sum                1                            ``"sum"``
    SAGEConv with ``"mean"`` or ``"max"``     1, divided by their number   ``"weighted"``
    GENConv with softmax or power mean        1, divided by their number   ``"weighted"``
    others with a mean, maximum, softmax      divided by their sum         ``"weighted"``
    ========================================= ============================ ======================

    Each layer gets parameters of its own, which the optimizer must know: accelerate first.

    Args:
        model (torch.nn.Module): A model, or a single layer.
        aggr (str or LearnableAggregation, optional): :obj:`"softmax"`, :obj:`"lp"`,
            :obj:`"poly"` or :obj:`"spread"`; or an aggregator, of which each layer gets a copy
            with its form as it is. (default: each layer keeps its own)
        verbose (bool, optional): Whether to print what was replaced, and what was left and why.
            (default: :obj:`False`)

    Example:
        >>> model = accelerate(pyg.GCN(8, 16, num_layers=2, out_channels=3), verbose=True)
        convs.0  GCNConv  replaced by FastGCNConv
        convs.1  GCNConv  replaced by FastGCNConv
        >>> restore(accelerate(model, aggr="softmax")).convs[1]
        GCNConv(16, 3)
    """
    _check_model(model, "accelerate")
    asked = _check_aggr(aggr)
    for module in list(model.modules()):
        if isinstance(module, MessagePassing) and isinstance(module.aggr_module, Module):
            warn_if_misplaced(module, module.aggr_module)
        twin = _twin(module, switching=asked is not None)
        if twin is not None:
            _change_class(module, twin)
        if asked is not None and isinstance(module, FastConv):
            _switch(module, asked)
    rows = accelerated(model)
    if all(row.by is None for row in rows):
        hint = "; ".join(f"{row.path or 'the model'}: {row.reason}" for row in rows)
        warnings.warn(
            f"nothing in {type(model).__name__} could be accelerated ({hint or 'it has no layer'} "
            f"{'' if rows else 'of PyTorch Geometric'})".replace(" )", ")"),
            stacklevel=2,
        )
    if verbose:
        print(_table(rows))
    return model


def restore(model: M) -> M:
    r"""Undoes :func:`accelerate`: layers are PyG's again, with the aggregations they had. What was
    learned stays, except for the parameters of aggregators that :obj:`aggr` brought in.

    Args:
        model (torch.nn.Module): The model, which is changed and returned.

    Example:
        >>> model = accelerate(pyg.SAGEConv(8, 4))
        >>> restore(model)
        SAGEConv(8, 4, aggr=mean)
    """
    _check_model(model, "restore")
    for module in list(model.modules()):
        if isinstance(module, FastConv):
            _switch_back(module)
        if isinstance(module, FastConv | FastAggregation):
            _change_class(module, module.plain)
    return model


def accelerated(model: Module) -> list[Replacement]:
    r"""What :func:`accelerate` has replaced in a model, and what it left and why, or would leave.

    Args:
        model (torch.nn.Module): The model.

    Example:
        >>> accelerated(pyg.SAGEConv(8, 4, aggr="median"))
        [Replacement(path='', kind='SAGEConv', by=None, reason='aggregates by MedianAggregation')]
    """
    return list(_rows(model))


def _rows(model: Module) -> Iterator[Replacement]:
    inside: set[int] = set()  # aggregations that a replaced layer computes, or parts of others
    for path, module in model.named_modules():
        if isinstance(module, Conv | LearnableAggregation) or id(module) in inside:
            inside.update(id(part) for part in module.modules())
            continue
        name = plain_class(module).__name__
        if isinstance(module, FastConv):
            with_aggr = f" with {module.aggr_module}" if module._switched is not None else ""
            yield Replacement(path, name, f"{type(module).__name__}{with_aggr}", "")
            inside.update(id(part) for part in module.aggr_module.modules())
        elif isinstance(module, FastAggregation):
            yield Replacement(path, name, type(module).__name__, "")
        elif isinstance(module, MessagePassing):
            yield Replacement(path, name, None, _why_layer(module))
            if not any(isinstance(part, FastAggregation) for part in module.modules()):
                inside.update(
                    id(part) for part in module.modules() if isinstance(part, Aggregation)
                )
        elif isinstance(module, Aggregation) and not any(
            isinstance(part, Aggregation) for part in module.modules() if part is not module
        ):
            yield Replacement(path, name, None, _why_aggregation(module))


def _table(rows: list[Replacement]) -> str:
    if not rows:
        return "no layer or aggregation of PyTorch Geometric"
    ends = [f"replaced by {row.by}" if row.by else f"left: {row.reason}" for row in rows]
    widths = max(len(row.path) for row in rows), max(len(row.kind) for row in rows)
    return "\n".join(
        f"{row.path:{widths[0]}}  {row.kind:{widths[1]}}  {end}".strip()
        for row, end in zip(rows, ends, strict=True)
    )


def _check_model(model: object, name: str) -> None:
    if not isinstance(model, Module):
        raise TypeError(
            f"'model' must be a torch.nn.Module (got {type(model).__name__}): call "
            f"meanmax.{name}(model) with the model itself, it is changed in place"
        )


def _check_aggr(aggr: Any) -> str | LearnableAggregation | None:
    if isinstance(aggr, str):
        aggr = AGGREGATOR_ALIASES.get(aggr, aggr)
    if aggr is None or isinstance(aggr, LearnableAggregation) or aggr in LEARNED:
        found: str | LearnableAggregation | None = aggr
        return found
    listed = ", ".join(repr(name) for name in LEARNED)
    raise ValueError(
        f"'aggr' must be one of {listed}, an aggregator such as meanmax.LpAggregation(), or None "
        f"to keep what each layer has (got {aggr!r})"
    )


def _twin(module: Module, switching: bool) -> type | None:
    r"""The class that replaces a module's own; :obj:`None` if it is left."""
    if isinstance(module, FastConv | FastAggregation | Conv):
        return None
    if type(module) in twins.AGGREGATIONS:
        return twins.AGGREGATIONS[type(module)] if _why_aggregation(module) == "" else None
    if not isinstance(module, MessagePassing) or _why_layer(module, switching):
        return None
    kind, base = type(module), _base(type(module))
    assert base is not None
    return base if base.__dict__.get("plain") is kind else twins.derived_twin(base, kind)


def _base(kind: type) -> type[FastConv] | None:
    r"""What the twin of a class of layers extends, or that twin; :obj:`None` if there is none."""
    if kind in twins.LAYERS:
        return twins.LAYERS[kind]
    for known, twin in twins.LAYERS.items():
        own = ("forward", "message", *STEPS)
        if issubclass(kind, known) and not any(_differs(kind, known, name) for name in own):
            return twin
    message = getattr(kind, "message", None)
    if message in SENDS_FEATURES:
        return FastConv
    return WeightedConv if message in SENDS_WEIGHTED else None


def _differs(kind: type, other: type, name: str) -> bool:
    return getattr(kind, name) is not getattr(other, name)


def _is_own(kind: type, name: str) -> bool:
    r"""Whether a step is not what PyG does with messages. Its own layers fuse two steps on sparse
    matrices, which does not matter here, and edges are updated before messages are sent.
    """
    if name == "propagate":  # PyG writes one for each class, into a module of this name
        found = [each.__dict__.get(name) for each in kind.__mro__ if each is not MessagePassing]
        return any(each and not each.__module__.endswith("_propagate") for each in found)
    pygs = getattr(kind, name).__module__.startswith("torch_geometric.")
    return _differs(kind, MessagePassing, name) and not (pygs and name in STEPS[2:])


def _why_layer(layer: MessagePassing, switching: bool = False) -> str:
    r"""Why a layer is left; empty if it is not."""
    kind, base = type(layer), _base(type(layer))
    if base is None:
        return "has a message of its own, which edges compute one by one"
    own = [name for name in ("propagate", *STEPS) if _is_own(kind, name)]
    if own and kind not in twins.LAYERS:
        return f"has its own {' and '.join(own)}"
    if layer.flow != "source_to_target":
        return f"flow={layer.flow!r}"
    if layer.node_dim not in (-2, 0):
        return f"node_dim={layer.node_dim}"
    return "" if switching else _why_its_aggregation(layer, base)


def _why_its_aggregation(layer: MessagePassing, base: type[FastConv]) -> str:
    aggr = layer.aggr_module
    kind = plain_class(aggr)
    if kind in (SumAggregation, MeanAggregation):
        return ""
    node_wise = kind in (MaxAggregation, PowerMeanAggregation) or (
        kind is SoftmaxAggregation and not aggr.semi_grad
    )
    if isinstance(aggr, LearnableAggregation):
        node_wise = not aggr.has_mu and aggr.edge_dropout == 0 and aggr.sign == "shift"
    if not node_wise:
        more = " whose origin is the least message" if getattr(aggr, "has_mu", False) else ""
        more = " with semi_grad=True" if getattr(aggr, "semi_grad", False) else more
        return f"aggregates by {kind.__name__}{more}"
    if issubclass(base, tuple(twins.LAYERS[known] for known in ALWAYS_WEIGHTED)):
        return (
            f"aggregates messages that carry weights by {kind.__name__}; "
            f"accelerate(model, aggr=...) aggregates features over weighted edges"
        )
    return ""


def _why_aggregation(aggr: Aggregation) -> str:
    kind = plain_class(aggr)
    if kind in (SumAggregation, MeanAggregation, PowerMeanAggregation):
        return "PyG's own is as fast where messages are given"
    if kind is SoftmaxAggregation and aggr.semi_grad:
        return "semi_grad=True"
    return "" if kind in twins.AGGREGATIONS else "has no twin"


def _change_class(module: Module, kind: type) -> None:
    object.__setattr__(module, "__class__", kind)
    if isinstance(module, MessagePassing) and not module.explain and module.decomposed_layers == 1:
        module.__dict__.pop("propagate", None)  # PyG leaves that of the class before, if explained


def _switch(layer: FastConv, asked: str | LearnableAggregation) -> None:
    r"""Gives a layer an aggregator of ours, unless it has the one that is asked for."""
    if layer._switched is not None and layer._switched.requested is asked:
        return
    _switch_back(layer)
    own = plain_class(layer.aggr_module)
    is_sum = own is SumAggregation
    heads = layer.heads if isinstance(layer, pyg.GATConv) else None
    channels = _channels(layer)
    if asked == "spread" and channels < 1:
        raise ValueError(
            f"aggr='spread' has a parameter for each channel, but {layer} has not seen its input "
            f"yet: call the model once, or give its in_channels, before meanmax.accelerate"
        )
    found = make_aggregator(asked, {}, heads, channels, "sum" if is_sum else "weighted")
    assert isinstance(found, LearnableAggregation)
    like = next(layer.parameters(), None)
    found = found.train(layer.training).to(None if like is None else like.device)
    scaled = getattr(found, "beta", None) is not None
    rule: Rule = "own" if is_sum or scaled else "row"
    layer._switched = Switched(layer.aggr, layer.aggr_module, layer.fuse, rule, asked)
    layer.aggr_module, layer.aggr, layer.fuse = found, str(found), False


def _switch_back(layer: FastConv) -> None:
    before = layer._switched
    if before is None:
        return
    like = next(layer.parameters(), None)
    layer.aggr_module = before.aggr_module if like is None else before.aggr_module.to(like)
    layer.aggr, layer.fuse = before.aggr, before.fuse
    del layer._switched


def _channels(layer: MessagePassing) -> int:
    r"""The channels of what a layer aggregates."""
    if isinstance(layer, pyg.GATConv):
        return int(layer.heads * layer.out_channels)
    if isinstance(layer, pyg.GCNConv | pyg.GENConv):
        return int(layer.out_channels)
    for module in layer.modules():
        given = getattr(module, "in_channels", getattr(module, "in_features", None))
        given = given[0] if isinstance(given, tuple) else given
        if isinstance(given, int) and given > 0:
            return given
    return -1
