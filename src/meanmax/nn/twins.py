r"""Twins of PyTorch Geometric's layers and aggregations: subclasses that compute on our kernels.

:func:`~meanmax.nn.accelerate` gives a module the class of its twin. Nothing else of the module
changes. A twin runs the kernels where they give what PyG gives, and calls PyG's own method
everywhere else: for sparse adjacency matrices and edge attributes, with explanations, hooks of
messages, other flows, half precision and devices, and inside of :func:`torch.compile`.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Final, NamedTuple, final

import torch
from torch import Tensor
from torch.nn import Identity, Module, ModuleList, Sequential
from torch.nn.functional import linear
from torch.nn.functional import normalize as l2_normalize
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
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import add_self_loops, remove_self_loops

from meanmax import functional
from meanmax.aggr.base import LearnableAggregation, group_graph
from meanmax.graph import Graph
from meanmax.graph.memory import (
    MEMORY,
    Edges,
    Rule,
    Sizes,
    by_count,
    edges_of,
    remembered_edges,
    remembered_graph,
    sizes_of,
)
from meanmax.nn.conv import with_bias
from meanmax.nn.gat import scores
from meanmax.nn.linear import fast_dropout
from meanmax.ops import attention, neighbour_max, weighted_sum
from meanmax.ops.scaling import NotFiniteError

SMALL = 8192
r"""Numbers of messages up to which PyG's aggregations are as fast."""

MESSAGE_HOOKS = tuple(
    f"_{step}_forward{kind}_hooks"
    for step in ("propagate", "message", "aggregate", "edge_update")
    for kind in ("", "_pre")
)


class Switched(NamedTuple):
    r"""What a layer had before it was given an aggregator of ours."""

    aggr: Any  # PyG's description of its own aggregation
    aggr_module: Module
    fuse: bool
    rule: Rule  # by which the new one aggregates
    requested: Any  # what was asked for


def plain_class(module: Module) -> type:
    r"""The class of a module, PyG's own if it is a twin."""
    found: type = getattr(type(module), "plain", type(module))
    return found


def is_traced() -> bool:
    r"""Whether a compiler reads the code, which knows no memory of tensors."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]


def runs_on_kernels(*values: Tensor) -> bool:
    r"""Whether the kernels take these features and weights as PyG does."""
    return (
        not is_traced()
        and not torch.is_autocast_enabled("cpu")
        and not torch._C._are_functorch_transforms_active()
        and all(
            isinstance(value, Tensor)
            and value.is_cpu
            and value.layout == torch.strided
            and value.dtype in (torch.float32, torch.float64)
            for value in values
        )
    )


def has_hooks(module: Module) -> bool:
    r"""Whether something watches the calls of a module."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


def aggregate(aggr: Any, x: Tensor, graph: Graph, weight: Tensor | None = None) -> Tensor:
    r"""What one of PyG's aggregations makes of the features of sources over a graph. Raises a
    :class:`ValueError` where its result is not known to be PyG's.

    Args:
        aggr (Module): The aggregation.
        x (Tensor): The features, :obj:`[num_src, channels]`.
        graph (Graph): The graph, made with the rule of the aggregation.
        weight (Tensor, optional): Learned weights in CSR order, for sums and means.
    """
    x, kind = x.contiguous(), plain_class(aggr)
    if kind is MaxAggregation:
        if not bool(torch.isfinite(x.detach()).all()):
            raise ValueError("a maximum of NaN is NaN")
        return neighbour_max(x, graph, None, zero_is_tie=True)
    if kind is SoftmaxAggregation and not aggr.semi_grad:
        return functional.softmax(x, graph, aggr.t, signed=True)
    if takes_weights(aggr):
        return weighted_sum(x, graph, weight)
    if kind is not PowerMeanAggregation:  # it was exchanged since
        raise ValueError(f"the kernels have no {kind.__name__}")
    p = aggr.p.view(-1, aggr.channels) if aggr.channels != 1 else aggr.p
    if isinstance(p, int | float) and p == 1:
        return weighted_sum(x, graph, weight)
    # PyG 2.6 has no options for these limits.
    limits = getattr(aggr, "min_value", 0.0), getattr(aggr, "max_value", 100.0)
    mean = weighted_sum(x.clamp(*limits).pow(p), graph, weight)
    return mean.clamp(*limits).pow(1.0 / p)


def rule_of(aggr: Module) -> Rule:
    r"""What an edge counts for one of PyG's aggregations."""
    return "mean" if isinstance(aggr, MeanAggregation | PowerMeanAggregation) else "sum"


def takes_weights(aggr: Module) -> bool:
    r"""Whether weighted messages are aggregated without forming them."""
    return plain_class(aggr) in (SumAggregation, MeanAggregation)


class FastConv(MessagePassing):  # type: ignore[misc]
    r"""Base of the twins of layers, and the twin of every layer whose messages are the features of
    their sources.
    """

    plain: ClassVar[type[MessagePassing]]
    r"""PyG's class, or the user's."""

    _switched: Switched | None = None
    r"""What it had before it was given another aggregation."""

    def propagate(self, edge_index: Any, size: Any = None, **given: Any) -> Any:
        r"""Aggregates on the kernels what they can, and else as PyG does."""
        index = edges_of(edge_index)
        if index is not None and self.is_open():
            sent = self.sent(**given)
            sizes = sizes_of(_pair(given.get("x")), size)
            if sent is not None and sizes is not None:
                out = self.aggregated(*sent, index, sizes)
                if out is not None:
                    return out
        self.refuse_if_switched()
        return super().propagate(edge_index, size=size, **given)

    _jinja_propagate = propagate  # what PyG takes after explanations

    def is_open(self) -> bool:
        r"""Whether nothing wants to see or change single messages, or to send them backwards."""
        return (
            self.flow == "source_to_target"
            and not self.explain
            and self.decomposed_layers == 1
            and not any(getattr(self, name) for name in MESSAGE_HOOKS)
            and not has_hooks(self.aggr_module)
        )

    def narrows(self, lin: Any, edge_index: Any) -> bool:
        r"""Whether a linear map of the aggregation is better taken before it, of fewer channels."""
        return (
            self._switched is None
            and type(lin) in (pyg.Linear, torch.nn.Linear)
            and not has_hooks(lin)  # nor lazy
            and lin.weight.size(0) < lin.weight.size(1)
            and takes_weights(self.aggr_module)
            and edges_of(edge_index) is not None
            and self.is_open()
        )

    def sent(self, x: Any, **_: Any) -> tuple[Tensor, Tensor | None] | None:
        r"""What sources send and what edges multiply it by; :obj:`None` where that is not all."""
        return _pair(x)[0], None

    def aggregated(
        self, x: Tensor, edge_weight: Tensor | None, edge_index: Tensor, sizes: Sizes
    ) -> Tensor | None:
        r"""The aggregation over an :obj:`edge_index`, :obj:`None` where that must be PyG's."""
        weights = () if edge_weight is None else (edge_weight,)
        if x.dim() != 2 or any(weight.shape != edge_index.shape[1:] for weight in weights):
            return None
        if self._switched is not None:
            switched: Tensor = _switched_aggregate(self, x, edge_weight, edge_index, sizes)
            return switched
        aggr = self.aggr_module
        if not runs_on_kernels(x, *weights) or (weights and not takes_weights(aggr)):
            return None
        if any(torch.promote_types(x.dtype, weight.dtype) != x.dtype for weight in weights):
            return None
        try:
            if isinstance(aggr, LearnableAggregation):
                graph, _ = remembered_graph(edge_index, None, sizes, "sum", x.dtype)
                out: Tensor = aggr(x, graph)
                return out
            given = remembered_graph(edge_index, edge_weight, sizes, rule_of(aggr), x.dtype)
            return aggregate(aggr, x, *given)
        except ValueError:  # a node that is not there, NaN: PyG does what it does
            return None

    def refuse_if_switched(self) -> None:
        r"""Raises an error where only PyG's own aggregation could go on."""
        if self._switched is not None:
            raise ValueError(
                f"{self.plain.__name__} aggregates with {self.aggr_module} since "
                f"meanmax.accelerate(model, aggr=...): call it with a dense edge_index, without "
                f"edge attributes, attention output or explanations, or undo that with "
                f"meanmax.restore(model)"
            )

    def __prepare_scriptable__(self) -> MessagePassing:
        r"""What :func:`torch.jit.script` compiles: PyG's layer."""
        self.refuse_if_switched()
        layer: MessagePassing = copy.copy(self)
        object.__setattr__(layer, "__class__", self.plain)
        return layer

    def _set_jittable_templates(self, raise_on_error: bool = False) -> None:
        # PyG makes methods for the class of an instance, here of a copy or pickle.
        twin = type(self)
        object.__setattr__(self, "__class__", twin.plain)
        try:
            self._set_jittable_templates(raise_on_error)
        finally:
            object.__setattr__(self, "__class__", twin)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _switched_aggregate(
    conv: FastConv, x: Tensor, edge_weight: Tensor | None, edge_index: Tensor, sizes: Sizes
) -> Tensor:
    assert conv._switched is not None
    graph, _ = remembered_graph(edge_index, edge_weight, sizes, conv._switched.rule, x.dtype)
    out: Tensor = conv.aggr_module(x, graph)
    return out


def _pair(x: Any) -> Any:
    r"""A pair of features, of which targets may have none."""
    return tuple(x) if isinstance(x, list | tuple) else (x, None)


def _both(x: Any) -> Any:
    r"""The features of sources and of targets, which may be the same."""
    return _pair(x) if isinstance(x, list | tuple) else (x, x)


def split_first_linear(module: Any) -> tuple[Any, Any]:
    r"""The linear map that an MLP begins with, and the rest of it, which shares its parts;
    :obj:`None` if it begins with something else.
    """
    if has_hooks(module):
        return None, module
    if type(module) is Sequential and len(module):
        return module[0], module[1:]
    if type(module) is pyg.MLP:
        rest = copy.copy(module)
        lins = ModuleList([Identity(), *module.lins[1:]])
        rest.__dict__["_modules"] = {**module._modules, "lins": lins}
        return module.lins[0], rest
    return None, module


class WeightedConv(FastConv):
    r"""The twin of layers whose messages are multiplied by :obj:`edge_weight`."""

    def sent(self, x: Any, edge_weight: Tensor | None = None, **_: Any) -> Any:
        r"""The features and the weights."""
        return _pair(x)[0], edge_weight


class FastGCNConv(WeightedConv, pyg.GCNConv):  # type: ignore[misc]
    r"""The twin of :class:`torch_geometric.nn.GCNConv`; normalises an :obj:`edge_index` once."""

    plain = pyg.GCNConv

    def forward(self, x: Any, edge_index: Any, edge_weight: Tensor | None = None) -> Any:
        r"""Runs the layer."""
        index = None if is_traced() else edges_of(edge_index)
        if index is None or not isinstance(x, Tensor) or not self.normalize or self.cached:
            return super().forward(x, edge_index, edge_weight)
        options = (x.size(self.node_dim), self.improved, self.add_self_loops, self.flow, x.dtype)
        index, edge_weight = remembered_edges(
            index, edge_weight, ("gcn", *options), lambda: gcn_norm(index, edge_weight, *options)
        )
        return with_bias(self.propagate(index, x=self.lin(x), edge_weight=edge_weight), self.bias)


class FastGraphConv(WeightedConv, pyg.GraphConv):  # type: ignore[misc]
    r"""The twin of :class:`torch_geometric.nn.GraphConv`."""

    plain = pyg.GraphConv

    def forward(
        self, x: Any, edge_index: Any, edge_weight: Tensor | None = None, size: Any = None
    ) -> Any:
        r"""Runs the layer."""
        if not self.narrows(self.lin_rel, edge_index):
            return super().forward(x, edge_index, edge_weight, size)
        source, target = _both(x)
        sent = linear(source, self.lin_rel.weight), target
        out = self.propagate(edge_index, x=sent, edge_weight=edge_weight, size=size)
        out = with_bias(out, self.lin_rel.bias)
        return out if target is None else out + self.lin_root(target)


class FastSAGEConv(FastConv, pyg.SAGEConv):  # type: ignore[misc]
    r"""The twin of :class:`torch_geometric.nn.SAGEConv`."""

    plain = pyg.SAGEConv

    def forward(self, x: Any, edge_index: Any, size: Any = None) -> Any:
        r"""Runs the layer."""
        if not self.narrows(self.lin_l, edge_index):
            return super().forward(x, edge_index, size)
        source, target = _both(x)
        if self.project:
            source = self.lin(source).relu()
        sent = linear(source, self.lin_l.weight), target
        out = with_bias(self.propagate(edge_index, x=sent, size=size), self.lin_l.bias)
        if self.root_weight and target is not None:
            out = out + self.lin_r(target)
        return l2_normalize(out, p=2.0, dim=-1) if self.normalize else out


class FastGINConv(FastConv, pyg.GINConv):  # type: ignore[misc]
    r"""The twin of :class:`torch_geometric.nn.GINConv`."""

    plain = pyg.GINConv

    def forward(self, x: Any, edge_index: Any, size: Any = None) -> Any:
        r"""Runs the layer."""
        first, rest = (None, self.nn) if is_traced() else split_first_linear(self.nn)
        if first is None or not self.narrows(first, edge_index):
            return super().forward(x, edge_index, size)
        source, target = _both(x)
        sent = linear(source, first.weight)
        own = sent if target is source else None
        if target is not None and own is None:
            own = linear(target, first.weight)
        out = self.propagate(edge_index, x=(sent, own), size=size)
        if own is not None:
            out = out + (1 + self.eps) * own
        return rest(with_bias(out, first.bias))


class FastGENConv(FastConv, pyg.GENConv):  # type: ignore[misc]
    r"""The twin of :class:`torch_geometric.nn.GENConv`, where it is given no edge attributes."""

    plain = pyg.GENConv

    def sent(self, x: Any, edge_attr: Tensor | None = None, **_: Any) -> Any:
        r"""The messages, which without edge attributes are those of nodes."""
        return None if edge_attr is not None else (_pair(x)[0].relu() + self.eps, None)


class FastGATConv(FastConv, pyg.GATConv):  # type: ignore[misc]
    r"""The twin of :class:`torch_geometric.nn.GATConv`. Dropout of attention draws other numbers
    than PyG's for the same seed.
    """

    plain = pyg.GATConv

    def sent(self, x: Any, **_: Any) -> None:
        r"""Attention is known to :meth:`forward` alone."""

    def forward(
        self,
        x: Any,
        edge_index: Any,
        edge_attr: Tensor | None = None,
        size: Any = None,
        return_attention_weights: bool | None = None,
    ) -> Any:
        r"""Runs the layer."""
        pair = _both(x)
        index, sizes = edges_of(edge_index), None
        if edge_attr is None and not return_attention_weights and self._takes(pair):
            sizes = sizes_of(pair, size)
        if index is not None and sizes is not None:
            out = self._attend(pair, index, sizes, size)
            if out is not None:
                return out
        self.refuse_if_switched()
        return super().forward(x, edge_index, edge_attr, size, return_attention_weights)

    def _takes(self, pair: Any) -> bool:
        r"""Whether the kernels take these features and the layer's options."""
        fine = all(isinstance(part, Tensor) and part.dim() == 2 for part in pair)
        usual = runs_on_kernels(*pair) and takes_weights(self.aggr_module)
        usual = usual or self._switched is not None
        return fine and usual and self.is_open() and self.dropout < 1

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _attend(
        self, pair: tuple[Tensor, Tensor], edge_index: Tensor, sizes: Sizes, size: Any
    ) -> Tensor | None:
        if self.add_self_loops:
            count = min(sizes if size is None else size)

            def looped() -> Edges:
                index = remove_self_loops(edge_index)[0]
                return add_self_loops(index, num_nodes=count)[0], None

            edge_index, _ = remembered_edges(edge_index, None, ("gat", count), looped)
        try:
            graph = remembered_graph(edge_index, None, sizes, "own", pair[0].dtype)[0]
        except ValueError:
            return None
        h, other = self._transformed(pair)
        if other is h:
            score, of_target = scores(h, self.att_src, self.att_dst)
        else:
            (score,), (of_target,) = scores(h, self.att_src), scores(other, self.att_dst)
        if not all(bool(torch.isfinite(part.detach()).all()) for part in (score, of_target)):
            if self._switched is not None:
                raise NotFiniteError
            return None
        if score.dtype not in (torch.float32, torch.float64):
            score, of_target = score.float(), of_target.float()
        with torch.autocast("cpu", enabled=False):
            alpha = attention(score, of_target, graph, self.negative_slope)
        alpha = fast_dropout(alpha, self.dropout, self.training)
        if self._switched is not None:
            out = self.aggr_module(h, graph, edge_weight=alpha)
        else:
            if rule_of(self.aggr_module) == "mean":
                alpha = alpha * by_count(graph, None, alpha.dtype).unsqueeze(1)
            out = weighted_sum(h.flatten(1).contiguous(), graph, alpha).view(-1, *h.shape[1:])
        out = out.flatten(1) if self.concat else out.mean(dim=1)
        if self.res is not None:
            out = out + self.res(pair[1])
        return with_bias(out, self.bias)

    def _transformed(self, pair: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        r"""The features of sources and targets by head."""
        source, target = pair
        shape = (-1, self.heads, self.out_channels)
        if self.lin is None:
            return self.lin_src(source).view(shape), self.lin_dst(target).view(shape)
        h = self.lin(source).view(shape)
        return h, h if target is source else self.lin(target).view(shape)


_DERIVED: dict[tuple[type, type], type[FastConv]] = {}


def derived_twin(base: type[FastConv], kind: type[MessagePassing]) -> type[FastConv]:
    r"""The twin of a class of layers that has none of its own, made once."""
    if (base, kind) not in _DERIVED:

        def rebuild(self: Any, protocol: Any) -> tuple[Any, ...]:
            return _new_twin, (base, kind), self.__getstate__()

        members = {"plain": kind, "__reduce_ex__": rebuild}
        _DERIVED[base, kind] = type(f"Fast{kind.__name__}", (base, kind), members)
    return _DERIVED[base, kind]


def _new_twin(base: type[FastConv], kind: type[MessagePassing]) -> FastConv:
    twin = derived_twin(base, kind)
    return twin.__new__(twin)


class FastAggregation(Aggregation):  # type: ignore[misc]
    r"""Base of the twins of aggregations, which stand alone or get messages of any kind."""

    plain: ClassVar[type[Aggregation]]

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Tensor:
        r"""Aggregates messages by group."""
        if index is not None and x.numel() > SMALL and dim % x.dim() == 0 and runs_on_kernels(x):
            try:
                flat = x if x.dim() == 2 else x.flatten(1)
                graph = _groups(index, len(x), dim_size)
                return aggregate(self, flat, graph).view(-1, *x.shape[1:])
            except ValueError:
                pass
        out: Tensor = super().forward(x, index, ptr, dim_size, dim)
        return out


def _groups(index: Tensor, size: int, dim_size: int | None) -> Graph:
    known, key = MEMORY.of(index), ("groups", size, dim_size)
    if key not in known:
        with torch.inference_mode(False):
            known[key] = group_graph(index, None, size, dim_size, index.device)
    graph: Graph = known[key]
    return graph


@final
class FastMaxAggregation(FastAggregation, MaxAggregation):  # type: ignore[misc]
    r"""The twin of :class:`torch_geometric.nn.aggr.MaxAggregation`."""

    plain = MaxAggregation


@final
class FastSoftmaxAggregation(FastAggregation, SoftmaxAggregation):  # type: ignore[misc]
    r"""The twin of :class:`torch_geometric.nn.aggr.SoftmaxAggregation`."""

    plain = SoftmaxAggregation


LAYERS: Final[dict[type, type[FastConv]]] = {
    twin.plain: twin
    for twin in (FastGCNConv, FastGATConv, FastSAGEConv, FastGINConv, FastGraphConv, FastGENConv)
}
AGGREGATIONS: Final[dict[type, type[FastAggregation]]] = {
    twin.plain: twin for twin in (FastMaxAggregation, FastSoftmaxAggregation)
}
