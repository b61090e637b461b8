r"""Each layer as passes over all nodes, with the results of its own :obj:`forward`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import normalize as l2_normalize
from torch.nn.functional import relu

from meanmax import functional
from meanmax.data import Dataset
from meanmax.graph import Graph, SparseFeatures
from meanmax.graph.checks import Normalize
from meanmax.nn import (
    CATConv,
    GATConv,
    GCNConv,
    GINConv,
    Linear,
    MaskedGCNConv,
    NodeModel,
    SAGEConv,
)
from meanmax.nn.conv import Neighbourhood
from meanmax.nn.gat import attended, combine_heads, reweighted, scores
from meanmax.nn.linear import Features, as_dense
from meanmax.nn.model import ACTIVATIONS
from meanmax.ops.autograd import summed_weights
from meanmax.scale.edges import BatchingError, Block, BlockGraphs, Edges, Loops
from meanmax.scale.folder import GraphFolder
from meanmax.scale.rows import (
    DenseRows,
    MemoryStore,
    Rows,
    ScaledRows,
    Store,
    rows_of,
    scratch_files,
)
from meanmax.train import LabeledNodes, NodeClassifier, Sample

OnRows = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class Passes:
    r"""What a pass works with.

    Args:
        graphs (BlockGraphs): Makes the graphs of blocks.
        store (Store): Gives room for results.
        memory (int): About how many bytes the arrays of one block may take.
        on_rows (callable, optional): Called with the number of rows after each block.
    """

    graphs: BlockGraphs
    store: Store
    memory: int
    on_rows: OnRows | None = None

    def mapped(self, rows: Rows, function: Callable[[Features], Tensor], width: int) -> DenseRows:
        r"""A function of each row.

        Args:
            rows (Rows): The rows.
            function (callable): From features of any nodes to as many rows of results.
            width (int): The channels of a result.
        """
        size, channels = rows.shape
        out = self.store.array(size, width)
        step = max(1, self.memory // (16 * (channels + width)))
        for first in range(0, size, step):
            last = min(first + step, size)
            out[first:last] = function(rows.read(first, last)).numpy()
        return DenseRows(out)

    def over_neighbours(
        self,
        rows: Rows,
        function: Callable[[Block, Tensor], Tensor],
        width: int,
        *,
        normalize: Normalize | None = None,
        loops: Loops = "none",
        heads: int = 1,
    ) -> DenseRows:
        r"""A function of the neighbours of each row.

        Args:
            rows (Rows): The rows.
            function (callable): From a block and the rows of its sources to results of its rows.
            width (int): The channels of a result.
            normalize (str, optional): How weights are normalised. (default: :obj:`None`)
            loops (str, optional): Which self-loops there are. (default: :obj:`"none"`)
            heads (int, optional): Numbers for each edge that the function makes.
                (default: :obj:`1`)
        """
        channels = rows.shape[1]
        out = self.store.array(rows.shape[0], width)
        # An edge may be the only one of its source: a row read, two of tilts, and its indices.
        edge_bytes, row_bytes = 48 + 16 * heads + 16 * channels, 24 * (channels + width)
        for first, last in self.graphs.edges.blocks(edge_bytes, row_bytes, self.memory):
            block = self.graphs.block(first, last, normalize, loops)
            source = as_dense(rows.gather(block.sources))
            out[first:last] = function(block, source).numpy()
            if self.on_rows is not None:
                self.on_rows(last - first)
        return DenseRows(out)

    def lowest(self, rows: Rows) -> float:
        r"""The smallest number in all rows: :math:`\mu`."""
        size, channels = rows.shape
        step, found = max(1, self.memory // (8 * channels)), np.inf
        for first in range(0, size, step):
            part = as_dense(rows.read(first, min(first + step, size)))
            found = min(found, float(part.amin()))
        return found

    def origin(self, aggr: Neighbourhood, rows: Rows) -> Tensor | None:
        r""":math:`\mu` of all rows, if the aggregation measures from it."""
        if aggr.learned is None or not aggr.learned.has_mu or 0 in rows.shape:
            return None
        return torch.tensor(self.lowest(rows), dtype=torch.float32)


Finish = Callable[[Tensor, Features], Tensor]
Aggregate = Callable[[Block, Tensor], Tensor]


def run_layer(layer: Module, x: Rows, passes: Passes, finish: Finish, width: int) -> DenseRows:
    r"""The rows that a layer makes of all nodes.

    Args:
        layer (Module): The layer, in evaluation mode.
        x (Rows): Its input.
        passes (Passes): What to run with.
        finish (callable): What follows the layer, of its output rows and its input rows.
        width (int): The channels of what is finished.
    """
    run = _RUNS.get(type(layer))
    if run is None:
        known = ", ".join(kind.__name__ for kind in _RUNS)
        raise BatchingError(
            f"layer-wise inference knows {known} (got {type(layer).__name__}): run the model on "
            f"the whole graph"
        )
    return run(layer, x, passes, finish, width)


def _gcn(layer: Any, x: Rows, passes: Passes, finish: Finish, width: int) -> DenseRows:
    loops = "add" if layer.add_self_loops else "none"
    norm = "sym" if layer.normalize else None
    return _ordered(layer, x, x, passes, finish, width, layer.lin, loops=loops, normalize=norm)


def _masked(layer: Any, x: Rows, passes: Passes, finish: Finish, width: int) -> DenseRows:
    inverse, degree = torch.exp(-layer.log_variance), passes.graphs.degree
    centre = as_dense(x.read(0, min(1024, x.shape[0]))).mean(dim=0)  # any will do: it cancels

    def mask(block: Block, source: Tensor) -> Tensor:
        own = as_dense(x.read(block.first, block.last))
        centred, source = own - centre, source - centre
        both = functional.sum(torch.cat([source, source * source], dim=1), block.graph)
        first, second = both.chunk(2, dim=1)
        total = summed_weights(block.graph)
        spread = (centred * (centred * total - 2 * first) + second).clamp(min=0)
        share = torch.from_numpy(degree[block.first : block.last]).unsqueeze(1)
        return own * torch.exp(-spread / share * inverse)

    masked = passes.over_neighbours(x, mask, x.shape[1], normalize="sym", loops="add")
    out = _ordered(layer, masked, x, passes, finish, width, layer.lin, loops="add", normalize="sym")
    passes.store.release(masked.array)
    return out


def _sage(layer: Any, x: Rows, passes: Passes, finish: Finish, width: int) -> DenseRows:
    sent = x
    if layer.lin is not None:
        sent = passes.mapped(x, lambda rows: relu(layer.lin(rows)), x.shape[1])

    def after(out: Tensor, own: Features) -> Tensor:
        if layer.lin_r is not None:
            out = out + layer.lin_r(own)
        return finish(l2_normalize(out, dim=-1) if layer.normalize else out, own)

    weigh, bias = layer.lin_l.without_bias, layer.lin_l.bias
    out = _ordered(layer, sent, x, passes, after, width, weigh, normalize="row", bias=bias)
    if isinstance(sent, DenseRows) and sent is not x:
        passes.store.release(sent.array)
    return out


def _gin(layer: Any, x: Rows, passes: Passes, finish: Finish, width: int) -> DenseRows:
    modules = list(layer.nn) if isinstance(layer.nn, torch.nn.Sequential) else []
    first = modules[0] if modules and isinstance(modules[0], Linear) else None
    commuting = first if x.is_sparse and layer.aggr.is_linear else None
    sent: Rows = x
    if commuting is not None:
        sent = passes.mapped(x, commuting.without_bias, commuting.out_features)
    aggregate = _aggregation(layer.aggr, sent, passes)

    def after(block: Block, source: Tensor) -> Tensor:
        own = as_dense(sent.read(block.first, block.last))
        h = aggregate(block, source) + (1 + layer.eps) * own
        if commuting is None:
            h = layer.nn(h)
        else:
            h = h if commuting.bias is None else h + commuting.bias
            for module in modules[1:]:
                h = module(h)
        return finish(h, x.read(block.first, block.last))

    out = passes.over_neighbours(sent, after, width)
    if commuting is not None and isinstance(sent, DenseRows):
        passes.store.release(sent.array)
    return out


def _gat(layer: Any, x: Rows, passes: Passes, finish: Finish, width: int) -> DenseRows:
    shape = (-1, layer.heads, layer.out_channels)
    sent = passes.mapped(x, layer.lin, layer.heads * layer.out_channels)
    mu = passes.origin(layer.aggr, sent)

    def attend(block: Block, source: Tensor) -> Tensor:
        h, own = source.view(shape), sent.read(block.first, block.last).view(shape)
        (of_source,), (of_target,) = scores(h, layer.att_src), scores(own, layer.att_dst)
        alpha = attended(of_source, of_target, block.graph, layer.negative_slope)
        alpha = reweighted(alpha, block.graph, block.graph.weight)
        out = combine_heads(aggregated(layer.aggr, h, block, mu, alpha), layer.concat)
        out = out if layer.bias is None else out + layer.bias
        return finish(out, x.read(block.first, block.last))

    loops: Loops = "replace" if layer.add_self_loops else "none"
    out = passes.over_neighbours(sent, attend, width, loops=loops, heads=layer.heads)
    passes.store.release(sent.array)
    return out


def _ordered(
    layer: Any,
    sent: Rows,
    x: Rows,
    passes: Passes,
    finish: Finish,
    width: int,
    transform: Callable[[Features], Tensor],
    *,
    bias: Tensor | None = None,
    **graph: Any,
) -> DenseRows:
    r"""Transforms and aggregates in the layer's order; see :func:`meanmax.nn.conv.ordered`."""
    bias = getattr(layer, "bias", None) if bias is None else bias
    first = layer.order == "transform-first" or (sent.is_sparse and layer.aggr.is_linear)
    rows: Rows = sent
    if first:
        rows = passes.mapped(sent, transform, layer.out_channels)
    aggregate = _aggregation(layer.aggr, rows, passes)

    def function(block: Block, source: Tensor) -> Tensor:
        out = aggregate(block, source)
        out = out if first else transform(out)
        out = out if bias is None else out + bias
        return finish(out, x.read(block.first, block.last))

    out = passes.over_neighbours(rows, function, width, **graph)
    if first and isinstance(rows, DenseRows):
        passes.store.release(rows.array)
    return out


def _aggregation(aggr: Neighbourhood, rows: Rows, passes: Passes) -> Aggregate:
    mu = passes.origin(aggr, rows)
    return lambda block, source: aggregated(aggr, source, block, mu)


def aggregated(
    aggr: Neighbourhood,
    source: Tensor,
    block: Block,
    mu: Tensor | None,
    weight: Tensor | None = None,
) -> Tensor:
    r"""A layer's aggregation over a block, with :math:`\mu` of the whole graph."""
    if aggr.learned is not None:
        return aggr.learned.evaluate(source, block.graph, weight, mu)
    out: Tensor = aggr(source, block.graph, weight)
    return out


_RUNS: dict[type[Module], Callable[[Any, Rows, Passes, Finish, int], DenseRows]] = {
    GCNConv: _gcn,
    MaskedGCNConv: _masked,
    GATConv: _gat,
    SAGEConv: _sage,
    GINConv: _gin,
}


MEMORY = 1 << 30


@torch.no_grad()
def layerwise(
    model: Any,
    x: Features | Rows,
    graph: Graph | Edges,
    *,
    memory: int = MEMORY,
    scratch: Path | None = None,
    on_rows: OnRows | None = None,
) -> Tensor:
    r"""The output of every node, :obj:`[num_nodes, out_channels]`, as of the model's own call in
    evaluation, but layer by layer in blocks of rows.

    Nothing is sampled: each block reads the rows of all its neighbours, and :math:`\mu` of an
    aggregator is found over the whole layer first. A row with more edges than the memory has room
    for is still computed at once.

    Args:
        model (NodeModel): The model; any backbone but CAT.
        x (Tensor, SparseFeatures or Rows): Features, in memory or in files.
        graph (Graph or Edges): The graph, in memory or in files.
        memory (int, optional): About how many bytes the arrays of a block may take, beside five to
            nine bytes for each node. (default: 1 GiB)
        scratch (Path, optional): A folder for hidden layers, kept in files there that are deleted
            at the end; in memory if :obj:`None`. (default: :obj:`None`)
        on_rows (callable, optional): Called with the number of rows after each block.
    """
    rows = rows_of(x) if isinstance(x, Tensor | SparseFeatures) else x
    edges = Edges.of(graph) if isinstance(graph, Graph) else graph
    check_model(model, rows, edges)
    if scratch is None:
        kept = run_layers(model, rows, edges, MemoryStore(), memory, on_rows)
        return torch.from_numpy(kept.array)
    with scratch_files(scratch, scratch_bytes(model, rows)) as store:
        return run_layers(model, rows, edges, store, memory, on_rows).read(0, edges.num_nodes)


@torch.no_grad()
def run_layers(
    model: NodeModel,
    rows: Rows,
    edges: Edges,
    store: Store,
    memory: int = MEMORY,
    on_rows: OnRows | None = None,
) -> DenseRows:
    r"""The same with results in a store, which keeps the last layer's.

    Args:
        model (NodeModel): The model.
        rows (Rows): Features.
        edges (Edges): The graph.
        store (Store): Where hidden layers are kept.
        memory (int, optional): As of :func:`layerwise`.
        on_rows (callable, optional): As of :func:`layerwise`.
    """
    was_training, passes = model.training, Passes(BlockGraphs(edges), store, memory, on_rows)
    model.eval()
    try:
        h: Rows = rows
        for index, layer in enumerate(model.layers):
            out = run_layer(layer, h, passes, _finish(model, index), width_of(layer))
            if isinstance(h, DenseRows) and h is not rows:
                store.release(h.array)
            h = out
    finally:
        model.train(was_training)
    assert isinstance(h, DenseRows)
    return h


def width_of(layer: Module) -> int:
    r"""The channels of a layer's output."""
    if isinstance(layer, GATConv):
        return layer.out_channels * (layer.heads if layer.concat else 1)
    if isinstance(layer, GINConv):
        *_, last = (part for part in layer.nn.modules() if isinstance(part, torch.nn.Linear))
        return last.out_features
    width: int = layer.out_channels  # type: ignore[assignment]
    return width


def scratch_bytes(model: NodeModel, rows: Rows) -> int:
    r"""The most bytes that hidden layers take at a time: a layer's input, what it sends and its
    output.
    """
    size, before = rows.shape
    widest = 0
    for index, layer in enumerate(model.layers):
        sent, out = max(before, width_of(layer)), width_of(layer)
        if isinstance(layer, GATConv):
            sent = layer.heads * layer.out_channels
        # Masked GCN keeps the masked input too.
        widest = max(widest, 2 * sent + out + (before if index else 0))
        before = out
    return 4 * size * widest


def check_model(model: Any, rows: Rows, edges: Edges) -> None:
    r"""A :class:`BatchingError` for what layer-wise inference does not do."""
    if not isinstance(model, NodeModel):
        raise BatchingError(
            f"layer-wise inference is for models of meanmax's own layers "
            f"(got {type(model).__name__}): run the model on the whole graph"
        )
    if any(isinstance(layer, CATConv) for layer in model.layers):
        raise BatchingError("CAT embeds the whole graph at once: run the model on the whole graph")
    if rows.shape[0] != edges.num_nodes:
        raise BatchingError(
            f"'x' has {rows.shape[0]} rows, but the graph has {edges.num_nodes} nodes"
        )


def _finish(model: NodeModel, index: int) -> Any:
    r"""What the model does after a layer: skip, norm and activation."""

    def finish(out: Tensor, own: Features) -> Tensor:
        if model.has_skip[index]:
            out = out + model.skips[index](own)
        if index < len(model.layers) - 1:
            out = ACTIVATIONS[model.activation](model.norms[index](out))
        return as_dense(out)

    return finish


class ExactSample(Sample):
    r"""Nodes to validate on, in a graph that is read from disk; see
    :func:`~meanmax.scale.inference.layerwise`. Nothing can be learned from them.

    Args:
        rows (Rows): Features of all nodes.
        edges (Edges): The graph.
        nodes (LabeledNodes): The nodes that count.
        memory (int, optional): Bytes that the arrays of a block may take. (default: 1 GiB)
        scratch (Path, optional): A folder for hidden layers. (default: that of temporary files)
    """

    def __init__(
        self,
        rows: Rows,
        edges: Edges,
        nodes: LabeledNodes,
        *,
        memory: int = MEMORY,
        scratch: Path | None = None,
    ) -> None:
        nothing = Graph.from_edge_index([[], []], 0)
        kept = LabeledNodes(torch.arange(len(nodes.index)), nodes.target)
        super().__init__(torch.empty(0, rows.shape[1]), nothing, kept)
        more = {"rows": rows, "edges": edges, "chosen": nodes.index, "memory": memory}
        for name, value in {**more, "scratch": scratch}.items():
            object.__setattr__(self, name, value)

    rows: Rows
    edges: Edges
    chosen: Tensor
    memory: int
    scratch: Path | None

    def output(self, model: Any) -> Tensor:
        r"""The model's output for these nodes alone."""
        if torch.is_grad_enabled():
            raise BatchingError(
                "validation nodes of a graph on disk have no gradient: aggregator_loss='val' needs "
                "the graph in memory"
            )
        return exact_rows(
            model, self.rows, self.edges, self.chosen, memory=self.memory, scratch=self.scratch
        )


@torch.no_grad()
def exact_rows(
    model: Any,
    rows: Rows,
    edges: Edges,
    chosen: Tensor,
    *,
    memory: int = MEMORY,
    scratch: Path | None = None,
) -> Tensor:
    r"""The outputs of some nodes, computed layer by layer over the whole graph.

    Args:
        model (NodeModel): The model.
        rows (Rows): Features of all nodes.
        edges (Edges): The graph.
        chosen (Tensor): The nodes, int64.
        memory (int, optional): Bytes that the arrays of a block may take. (default: 1 GiB)
        scratch (Path, optional): A folder for hidden layers. (default: that of temporary files)
    """
    check_model(model, rows, edges)
    with scratch_files(scratch, scratch_bytes(model, rows)) as store:
        return run_layers(model, rows, edges, store, memory).gather(chosen.numpy())


@torch.no_grad()
def predict_folder(
    classifier: NodeClassifier,
    folder: GraphFolder,
    *,
    memory: int = MEMORY,
    scratch: Path | None = None,
    on_rows: OnRows | None = None,
) -> np.ndarray:
    r"""The probability of every class, or of every label, :obj:`[num_nodes, num_classes]`, exact
    and with bounded memory beside the result.

    Args:
        classifier (NodeClassifier): A trained classifier.
        folder (GraphFolder): The graph.
        memory (int, optional): Bytes that the arrays of a block may take. (default: 1 GiB)
        scratch (Path, optional): A folder for hidden layers. (default: the graph folder's parent)
        on_rows (callable, optional): Called with the number of rows after each block.
    """
    found = folder.manifest.num_features
    if found != classifier.n_features_in_:
        raise BatchingError(
            f"{folder.path} has {found} features, but the classifier was trained on "
            f"{classifier.n_features_in_}"
        )
    rows: Rows = folder.x
    if classifier.fitted_params_["scale"]:
        rows = ScaledRows(rows, classifier.scaling_)
    place = folder.path.parent if scratch is None else scratch
    out = layerwise(
        classifier.model_, rows, folder.edges, memory=memory, scratch=place, on_rows=on_rows
    )
    chance: np.ndarray = (out.sigmoid() if classifier.multilabel_ else out.softmax(dim=1)).numpy()
    return chance


def without_graph(folder: GraphFolder) -> Dataset:
    r"""The labels and identifiers of a folder as a data set, without its features and edges.

    Args:
        folder (GraphFolder): The graph.
    """
    ids = folder.arrays.get("ids", folder.arrays.get("node"))
    return Dataset(
        folder.manifest.name,
        torch.empty(folder.num_nodes, 0),
        torch.from_numpy(np.array(folder.y)),
        torch.empty(2, 0, dtype=torch.int64),
        class_names=folder.manifest.class_names,
        node_ids=None if ids is None else np.array(ids),
    )
