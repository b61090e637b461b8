r"""Exact inference on graphs of any size: layer by layer, in passes over blocks of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from meanmax.data import Dataset
from meanmax.graph import Graph, SparseFeatures
from meanmax.nn import CATConv, DenseLayer, GATConv, GINConv, MaskedGCNConv, NodeModel
from meanmax.nn.conv import Conv
from meanmax.nn.linear import Features, as_dense
from meanmax.nn.model import evaluation_mode
from meanmax.scale.edges import BatchingError, Block, CsrEdges, RowBlocks
from meanmax.scale.features import (
    DenseRows,
    FeatureRows,
    MappedRows,
    RowSummary,
    ScratchSpace,
    row_ranges,
    rows_of,
    scratch_files,
)
from meanmax.scale.folder import GraphFolder
from meanmax.train import LabeledNodes, NodeClassifier, Sample

OnRows = Callable[[int], None]
RowFunction = Callable[[Block, Features], Tensor]


@dataclass(frozen=True, eq=False)
class Passes:
    r"""Passes over all nodes, with results in scratch space."""

    blocks: RowBlocks  # makes the views of blocks
    scratch: ScratchSpace  # holds results
    memory: int  # about how many bytes the arrays of one block may take
    on_rows: OnRows | None = None  # called with the number of rows after each block

    def layer(self, model: NodeModel, index: int, x: FeatureRows, before: FeatureRows) -> DenseRows:
        r"""The output of a layer for all nodes, and of norm and activation if :func:`activates`.
        Its skip is of :obj:`before`, which is :obj:`x` unless :obj:`pre_activation`.

        What nodes send is computed once for each node, in a separate pass. The layer's
        :meth:`~meanmax.nn.conv.Conv.receive` then runs on blocks of rows.
        """
        layer, masked = model.layers[index], x
        if isinstance(layer, DenseLayer):
            return self._by_node(model, index, x, before)
        assert isinstance(layer, Conv)
        if isinstance(layer, MaskedGCNConv):
            masked = self._over_neighbours(layer, x, partial(_mask, layer, x), x.shape[1])
        sent = self._send(layer, masked)

        def receive(block: Block, source: Features) -> Tensor:
            rows = (block.first, block.last)
            taken = masked.read(*rows)
            own = sent.read(*rows) if layer.needs_own else None
            out = layer.receive(source, own, taken, layer.prepare(block))  # type: ignore[arg-type]
            return _finish(model, index, out, taken if before is masked else before.read(*rows))

        out = self._over_neighbours(layer, sent, receive, width_of(layer))
        for rows in {id(rows): rows for rows in (masked, sent) if rows is not x}.values():
            self.release(rows)
        return out

    def release(self, rows: FeatureRows) -> None:
        r"""Frees rows that a pass has made."""
        if isinstance(rows, DenseRows):
            self.scratch.release(rows.array)

    def _by_node(
        self, model: NodeModel, index: int, x: FeatureRows, before: FeatureRows
    ) -> DenseRows:
        r"""The output of a layer that ignores the edges."""
        layer = model.layers[index]
        assert isinstance(layer, DenseLayer)
        (size, channels), width = x.shape, layer.out_channels
        out = self.scratch.array(size, width)
        for first, last in row_ranges(size, 24 * (channels + width), self.memory):
            rows = x.read(first, last)
            skipped = rows if before is x else before.read(first, last)
            out[first:last] = _finish(model, index, layer.lin(rows), skipped).numpy()
            if self.on_rows is not None:
                self.on_rows(last - first)
        return DenseRows(out)

    def _send(self, layer: Conv, rows: FeatureRows) -> FeatureRows:
        r"""What all nodes send; the rows themselves if the layer sends them as they are."""
        size, channels = rows.shape
        probe = rows.read(0, min(1, size))
        sent = layer.send(probe)
        if sent is probe:
            return rows
        width = sent.shape[1]
        out = self.scratch.array(size, width)
        for first, last in row_ranges(size, 16 * (channels + width), self.memory):
            out[first:last] = as_dense(layer.send(rows.read(first, last))).numpy()
        return DenseRows(out)

    def _over_neighbours(
        self, layer: Conv, rows: FeatureRows, function: RowFunction, width: int
    ) -> DenseRows:
        r"""A function of each block and the rows of its sources."""
        size, channels = rows.shape
        out = self.scratch.array(size, width)
        summary = RowSummary(rows, self.memory)
        # An edge may be the only one of its source: a row read, two of tilts, and its indices.
        edge_bytes = 48 + 16 * getattr(layer, "heads", 1) + 16 * channels
        row_bytes = 24 * (channels + width)
        for first, last in self.blocks.edges.blocks(edge_bytes, row_bytes, self.memory):
            block = Block(self.blocks, first, last, summary)
            prepared: Any = layer.prepare(block)  # type: ignore[arg-type]
            out[first:last] = function(block, rows.gather(prepared.source_nodes)).numpy()
            if self.on_rows is not None:
                self.on_rows(last - first)
        return DenseRows(out)


def activates(model: NodeModel, index: int) -> bool:
    r"""Whether norm and activation are applied to the output of a layer before it is kept. With
    :obj:`pre_activation`, the next skip needs it without.
    """
    return not model.pre_activation or index == len(model.layers) - 1


def _finish(model: NodeModel, index: int, out: Tensor, before: Features) -> Tensor:
    out = model.add_skip(index, out, before)
    return model.activate(index, out) if activates(model, index) else out


def _mask(layer: MaskedGCNConv, x: FeatureRows, block: Block, source: Features) -> Tensor:
    own = as_dense(x.read(block.first, block.last))
    return as_dense(layer.mask(as_dense(source), own, block))  # type: ignore[arg-type]


MEMORY = 1 << 30


@torch.no_grad()
def layerwise(
    model: Any,
    x: Features | FeatureRows,
    graph: Graph | CsrEdges,
    *,
    memory: int = MEMORY,
    scratch: Path | None = None,
    on_rows: OnRows | None = None,
) -> Tensor:
    r"""The output of every node, :obj:`[num_nodes, out_channels]`, equal to that of the model in
    evaluation mode, but computed layer by layer in blocks of rows.

    Nothing is sampled: each block reads the rows of all its neighbours, and :math:`\mu` of an
    aggregator is found over the whole layer first. A row with more edges than the memory has room
    for is still computed at once.

    Args:
        model (NodeModel): The model; any backbone but CAT.
        x (Tensor, SparseFeatures or FeatureRows): Features, in memory or in files.
        graph (Graph or CsrEdges): The graph, in memory or in files.
        memory (int, optional): About how many bytes the arrays of a block may take, besides five
        to     nine bytes for each node. (default: 1 GiB)
        scratch (Path, optional): A folder for hidden layers, kept in files there that are deleted
            at the end; in memory if :obj:`None`. (default: :obj:`None`)
        on_rows (callable, optional): Called with the number of rows after each block.

    Example:
        >>> from meanmax import build_model
        >>> from meanmax.data import load
        >>> karate = load("karate")
        >>> model = build_model("gcn", "softmax", karate.num_features, 16, out_channels=4).eval()
        >>> out = layerwise(model, karate.x, karate.graph(), memory=1 << 20)
        >>> bool(torch.allclose(out, model(karate.x, karate.graph()), atol=1e-5))
        True
    """
    rows = rows_of(x) if isinstance(x, Tensor | SparseFeatures) else x
    edges = CsrEdges.of(graph) if isinstance(graph, Graph) else graph
    check_model(model, rows, edges)
    if scratch is None:
        kept = run_layers(model, rows, edges, ScratchSpace(), memory, on_rows)
        return torch.from_numpy(kept.array)
    with scratch_files(scratch, scratch_bytes(model, rows)) as space:
        return run_layers(model, rows, edges, space, memory, on_rows).read(0, edges.num_nodes)


@torch.no_grad()
def run_layers(
    model: NodeModel,
    rows: FeatureRows,
    edges: CsrEdges,
    scratch: ScratchSpace,
    memory: int = MEMORY,
    on_rows: OnRows | None = None,
) -> DenseRows:
    r"""The same with results in scratch space, which then holds the last layer's."""
    passes = Passes(RowBlocks(edges), scratch, memory, on_rows)
    h: FeatureRows = rows
    before: FeatureRows = rows
    with evaluation_mode(model):
        for index in range(len(model.layers)):
            out = passes.layer(model, index, h, before)
            if before is not rows:
                passes.release(before)
            h = before = out
            if not activates(model, index):
                h = MappedRows(out, partial(model.activate, index))
    assert isinstance(before, DenseRows)
    return before


def width_of(layer: Module) -> int:
    r"""The channels of a layer's output."""
    if isinstance(layer, GATConv):
        return layer.out_channels * (layer.heads if layer.concat else 1)
    if isinstance(layer, GINConv):
        *_, last = (part for part in layer.nn.modules() if isinstance(part, torch.nn.Linear))
        return last.out_features
    width: int = layer.out_channels  # type: ignore[assignment]
    return width


def scratch_bytes(model: NodeModel, rows: FeatureRows) -> int:
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


def check_model(model: Any, rows: FeatureRows, edges: CsrEdges) -> None:
    r"""Raises a :class:`BatchingError` for what layer-wise inference does not support."""
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


class ExactSample(Sample):
    r"""Nodes to validate on, in a graph that is read from disk; see
    :func:`~meanmax.scale.inference.layerwise` for the options. Nothing can be learned from them.
    """

    def __init__(
        self,
        rows: FeatureRows,
        edges: CsrEdges,
        nodes: LabeledNodes,
        *,
        memory: int = MEMORY,
        scratch: Path | None = None,
    ) -> None:
        nothing = Graph.from_edge_index([[], []], 0)
        kept = replace(nodes, index=torch.arange(len(nodes.index)))
        super().__init__(torch.empty(0, rows.shape[1]), nothing, kept)
        given = {"rows": rows, "edges": edges, "memory": memory, "scratch": scratch}
        object.__setattr__(self, "_given", {**given, "chosen": nodes.index})

    _given: dict[str, Any]

    def output(self, model: Any) -> Tensor:
        r"""The model's output for these nodes alone."""
        if torch.is_grad_enabled():
            raise BatchingError(
                "validation nodes of a graph on disk have no gradient: aggregator_loss='val' needs "
                "the graph in memory"
            )
        return exact_rows(model, **self._given)


@torch.no_grad()
def exact_rows(
    model: Any,
    rows: FeatureRows,
    edges: CsrEdges,
    chosen: Tensor,
    *,
    memory: int = MEMORY,
    scratch: Path | None = None,
) -> Tensor:
    r"""The outputs of the chosen nodes, computed by :func:`layerwise` over the whole graph."""
    check_model(model, rows, edges)
    with scratch_files(scratch, scratch_bytes(model, rows)) as space:
        return run_layers(model, rows, edges, space, memory).gather(chosen.numpy())


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
    and with bounded memory apart from the result. Options are those of :func:`layerwise`, but
    :obj:`scratch` is by default the graph folder's parent.
    """
    found = folder.manifest.num_features
    if found != classifier.n_features_in_:
        raise BatchingError(
            f"{folder.path} has {found} features, but the classifier was trained on "
            f"{classifier.n_features_in_}"
        )
    rows: FeatureRows = folder.x
    if classifier.fitted_params_["scale"]:
        rows = MappedRows(rows, classifier.scaling_)
    place = folder.path.parent if scratch is None else scratch
    out = layerwise(
        classifier.model_, rows, folder.edges, memory=memory, scratch=place, on_rows=on_rows
    )
    chance: np.ndarray = (out.sigmoid() if classifier.multilabel_ else out.softmax(dim=1)).numpy()
    return chance


def without_graph(folder: GraphFolder) -> Dataset:
    r"""The labels and identifiers of a folder as a data set, without its features and edges."""
    ids = folder.arrays.get("ids", folder.arrays.get("node"))
    return Dataset(
        folder.manifest.name,
        torch.empty(folder.num_nodes, 0),
        torch.from_numpy(np.array(folder.y)),
        torch.empty(2, 0, dtype=torch.int64),
        class_names=folder.manifest.class_names,
        node_ids=None if ids is None else np.array(ids),
    )
