r"""Where PyTorch Geometric's layers need another form of an aggregation, and the warning of it.

A softmax or polynomial aggregation is a *mean* of its messages. Layers such as GCN and GAT sum
messages that carry normalised weights already. A mean of those divides by the degree once more: on
Cora a GCN falls from 82 % to 20 %. With :obj:`form="sum"` it has 82.5 %.

================================================ ==================================== ==============
layer of PyG                                     its own aggregation                  form
================================================ ==================================== ==============
those of :data:`WEIGHTED_SUMS` (GCN, GAT, …)     sum of normalised or attended ones   ``"sum"``
GraphConv, GINConv, and others with a sum        sum, of weights as given or 1        ``"sum"``
SAGEConv, GENConv, and others with a mean        mean, or a maximum or softmax        ``"weighted"``
================================================ ==================================== ==============

For layers of the second row a mean is a choice of its own and works; for those of the first it does
not. Lp is a sum at :math:`p = 1` in every layer.
"""

from __future__ import annotations

import sys
import warnings
from typing import Final

from torch.nn import Module
from torch.nn.modules.module import register_module_module_registration_hook
from torch_geometric import nn as pyg
from torch_geometric.nn import MessagePassing

WEIGHTED_SUMS: Final[tuple[type[MessagePassing], ...]] = (
    pyg.AGNNConv,
    pyg.APPNP,
    pyg.ARMAConv,
    pyg.ChebConv,
    pyg.ClusterGCNConv,
    pyg.FAConv,
    pyg.GATConv,
    pyg.GATv2Conv,
    pyg.GCN2Conv,
    pyg.GCNConv,
    pyg.HypergraphConv,
    pyg.LGConv,
    pyg.MixHopConv,
    pyg.PDNConv,
    pyg.SGConv,
    pyg.SSGConv,
    pyg.SuperGATConv,
    pyg.TAGConv,
    pyg.TransformerConv,
)
r"""Layers of PyG that sum messages which carry normalised weights, and take another aggregation."""

_BUILDERS = ("torch.", "torch_geometric.", "meanmax.")
_warned: set[type] = set()
_watching: list[object] = []  # the handle of the hook


def is_mean(aggr: Module) -> bool:
    r"""Whether an aggregation of ours is normalised by what it sums."""
    form = getattr(aggr, "form", None)
    return form in ("weighted", "paper") and getattr(aggr, "beta", None) is None


def warn_if_misplaced(layer: Module, aggr: Module) -> None:
    r"""Warns once per class of layer of a mean of messages that are normalised already."""
    kind = next((kind for kind in WEIGHTED_SUMS if isinstance(layer, kind)), None)
    # A layer that accelerate switched calls the aggregation with a graph.
    if kind is None or kind in _warned or getattr(layer, "_switched", None) is not None:
        return
    for part in aggr.modules():
        if is_mean(part) and type(part).__module__.startswith("meanmax."):
            _warned.add(kind)
            name = type(part).__name__
            warnings.warn(
                f"{name} with form={part.form!r} is a mean, but PyG's {kind.__name__} sums "
                f"messages that carry normalised weights already: it would divide by the degree "
                f"once more, and accuracy may collapse. Pass {name}(form='sum'); or keep the "
                f"layer's own aggregation and call meanmax.accelerate(model, aggr=...), which "
                f"chooses the form, or use the layers of meanmax.nn",
                stacklevel=_users_line(),
            )
            return


def _users_line() -> int:
    r"""How many calls lie between the caller and the line that builds the layer, outside of
    PyTorch, PyG and this library.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(_BUILDERS):
        level, frame = level + 1, frame.f_back
    return level


def watch_registrations() -> None:
    r"""From the first aggregation on, looks at each module that becomes part of a layer of PyG.

    It is done by PyTorch's hook of registrations, which runs while models are built and never while
    they are called. A program that makes none of our aggregations has no such hook.
    """
    if not _watching:
        _watching.append(register_module_module_registration_hook(_registered))


def _registered(parent: Module, name: str, child: Module | None) -> None:
    if name == "aggr_module" and child is not None and isinstance(parent, MessagePassing):
        warn_if_misplaced(parent, child)
