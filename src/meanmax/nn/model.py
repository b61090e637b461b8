r"""A stack of layers that gives every node an output, for all nodes or for some of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, final, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import BatchNorm1d, Module, ModuleList, Parameter
from torch.nn.functional import elu, relu

from meanmax.aggr import LearnableAggregation, TiltedAggregation
from meanmax.graph import Graph
from meanmax.graph.views import RowsGraph, with_sources
from meanmax.nn.cat import CATConv, StructuralEmbedding, fit_structure, structure_loss
from meanmax.nn.conv import LayerAggregation, as_graph
from meanmax.nn.gat import GATConv
from meanmax.nn.gcn import GCNConv
from meanmax.nn.gen import GENConv
from meanmax.nn.gin import GINConv
from meanmax.nn.linear import Features, as_dense, dropout
from meanmax.nn.masked_gcn import MaskedGCNConv
from meanmax.nn.mlp import DenseLayer
from meanmax.nn.sage import SAGEConv

GraphInput: TypeAlias = Graph | Tensor  # a graph, or PyG's edge_index
Activation: TypeAlias = Literal["relu", "elu", "none"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": relu, "elu": elu, "none": lambda h: h}
# From how many steps away a node's output comes: masks of neighbours come from theirs.
REACH = {
    CATConv: 1, DenseLayer: 0, GATConv: 1, GCNConv: 1, GENConv: 1, GINConv: 1, MaskedGCNConv: 2,
    SAGEConv: 1,
}  # fmt: skip
WORTH = 0.8  # of the edges: where more are needed, nothing is gained


class Needs(NamedTuple):
    r"""What a layer takes in for each of its outputs."""

    reach: int  # from how many steps away an output comes
    every: bool  # whether its formula needs the features of all nodes


class Stage(NamedTuple):
    r"""What one layer runs on."""

    graph: Graph  # the graph of the nodes below
    nodes: Tensor  # the nodes whose features go in, ascending
    kept: Tensor  # the output rows of the next stage's nodes, or of the requested nodes at the end


@final
@dataclass(frozen=True, eq=False)
class Field:
    r"""The receptive field of some nodes: what each layer of a model runs on for their outputs."""

    whole: Graph
    stages: Sequence[Stage]  # one for each layer
    needs: tuple[Needs, ...]  # one for each layer

    @property
    def nodes(self) -> Tensor:
        r"""The nodes whose features are needed, ascending."""
        return self.stages[0].nodes


def field_of(graph: Graph, rows: Tensor, needs: Sequence[Needs]) -> Field | None:
    r"""The receptive field of ascending nodes, or :obj:`None` if it holds most edges."""
    if bool((rows.diff() <= 0).any()) or not 0 <= int(rows[0]) <= int(rows[-1]) < graph.num_nodes:
        raise ValueError("'nodes' must be nodes of the graph, ascending, each once")
    parts: list[tuple[Tensor, Tensor]] = []  # input nodes and output rows of each layer
    for need in reversed(needs):
        nodes = torch.arange(graph.num_nodes, device=graph.device) if need.every else rows
        for _ in range(0 if need.every else need.reach):
            nodes = with_sources(graph, nodes)
        parts.insert(0, (nodes, rows))
        rows = nodes
    degree = graph.rowptr.diff().long()
    if sum(int(degree[rows].sum()) for _, rows in parts) > WORTH * len(parts) * graph.num_edges:
        return None
    stages = []
    for (nodes, rows), need in zip(parts, needs, strict=True):
        with_edges = rows if need.reach else rows[:0]  # whose neighbours are among the nodes
        part = graph if len(rows) == graph.num_nodes else RowsGraph(graph, nodes, with_edges)
        stages.append(Stage(part, nodes, torch.searchsorted(nodes, rows)))
    return Field(graph, stages, tuple(needs))


class LayerStack(Module):
    r"""What models of layers one after the other have in common."""

    layers: ModuleList

    def forward(self, x: Features, graph: GraphInput, *, structure: Tensor | None = None) -> Tensor:
        r"""The output of every node, before any softmax, :obj:`[num_nodes, out_channels]`.

        Args:
            x (Tensor or SparseFeatures): :obj:`[num_nodes, in_channels]`.
            graph (Graph or Tensor): The graph as it is: layers add self-loops and normalise
                themselves. PyG's :obj:`edge_index` is prepared again at each call.
            structure (Tensor, optional): CAT's embeddings of the graph's nodes, in place of the
                model's own. (default: :obj:`None`)
        """
        return self._run(x, graph, structure)[-1]

    def hidden(self, x: Features, graph: Graph, *, structure: Tensor | None = None) -> list[Tensor]:
        r"""The output of each hidden layer, :obj:`[num_nodes, hidden]`; see :meth:`forward`."""
        return self.outputs(x, graph, structure=structure)[:-1]

    def outputs(
        self, x: Features, graph: GraphInput, *, structure: Tensor | None = None
    ) -> list[Tensor]:
        r"""The output of every layer, after norm and activation; see :meth:`forward`."""
        return self._run(x, graph, structure)

    @torch.no_grad()
    def embed(self, x: Features, graph: GraphInput, *, structure: Tensor | None = None) -> Tensor:
        r"""The last hidden embedding of every node, without dropout and without gradient; the
        output itself if there is one layer.
        """
        with evaluation_mode(self):
            return self._run(x, graph, structure)[-2:][0]

    def aggregator_parameters(self) -> list[Parameter]:
        r"""What the aggregators learn, for an optimiser of their own."""
        aggregations = (self.aggregation_of(layer) for layer in self.layers)
        return [
            parameter for one in aggregations if one is not None for parameter in one.parameters()
        ]

    def other_parameters(self) -> list[Parameter]:
        r"""All other parameters."""
        aggregators = {id(parameter) for parameter in self.aggregator_parameters()}
        return [parameter for parameter in self.parameters() if id(parameter) not in aggregators]

    def aggregation_of(self, layer: Module) -> Module | None:
        r"""The aggregation of a layer, :obj:`None` if it has none."""
        raise NotImplementedError

    def _run(self, x: Features, given: Any, structure: Tensor | None) -> list[Tensor]:
        r"""The output of every layer."""
        raise NotImplementedError


@final
class NodeModel(LayerStack):
    r"""Layers one after the other, made by :func:`build_model`.

    .. math::
        H^{(k)} = \sigma \big( \mathrm{norm}( \mathrm{layer}_k(\mathrm{dropout}(H^{(k-1)})) +
        \mathrm{skip}_k(H^{(k-1)}) ) \big)

    where the last layer has neither norm nor activation, unless it has a norm of its own in
    :obj:`norms`. With :obj:`pre_activation` the skip is of what norm and activation were applied
    to: layers add to :math:`Z`, as in DeeperGCN,

    .. math::
        H^{(k)} = \sigma \big( \mathrm{norm}(Z^{(k)}) \big) \qquad Z^{(k)} =
        \mathrm{layer}_k(\mathrm{dropout}(H^{(k-1)})) + \mathrm{skip}_k(Z^{(k-1)})

    Args:
        layers (sequence): The layers.
        skips (sequence): The skip connection of each layer, or :obj:`None`.
        norms (sequence): The norm after each hidden layer, or :obj:`None`; with one more, the
            last layer is followed by norm and activation too.
        activation (str): The activation of hidden layers.
        dropout (float): Dropout of each layer's input.
        drops_input (bool): Whether layers apply it themselves.
        drops_features (bool): Whether the input of the model is one of them.
        pre_activation (bool): Whether skips are of the input before norm and activation.
        structure (StructuralEmbedding, optional): CAT's embeddings of the one graph it is trained
            on; without, they are fitted to each graph.
        structure_channels (int): The channels of embeddings that are fitted.
        structure_weight (float): :math:`\lambda` of the embeddings' loss.

    Example:
        >>> from meanmax import build_model
        >>> model = build_model("gcn", "softmax", 8, 16, 2)
        >>> graph = Graph.from_edge_index([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> model(torch.randn(3, 8), graph).shape
        torch.Size([3, 2])
        >>> model.learned()
        {'layers.0.gamma': tensor(1.)}
    """

    def __init__(
        self,
        layers: Sequence[Module],
        *,
        skips: Sequence[Module | None],
        norms: Sequence[Module | None],
        activation: Activation,
        dropout: float,
        drops_input: bool,
        drops_features: bool = True,
        pre_activation: bool = False,
        structure: StructuralEmbedding | None,
        structure_channels: int,
        structure_weight: float,
    ) -> None:
        super().__init__()
        self.layers = ModuleList(layers)
        self.skips = ModuleList([skip or torch.nn.Identity() for skip in skips])
        self.norms = ModuleList([norm or torch.nn.Identity() for norm in norms])
        self.has_skip = tuple(skip is not None for skip in skips)
        self.activation = activation
        self.dropout = dropout
        self.drops_input = drops_input
        self.drops_features = drops_features
        self.pre_activation = pre_activation
        self.structure = structure
        self.structure_channels = structure_channels
        self.structure_weight = structure_weight

    def reset_parameters(self) -> None:
        r"""Draws new weights everywhere and sets aggregators back to their start."""
        for module in (*self.layers, *self.skips, *self.norms, self.structure):
            reset = getattr(module, "reset_parameters", None)
            if reset is not None:
                reset()

    def on_field(self, x: Features, field: Field, *, structure: Tensor | None = None) -> Tensor:
        r"""The output of some nodes alone, as :meth:`forward` gives it for all of them.

        Outputs and gradients are the same, for less work; dropout draws other numbers of the same
        kind.

        Args:
            x (Tensor or SparseFeatures): The features of :obj:`field.nodes`.
            field (Field): What :meth:`field` has given for the nodes that are asked for.
            structure (Tensor, optional): See :meth:`forward`; for all nodes of the whole graph.
                (default: :obj:`None`)
        """
        if field.needs != self._needs():
            raise ValueError("this field was made for another model: make it with model.field")
        return self._run(x, field, structure)[-1]

    def field(self, graph: Graph, nodes: Tensor) -> Field | None:
        r"""What the outputs of some nodes depend on, for :meth:`on_field`: their neighbours'
        neighbours, and no row of any layer that they do not need.

        :obj:`None` if that saves no work because most of the graph is needed, or if the receptive
        field is unknown: with norms over nodes, custom layers or modules, on a batch, on a part of
        a distributed graph, or with weights that carry a gradient.

        Args:
            graph (Graph): The graph as it is.
            nodes (Tensor): The nodes, ascending, each once, int64.
        """
        needs, plain = self._needs(), graph.is_local and graph.num_graphs == 1
        if needs is None or not plain or graph.has_learned_weight:
            return None
        return field_of(graph, nodes, needs)

    @torch.no_grad()
    def maxness(
        self, x: Features, graph: GraphInput, *, structure: Tensor | None = None
    ) -> dict[str, Tensor]:
        r"""Where between mean (0) and max (1) the aggregation of each layer stands on this input,
        per channel: :obj:`"layers.0"`, ...; see :func:`meanmax.maxness`.
        """
        found: dict[str, Tensor] = {}

        def measure(index: int, module: LayerAggregation, args: tuple[Any, ...], _: Tensor) -> None:
            found[f"layers.{index}"] = module.maxness(*args)

        hooks = [
            aggregation.register_forward_hook(partial(measure, index))
            for index, aggregation in enumerate(map(self.aggregation_of, self.layers))
            if aggregation is not None
        ]
        try:
            with evaluation_mode(self):
                self._run(x, graph, structure)
        finally:
            for hook in hooks:
                hook.remove()
        return found

    def learned(self) -> dict[str, Tensor]:
        r"""The parameters of the aggregators in their domains: :obj:`"layers.0.p"`, ..."""
        values = {}
        for index, layer in enumerate(self.layers):
            aggregator = self._learned_by(layer)
            if aggregator is not None:
                name = f"layers.{index}.{aggregator.domain.name}"
                values[name] = aggregator.value.detach().clone()
                if isinstance(aggregator, TiltedAggregation) and aggregator.learn_beta:
                    assert aggregator.beta is not None
                    values[f"layers.{index}.beta"] = aggregator.beta.detach().clone()
        return values

    def extra_loss(self, graph: Graph) -> Tensor | None:
        r"""What training adds to the loss: CAT's :math:`\lambda/4 \, \|A - S S^\top\|_F^2`."""
        if self.structure is None:
            return None
        return self.structure_weight * structure_loss(self.structure(graph), graph)

    def aggregation_of(self, layer: Module) -> LayerAggregation | None:
        r"""The aggregation of a layer, :obj:`None` if it ignores the edges."""
        if isinstance(layer, DenseLayer):
            return None
        found = layer.aggr
        assert isinstance(found, LayerAggregation)
        return found

    def _learned_by(self, layer: Module) -> LearnableAggregation | None:
        r"""The learnable aggregator of a layer, if it has one."""
        aggregation = self.aggregation_of(layer)
        return None if aggregation is None else aggregation.learned

    def _needs(self) -> tuple[Needs, ...] | None:
        r"""What each layer needs, if that is known of all."""
        beside = [*self.skips, *self.norms]
        beside += [layer.nn for layer in self.layers if isinstance(layer, GINConv)]
        beside += [layer.mlp for layer in self.layers if isinstance(layer, GENConv)]
        inner = [module for module in beside for module in module.modules()]
        known = all(type(layer) in REACH for layer in self.layers)
        if not known or not all(isinstance(module, BY_NODE) for module in inner):
            return None
        aggregators = [self._learned_by(layer) for layer in self.layers]
        return tuple(
            Needs(REACH[type(layer)], aggregator is not None and aggregator.has_mu)
            for layer, aggregator in zip(self.layers, aggregators, strict=True)
        )

    def _run(
        self, x: Features, given: Graph | Tensor | Field, structure: Tensor | None
    ) -> list[Tensor]:
        field = given if isinstance(given, Field) else None
        graph = given.whole if isinstance(given, Field) else as_graph(given, x, None)
        if not graph.is_local and any(isinstance(part, BatchNorm1d) for part in self.modules()):
            raise ValueError(
                "norm='batch' takes its means over the nodes of one process: use norm='layer' "
                "where the graph is spread over several"
            )
        extra = self._structure_of(graph, structure)
        outs: list[Tensor] = []
        h = z = x
        for index, layer in enumerate(self.layers):
            stage = None if field is None else field.stages[index]
            if not self.drops_input and (index or self.drops_features):
                h = dropout(h, self.dropout, self.training)
            added = z if self.pre_activation else h
            if stage is None:
                out = self.add_skip(index, layer(h, graph, **extra), added)
            else:
                part = {name: rows.index_select(0, stage.nodes) for name, rows in extra.items()}
                out = self.add_skip(index, layer(h, stage.graph, **part), added)
                out = out.index_select(0, stage.kept)
            z, h = out, self.activate(index, out)
            outs.append(h)
        return outs

    def add_skip(self, index: int, out: Tensor, x: Features) -> Tensor:
        r"""The output of a layer plus the skip of its input, before norm and activation with
        :obj:`pre_activation`, if there is one.
        """
        if not self.has_skip[index]:
            return out
        if self.drops_input and not self.pre_activation and (index or self.drops_features):
            x = dropout(x, self.dropout, self.training)
        skipped: Tensor = self.skips[index](x)
        return out + skipped

    def activate(self, index: int, out: Tensor) -> Tensor:
        r"""Norm and activation of a hidden layer; the output layer has neither."""
        if index == len(self.norms):
            return out
        return ACTIVATIONS[self.activation](self.norms[index](out))

    def _structure_of(self, graph: Graph, given: Tensor | None) -> dict[str, Tensor]:
        r"""The argument of CAT's layers, for all nodes; nothing for other layers."""
        if not isinstance(self.layers[0], CATConv):
            if given is not None:
                raise ValueError("'structure' is for backbone 'cat' alone: leave it out")
            return {}
        if given is None and self.structure is not None:
            given = self.structure(graph)
        elif given is None:
            given = fit_structure(graph, self.structure_channels)
        return {"structure": given}

    def extra_repr(self) -> str:
        r"""Activation and dropout."""
        return f"activation={self.activation!r}, dropout={self.dropout}"


@final
class Shortcut(Module):
    r"""A layer's input itself, dense."""

    def forward(self, x: Features) -> Tensor:
        r"""Returns it."""
        return as_dense(x)


BY_NODE = (
    Shortcut, nn.Dropout, nn.ELU, nn.GELU, nn.Identity, nn.LayerNorm, nn.LeakyReLU, nn.Linear,
    nn.ReLU, nn.Sequential, nn.SiLU, nn.Sigmoid, nn.Softplus, nn.Tanh,
)  # fmt: skip


@contextmanager
def evaluation_mode(model: Module) -> Iterator[None]:
    r"""Switches dropout off inside a :obj:`with` block."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


class _Module(Protocol):
    r"""What a model has from :class:`torch.nn.Module`."""

    training: bool

    def modules(self) -> Iterator[Module]: ...
    def parameters(self, recurse: bool = True) -> Iterator[Parameter]: ...
    def train(self, mode: bool = True) -> Any: ...
    def eval(self) -> Any: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any: ...


@runtime_checkable
class Trainable(_Module, Protocol):
    r"""A model that can be trained and compared: a :class:`~meanmax.nn.NodeModel`, a
    :class:`~meanmax.nn.PyGBaseline`, or any :class:`torch.nn.Module` with these members.
    """

    def __call__(
        self, x: Features, graph: GraphInput, *, structure: Tensor | None = None
    ) -> Tensor:
        r"""The output of every node, :obj:`[num_nodes, out_channels]`."""

    def hidden(self, x: Features, graph: Graph, *, structure: Tensor | None = None) -> list[Tensor]:
        r"""The output of each hidden layer."""

    def embed(self, x: Features, graph: GraphInput, *, structure: Tensor | None = None) -> Tensor:
        r"""The last hidden embedding of every node, without dropout and without gradient."""

    def maxness(
        self, x: Features, graph: GraphInput, *, structure: Tensor | None = None
    ) -> dict[str, Tensor]:
        r"""Where between mean and max each layer stands, or nothing if that is not defined."""

    def learned(self) -> dict[str, Tensor]:
        r"""The values of the aggregators' parameters by name."""

    def aggregator_parameters(self) -> list[Parameter]:
        r"""What the aggregators learn."""

    def other_parameters(self) -> list[Parameter]:
        r"""All other parameters."""

    def extra_loss(self, graph: Graph) -> Tensor | None:
        r"""What training adds to the loss, if anything."""

    def reset_parameters(self) -> None:
        r"""Draws new weights."""
