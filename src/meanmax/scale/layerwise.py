r"""Exact inference layer by layer: every node's output, with bounded memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import Linear, Module

from meanmax.scale.edges_blocks import BlockGraphs
from meanmax.scale.edges import Edges
from meanmax.scale.edges_errors import BatchingError
from meanmax.scale.inference import run_layer
from meanmax.scale.passes import (OnRows, Passes)
from meanmax.scale.rows import (DenseRows, Rows, rows_of)
from meanmax.scale.scratch import (MemoryStore, Store, scratch_files)
from meanmax.graph import (Graph, SparseFeatures)
from meanmax.nn import (CATConv, GATConv, GINConv)
from meanmax.nn.linear import (Features, as_dense)
from meanmax.nn.models_init import NodeModel
from meanmax.nn.model import ACTIVATIONS

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
        *_, last = (part for part in layer.nn.modules() if isinstance(part, Linear))
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
