r"""A model that gives every graph of a batch an output: layers, a readout and a dense head."""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, final

import torch
from torch import Tensor
from torch.nn import Linear, Module, Parameter
from torch.nn.functional import dropout, relu

from meanmax.aggr import LearnableAggregation
from meanmax.graph import Graph
from meanmax.names import LEARNED, STORED_OPTION_NAMES, aggregator_name
from meanmax.nn.conv import Aggr, aggregator_of, as_graph
from meanmax.nn.linear import Features
from meanmax.nn.model import GraphInput, NodeModel, evaluation_mode
from meanmax.nn.readout import Readout, ReadoutAggr
from meanmax.ops.spec import Form

Jump: TypeAlias = Literal["cat"] | None
LINEAR_READOUTS: dict[str, Form] = {"mean": "weighted", "sum": "sum"}
r"""The readouts that an aggregator can take the place of, and the form that begins there."""
AT_ONCE = 2**16
r"""Nodes of which outputs are computed at once where nothing is trained, so that memory does not
grow with the collection.
"""
READOUT = "readout"  # the prefix of the readout's names in learned() and maxness()


@final
class GraphModel(Module):
    r"""Layers, a readout and two dense layers, made by :func:`build_model` with
    :obj:`task="graph"`.

    .. math::
        \mathrm{out} = W_2 \, \mathrm{relu}(W_1 \, \mathrm{readout}(H) + b_1) + b_2

    where :math:`H` is the output of the last layer or, with :obj:`jump="cat"`, that of all layers
    side by side (jumping knowledge). Dropout acts on the input of both dense layers.

    Args:
        encoder (NodeModel): The layers, each followed by norm and activation.
        readout (Readout): What summarises the nodes of a graph.
        hidden (int): The width of every layer.
        out_channels (int): Channels of the output.
        jump (str, optional): :obj:`"cat"` to read out all layers. (default: :obj:`None`)

    Example:
        >>> from meanmax import build_model
        >>> model = build_model("sage", "softmax", 8, 16, 2, task="graph")
        >>> pair = Graph.from_edge_index([[0, 1, 2], [1, 0, 3]], batch=[0, 0, 1, 1])
        >>> model(torch.randn(4, 8), pair).shape
        torch.Size([2, 2])
    """

    def __init__(
        self,
        encoder: NodeModel,
        readout: Readout,
        hidden: int,
        out_channels: int,
        jump: Jump = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.readout = readout
        self.jump = jump
        self.first = Linear(
            readout.out_channels(hidden * (len(encoder.layers) if jump else 1)), hidden
        )
        self.last = Linear(hidden, out_channels)

    def forward(self, x: Features, graph: GraphInput, *, structure: Tensor | None = None) -> Tensor:
        r"""The output of every graph, before any softmax, :obj:`[num_graphs, out_channels]`.

        Args:
            x (Tensor or SparseFeatures): Features of the nodes of all graphs.
            graph (Graph or Tensor): The batch of graphs; PyG's :obj:`edge_index` is one graph.
            structure (Tensor, optional): Not used. (default: :obj:`None`)
        """
        return self._run(x, graph)[-1]

    def hidden(self, x: Features, graph: Graph, *, structure: Tensor | None = None) -> list[Tensor]:
        r"""The readout of every graph and the hidden layer of the head."""
        return self._run(x, graph)[:-1]

    @torch.no_grad()
    def embed(self, x: Features, graph: GraphInput, *, structure: Tensor | None = None) -> Tensor:
        r"""The hidden layer of the head for every graph, :obj:`[num_graphs, hidden]`, without
        dropout and without gradient.
        """
        with evaluation_mode(self):
            return self._run(x, graph)[-2]

    @torch.no_grad()
    def maxness(
        self, x: Features, graph: GraphInput, *, structure: Tensor | None = None
    ) -> dict[str, Tensor]:
        r"""Where between mean (0) and max (1) layers and readout stand on this input, per channel:
        :obj:`"layers.0"`, ..., and :obj:`"readout"` (:obj:`"readout.0"`, ... if there are
        several).
        """
        found = self.encoder.maxness(x, graph)
        with evaluation_mode(self):
            whole = as_graph(graph, x, None)
            own = self.readout.maxness(self._nodes(x, whole), whole)
        several = len(self.readout.names) > 1
        return found | {f"{READOUT}.{n}" if several else READOUT: v for n, v in own.items()}

    def learned(self) -> dict[str, Tensor]:
        r"""The parameters of the aggregators in their domains: :obj:`"layers.0.p"`, ..., and
        :obj:`"readout.p"`.
        """
        own = {f"{READOUT}.{name}": value for name, value in self.readout.learned().items()}
        return self.encoder.learned() | own

    def aggregator_parameters(self) -> list[Parameter]:
        r"""What the aggregators learn, for an optimiser of their own."""
        return [*self.encoder.aggregator_parameters(), *self.readout.parameters()]

    def other_parameters(self) -> list[Parameter]:
        r"""All other parameters."""
        return [*self.encoder.other_parameters(), *self.first.parameters(), *self.last.parameters()]

    def extra_loss(self, graph: Graph) -> Tensor | None:
        r"""Nothing is added to the loss."""
        return None

    def reset_parameters(self) -> None:
        r"""Draws new weights everywhere and sets aggregators back to their start."""
        for module in (self.encoder, self.readout, self.first, self.last):
            module.reset_parameters()

    def _nodes(self, x: Features, graph: Graph) -> Tensor:
        r"""What is read out, for every node."""
        outs = self.encoder.outputs(x, graph)
        return outs[-1] if self.jump is None else torch.cat(outs, dim=1)

    def _run(self, x: Features, given: GraphInput) -> list[Tensor]:
        r"""The readout, the hidden layer of the head and the output of every graph."""
        graph = as_graph(given, x, None)
        apart = not (self.training or torch.is_grad_enabled() or torch.compiler.is_compiling())
        if not apart or not isinstance(x, Tensor) or graph.num_nodes <= AT_ONCE:
            return self._run_all(x, graph)
        ends = graph.dst_ptr.tolist()
        found, first = [], 0
        while first < graph.num_graphs:
            end = max(first + 1, bisect_right(ends, ends[first] + AT_ONCE) - 1)
            part = graph.select(torch.arange(first, end, device=graph.device))
            found.append(self._run_all(x[ends[first] : ends[end]], part))
            first = end
        return [torch.cat(outs) for outs in zip(*found, strict=True)]

    def _run_all(self, x: Features, graph: Graph) -> list[Tensor]:
        rate = self.encoder.dropout
        read = self.readout(self._nodes(x, graph), graph)
        inner = relu(self.first(dropout(read, rate, self.training)))
        return [read, inner, self.last(dropout(inner, rate, self.training))]


def make_readout(
    readout: ReadoutAggr | Sequence[ReadoutAggr] | Readout,
    aggr: Aggr,
    nonlinear: str,
    options: Mapping[str, Any],
    channels: int,
) -> Readout:
    r"""The readout of a model. In place of :obj:`"mean"` or :obj:`"sum"`, a learnable aggregator
    stands that leads from there to the maximum, if :obj:`nonlinear` includes the readout. Others
    are as given; one with the aggregator's name has its options.
    """
    name = "" if isinstance(aggr, LearnableAggregation) else aggregator_name(aggr)
    own = {STORED_OPTION_NAMES.get(key, key): value for key, value in options.items()}
    own.pop("form", None)  # that of the layers
    if isinstance(readout, str) and readout in LINEAR_READOUTS:
        if nonlinear not in ("all", "readout") or name == "none":
            return Readout(readout)
        if isinstance(aggr, LearnableAggregation):
            return Readout(copy.deepcopy(aggr))
        return Readout("max") if name == "max" else _leading_from(readout, name, own, channels)
    if isinstance(readout, Readout):
        summary = copy.deepcopy(readout)
    else:
        listed: Any = readout if isinstance(readout, list | tuple) else [readout]
        if isinstance(readout, str):
            listed = [one.strip() for one in readout.split(",")]
        made = [
            aggregator_of(name, own, None, channels, "weighted")
            if one == name and name in LEARNED
            else one
            for one in listed
        ]
        summary = Readout(made, channels=channels)
    if nonlinear == "readout" and name not in ("none", *summary.names):
        raise ValueError(
            f"nonlinear='readout' has no effect with readout={readout!r}, which stays as it is: "
            f"give readout='mean' or 'sum', or nonlinear='all' for the layers"
        )
    return summary


def _leading_from(readout: str, name: str, options: dict[str, Any], channels: int) -> Readout:
    r"""The learnable readout that begins at the mean or sum over nodes."""
    if options.get("beta") is not None and readout == "sum":
        raise ValueError(
            f"readout='sum' is beta=1 (got beta={options['beta']}): give one of them, beta with "
            f"readout='mean'"
        )
    if name == "lp" and readout == "mean" and options.get("beta") is None:
        options |= {"beta": 0.0, "shift": "consistent"}  # which the paper's shift does not have
    return Readout(aggregator_of(name, options, None, channels, LINEAR_READOUTS[readout]))
