r"""The bench of :func:`meanmax.accelerate`: training epochs of PyG's models as they are, on PyG's
other forms of a graph, and accelerated.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
import torch_geometric.nn as pyg
from torch.nn import Module
from torch.nn.functional import relu
from torch_geometric import EdgeIndex

from meanmax.nn import accelerate
from meanmax.study.bench import BenchSettings, measure
from meanmax.study.bench.layers import (
    COMPUTERS,
    DROPOUT,
    HEADS,
    HIDDEN,
    PUBMED,
    SHRINK,
    Epoch,
    EpochData,
    PygModel,
    Shape,
    epoch_of,
)
from meanmax.study.bench.measure import Progress, Timing, quotient, time_in_turns
from meanmax.study.runs.machine import machine_facts, num_threads

CORA = Shape("cora-shaped", 2_708, 10_556, 1_433, 0.0127, 7)
SHAPES: Final = (CORA, PUBMED, COMPUTERS)
PLAIN, ACCELERATED = "edge_index", "accelerated"


def _basic(kind: type[Module], **options: Any) -> Callable[[int, int], Module]:
    return lambda features, classes: kind(
        features, HIDDEN, num_layers=2, out_channels=classes, dropout=DROPOUT, **options
    )


def _gen(features: int, classes: int) -> Module:
    return PygModel(
        pyg.GENConv(features, HIDDEN, learn_t=True), pyg.GENConv(HIDDEN, classes, learn_t=True),
        relu, dropout_first=False,
    )  # fmt: skip


MODELS: Final[dict[str, tuple[str, Callable[[int, int], Module]]]] = {
    "gcn": ("GCN", _basic(pyg.GCN)),
    "gcn-cached": ("GCN, cached=True", _basic(pyg.GCN, cached=True)),
    "gat": ("GAT, 8 heads", _basic(pyg.GAT, heads=HEADS)),
    "sage": ("GraphSAGE", _basic(pyg.GraphSAGE)),
    "gin": ("GIN", _basic(pyg.GIN)),
    "gen-softmax": ("GENConv softmax, learned", _gen),
}
r"""PyG's own models by name, and what tables call them."""

ROUTES: Final[dict[str, Callable[[EpochData], Any]]] = {
    PLAIN: lambda data: data.edge_index,
    "csr": lambda data: _csr(data),
    "EdgeIndex": lambda data: _sorted(data),
    ACCELERATED: lambda data: data.edge_index,
}
r"""The forms of a graph that models are called with."""

METHOD = {
    "epoch": "forward, backward and Adam step of PyG's models of two layers, hidden 64 (GAT: 8 "
    "heads of 8), dropout 0.5 between them, all nodes in the loss, dense input",
    "ratio": "the median time of PyG with edge_index as a multiple of this median, in one run",
    "routes": "edge_index: PyG as it is; csr: PyG on torch's CSR matrix; EdgeIndex: PyG on its own "
    "class, sorted by target; accelerated: meanmax.accelerate(model), called with edge_index",
}


def run_accelerate(
    settings: BenchSettings, progress: Progress = lambda _, __: lambda: None
) -> dict[str, Any]:
    r"""Measures epochs on every shape; :obj:`quick` shrinks all graphs.

    :obj:`progress`: see :func:`meanmax.study.bench.aggregators.run_bench`.
    """
    settings = settings.resolved()
    result = measure.new_result(settings, METHOD)
    with num_threads(settings.threads):
        result["shapes"] = [_measure(shape, settings, progress) for shape in SHAPES]
    result["machine"] = machine_facts()
    return result


def _measure(shape: Shape, settings: BenchSettings, progress: Progress) -> dict[str, Any]:
    data = EpochData(shape.shrunk(SHRINK) if settings.quick else shape, settings.seed)
    rows = []
    for name, (label, _) in MODELS.items():
        timings = time_in_turns(
            {route: _epoch(name, route, data) for route in ROUTES},
            repeats=settings.repeats,
            budget=settings.budget,
            seed=settings.seed,
            on_step=progress(f"{shape.name}: {label}", len(ROUTES) * (settings.repeats + 1)),
        )
        rows += [_row(name, label, route, timings) for route in ROUTES]
    return {
        "name": shape.name,
        "num_nodes": data.shape.nodes,
        "num_edges": data.edge_index.size(1),
        "features": data.shape.features,
        "filled": float((data.x != 0).float().mean()),
        "results": rows,
    }


def _epoch(name: str, route: str, data: EpochData) -> Epoch:
    torch.manual_seed(0)
    model: Module = MODELS[name][1](data.shape.features, data.shape.classes)
    if route == ACCELERATED:
        model = accelerate(model)
    given = ROUTES[route](data)
    return epoch_of(model, lambda: model(data.x, given), data)


def _row(name: str, label: str, route: str, timings: Mapping[str, Timing]) -> dict[str, Any]:
    timing = timings[route]
    return {
        "model": name,
        "label": label,
        "route": route,
        "n": len(timing.seconds),
        "median_ms": timing.median_ms,
        "ratio": quotient(timings[PLAIN].median_ms, timing.median_ms),
        "times_ms": [1000 * seconds for seconds in timing.seconds],
        "error": timing.error,
    }


def _csr(data: EpochData) -> Any:
    size = (data.shape.nodes, data.shape.nodes)
    ones = torch.ones(data.edge_index.size(1))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*(invariant|beta)", UserWarning)
        return torch.sparse_coo_tensor(data.edge_index.flip(0), ones, size).to_sparse_csr()


def _sorted(data: EpochData) -> Any:
    size = (data.shape.nodes, data.shape.nodes)
    return EdgeIndex(data.edge_index, sparse_size=size).sort_by("col").values
