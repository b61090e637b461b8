r"""Readouts: one vector for each graph of a batch, from the features of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, final

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn.aggr import Aggregation

from meanmax import functional
from meanmax.aggr import AGGREGATIONS, LearnableAggregation, TiltedAggregation
from meanmax.graph import Graph
from meanmax.graph.build import group_nodes, pointer
from meanmax.graph.checks import as_index
from meanmax.names import AGGREGATOR_ALIASES, LEARNED
from meanmax.nn.conv import aggregator_of
from meanmax.ops.library import TracedGraph, builder


def _minimum(x: Tensor, graph: Graph, *, edge_weight: Tensor | None = None) -> Tensor:
    return -functional.max(-x, graph, edge_weight=edge_weight)


FIXED: dict[str, Callable[..., Tensor]] = {
    "mean": functional.mean,
    "sum": functional.sum,
    "max": functional.max,
    "min": _minimum,
}
r"""The readouts without a parameter."""
ALIASES = {**AGGREGATOR_ALIASES, "add": "sum"}  # PyG's name
ReadoutAggr: TypeAlias = str | LearnableAggregation


@final
class Readout(Aggregation):  # type: ignore[misc]
    r"""Summarises the nodes of each graph in one vector, with a learnable aggregator or several
    aggregators side by side.

    It is a PyG aggregation: :obj:`Readout("softmax")(x, batch)` stands where
    :obj:`global_mean_pool(x, batch)` stood. Polynomial and softmax lead from the mean over the
    nodes to their maximum, Lp from their sum to their maximum, or with :obj:`beta=0` from the mean.
    Every graph has its own :math:`\mu`, so that its vector does not depend on the others in the
    batch. A graph without nodes gives 0. Under :func:`torch.compile` with :obj:`fullgraph=True`
    give :obj:`dim_size` or :obj:`ptr`, as the number of graphs is not known otherwise.

    Args:
        aggr (str, LearnableAggregation or sequence of them, optional): :obj:`"lp"`,
            :obj:`"poly"`, :obj:`"softmax"`, :obj:`"spread"`, :obj:`"mean"`, :obj:`"sum"`,
            :obj:`"max"`, :obj:`"min"`, or an aggregator. The results of several are concatenated.
            (default: :obj:`"softmax"`)
        channels (int, optional): Channels of the input, needed by :obj:`per="channel"` and
            :obj:`"spread"`. (default: :obj:`None`)
        **options: Arguments of learnable aggregators given by name, such as :obj:`start=2.0`,
            :obj:`per="channel"`, :obj:`learn=False`, :obj:`signed=True` or :obj:`beta=0.5`; see
            :class:`~meanmax.aggr.base.TiltedAggregation`.

    Example:
        >>> x = torch.tensor([[0.0], [1.0], [2.0], [5.0]])
        >>> batch = torch.tensor([0, 0, 0, 1])
        >>> Readout("softmax")(x, batch).detach()
        tensor([[1.5752],
                [5.0000]])
        >>> Readout(["mean", "max"])(x, batch)
        tensor([[1., 2.],
                [5., 5.]])
    """

    def __init__(
        self,
        aggr: ReadoutAggr | Sequence[ReadoutAggr] = "softmax",
        *,
        channels: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        given: list[Any] = list(aggr) if isinstance(aggr, list | tuple) else [aggr]
        if not given:
            raise ValueError("'aggr' must name at least one aggregator (got none)")
        self.names: list[str] = []
        used = False
        for index, one in enumerate(given):
            name = ALIASES.get(one, one) if isinstance(one, str) else ""
            if isinstance(one, LearnableAggregation):
                self.add_module(str(index), one)
                name = next((n for n, k in AGGREGATIONS.items() if k is type(one)), "learned")
            elif name in LEARNED:
                self.add_module(
                    str(index), aggregator_of(name, options, None, channels, "weighted")
                )
                used = True
            elif name not in FIXED:
                listed = ", ".join(repr(known) for known in (*LEARNED, *FIXED))
                raise ValueError(
                    f"unknown readout {one!r}: 'aggr' must be one of {listed}, an aggregator such "
                    f"as meanmax.LpAggregation(), or a list of these"
                )
            self.names.append(name)
        if options and not used:
            raise ValueError(
                f"{', '.join(map(repr, options))} has no effect with aggr={aggr!r}: options are "
                f"for learnable aggregators given by name"
            )

    def forward(
        self,
        x: Tensor,
        index: Tensor | Graph | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        *,
        weight: Tensor | None = None,
    ) -> Tensor:
        r"""Summarises the nodes of each graph.

        Args:
            x (Tensor): Features of nodes, :obj:`[num_nodes, channels]`.
            index (Tensor or Graph, optional): The graph of each node, in any order; or the batch
                of graphs itself. (default: all nodes belong to one graph)
            ptr (Tensor, optional): The first node of each graph, where nodes are sorted by graph;
                used in place of :obj:`index`. (default: :obj:`None`)
            dim_size (int, optional): The number of graphs. (default: as many as are needed)
            dim (int, optional): The dimension of nodes, always the first of two.
            weight (Tensor, optional): Weights of nodes, at least 0, :obj:`[num_nodes]`.
                (default: 1)

        Returns:
            :obj:`[num_graphs, aggregators * channels]`.
        """
        if x.dim() != 2 or dim not in (-2, 0):
            raise ValueError(
                f"'x' must be [num_nodes, channels] with nodes in dimension 0 (got shape "
                f"{list(x.shape)}, dim={dim}): pass x[:, None] for one number a node, or "
                f"x.flatten(1) for several dimensions of channels"
            )
        if weight is not None and weight.shape != (len(x),):
            raise ValueError(
                f"'weight' must hold one number for each of {len(x)} nodes (got "
                f"{list(weight.shape)})"
            )
        x, graph, weight = _grouped(x, index, ptr, dim_size, weight)
        if graph.num_dst == 0 or x.numel() == 0:
            width = len(self.names) * x.size(1)
            return x.new_zeros(graph.num_dst, width) + x.sum()
        outs = [rule(x, graph, edge_weight=weight) for rule in self._rules()]
        return outs[0] if len(outs) == 1 else torch.cat(outs, dim=1)

    def __call__(self, x: Tensor, index: Any = None, *args: Any, **options: Any) -> Tensor:
        r"""Runs :meth:`forward`, whose arguments these are, and its hooks."""
        # PyG's own call reads the number of groups from index, and adds 'dim_size'.
        out: Tensor = Module.__call__(self, x, index, *args, **options)
        return out

    def out_channels(self, channels: int) -> int:
        r"""The channels of the output for this many of the input."""
        return len(self.names) * channels

    def learned(self) -> dict[str, Tensor]:
        r"""The values of the learnable parameters, by the names of the aggregators."""
        found = {}
        for index, module in self._aggregators():
            place = f"{index}." if len(self.names) > 1 else ""
            found[f"{place}{module.domain.name}"] = module.value.detach()
            if isinstance(module, TiltedAggregation) and module.learn_beta:
                assert module.beta is not None
                found[f"{place}beta"] = module.beta.detach().clone()
        return found

    @torch.no_grad()
    def maxness(
        self, x: Tensor, index: Tensor | Graph | None = None, *, weight: Tensor | None = None
    ) -> dict[str, Tensor]:
        r"""Where between mean (0) and max (1) each learnable aggregator stands, per channel; see
        :func:`meanmax.maxness`.
        """
        x, graph, weight = _grouped(x, index, None, None, weight)
        return {
            str(place): module.maxness(x, graph, weight) for place, module in self._aggregators()
        }

    def reset_parameters(self) -> None:
        r"""Sets the parameters back to their start values."""
        for _, module in self._aggregators():
            module.reset_parameters()

    def _aggregators(self) -> list[tuple[int, LearnableAggregation]]:
        found = [(int(name), module) for name, module in self._modules.items()]  # also twice one
        return [(place, one) for place, one in found if isinstance(one, LearnableAggregation)]

    def _rules(self) -> list[Callable[..., Tensor]]:
        learned = dict(self._aggregators())
        return [learned.get(place) or FIXED[name] for place, name in enumerate(self.names)]

    def __repr__(self) -> str:
        learned = dict(self._aggregators())
        parts = [repr(learned.get(place, name)) for place, name in enumerate(self.names)]
        return f"Readout({parts[0] if len(parts) == 1 else '[' + ', '.join(parts) + ']'})"


def readout(
    x: Tensor,
    batch: Tensor | Graph | None = None,
    size: int | None = None,
    *,
    aggr: ReadoutAggr | Sequence[ReadoutAggr] = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    r"""Summarises the nodes of each graph, as PyG's :obj:`global_mean_pool`,
    :obj:`global_add_pool` and :obj:`global_max_pool` do, whose arguments it takes.

    Args:
        x, batch, weight: As in :class:`Readout`.
        size (int, optional): The number of graphs. (default: as many as are needed)
        aggr (str, LearnableAggregation or sequence, optional): :obj:`"mean"`, :obj:`"sum"`,
            :obj:`"max"`, :obj:`"min"`, an aggregator, or several. A learnable one is given as an
            object, which holds its parameter. (default: :obj:`"mean"`)

    Example:
        >>> readout(torch.tensor([[1.0], [3.0], [5.0]]), torch.tensor([0, 0, 1]), aggr="max")
        tensor([[3.],
                [5.]])
    """
    given = aggr if isinstance(aggr, list | tuple) else [aggr]
    if named := [one for one in given if AGGREGATOR_ALIASES.get(str(one), one) in LEARNED]:
        raise ValueError(
            f"readout has no place for the parameter of {named[0]!r}: make a module once, such as "
            f"meanmax.nn.Readout({named[0]!r}), and call it"
        )
    out: Tensor = Readout(aggr)(x, batch, dim_size=size, weight=weight)
    return out


class _Nodes(NamedTuple):
    r"""Nodes sorted by graph, and the edges from each to its graph."""

    x: Tensor
    graph: Graph
    weight: Tensor | None


def _grouped(
    x: Tensor,
    index: Tensor | Graph | None,
    ptr: Tensor | None,
    size: int | None,
    weight: Tensor | None,
) -> _Nodes:
    if isinstance(index, Graph):
        if ptr is not None or size not in (None, index.num_graphs):
            raise ValueError(
                f"a Graph defines the graphs and their number: leave out 'ptr' and 'dim_size' "
                f"(got dim_size={size!r} for {index.num_graphs} graphs)"
            )
        if not index.is_local or not index.holds_all_nodes or index.num_dst != len(x):
            raise ValueError(
                f"'index' must be a batch of whole graphs with {len(x)} nodes (got {index!r})"
            )
        make = partial(_to_graphs, index.dst_ptr, len(x))
        return _Nodes(x, index.cached("readout", make), weight)
    if ptr is not None:
        if size not in (None, ptr.numel() - 1):
            raise ValueError(
                f"'ptr' is of {ptr.numel() - 1} graphs (got dim_size={size}): leave out 'dim_size'"
            )
        return _Nodes(x, _to_graphs(ptr, len(x)), weight)
    if torch.compiler.is_compiling() and index is not None and size is not None:
        # Without a look at the values: the op that makes the graph refuses other numbers.
        order = index.argsort(stable=True)
        bounds = torch.arange(size + 1, dtype=index.dtype, device=index.device)
        starts = torch.searchsorted(index[order], bounds)
        weight = None if weight is None else weight[order]
        return _Nodes(x[order], _to_graphs(starts, len(x)), weight)
    if index is None:
        return _Nodes(x, _to_graphs(torch.tensor([0, len(x)], device=x.device), len(x)), weight)
    index = as_index(index, "batch").long()
    if index.dim() != 1 or len(index) != len(x):
        raise ValueError(
            f"'batch' must hold the graph of each of {len(x)} nodes (got {list(index.shape)})"
        )
    low, high = (int(end) for end in index.aminmax()) if len(index) else (0, -1)
    if low < 0 or (size is not None and high >= size):
        bound = "" if size is None else f" below {size}"
        raise ValueError(
            f"'batch' must hold numbers of graphs from 0 on{bound} (got {low} to {high})"
        )
    if len(index) and bool((index[1:] < index[:-1]).any()):
        order = index.argsort(stable=True)
        index, x = index[order], x.index_select(0, order)
        weight = None if weight is None else weight.index_select(0, order)
    starts = pointer(index, high + 1 if size is None else size)
    return _Nodes(x, _to_graphs(starts, len(x)), weight)


def _to_graphs(ptr: Tensor, size: int) -> Graph:
    if torch.compiler.is_compiling():
        sizes, dtype = (size, ptr.size(0) - 1, size), torch.get_default_dtype()
        return TracedGraph(_nodes_to_graphs(ptr, size), None, "", sizes, None, dtype, ptr.device)
    return Graph(group_nodes(ptr, size))


_nodes_to_graphs = builder("nodes_to_graphs", "Tensor ptr, SymInt size")(_to_graphs)
