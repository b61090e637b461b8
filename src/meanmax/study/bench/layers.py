r"""The bench of layers: training epochs of our models and of PyG's, and the memory of layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import cross_entropy, relu

from meanmax.graph import Graph, SparseFeatures
from meanmax.names import AGGREGATORS
from meanmax.nn import GATConv, GCNConv, NodeModel, build_model
from meanmax.study.bench import BenchSettings, measure
from meanmax.study.bench.graphs import power_law_graph
from meanmax.study.bench.measure import Progress, Timing, quotient, run_child, time_in_turns
from meanmax.study.runs.machine import machine_facts, num_threads


@dataclass(frozen=True)
class Shape:
    r"""The sizes of a data set."""

    name: str  # the data set it resembles
    nodes: int
    edges: int  # Edges, both directions counted, without self-loops
    features: int  # feature channels
    filled: float  # the share of features that are not 0
    classes: int

    def shrunk(self, factor: int) -> Shape:
        r"""A smaller shape, to try the bench."""
        nodes = max(self.nodes // factor, 50)
        return Shape(
            self.name,
            nodes,
            min(max(self.edges // factor, 200), 10 * nodes),
            max(self.features // factor, 8),
            max(self.filled, 0.1),
            self.classes,
        )


PUBMED = Shape("pubmed-shaped", 19_717, 88_648, 500, 0.1, 3)
COMPUTERS = Shape("computers-shaped", 13_381, 491_556, 767, 0.35, 10)
PPI = Shape("ppi-shaped", 3_000, 70_000, 50, 1.0, 121)
CITESEER = Shape("citeseer-shaped", 3_327, 9_104, 3_703, 0.009, 6)
LARGE = Shape("large", 170_000, 2_300_000, 64, 1.0, 40)


class EpochData:
    r"""A graph, features and classes to train on."""

    def __init__(self, shape: Shape, seed: int) -> None:
        edges = power_law_graph(shape.nodes, shape.edges + shape.nodes, seed).edge_index
        self.shape = shape
        self.edge_index: Tensor = edges[:, edges[0] != edges[1]].contiguous()
        self.graph = Graph.from_edge_index(self.edge_index, shape.nodes)
        generator = torch.Generator().manual_seed(seed)
        size = (shape.nodes, shape.features)
        self.x = torch.randn(size, generator=generator)
        if shape.filled < 1:
            self.x = self.x.abs() * (torch.rand(size, generator=generator) < shape.filled)
        self.y = torch.randint(shape.classes, (shape.nodes,), generator=generator)


HIDDEN, HEADS, DROPOUT = 64, 8, 0.5
AGGREGATIONS = ("none", *(aggr for aggr in AGGREGATORS if aggr != "spread"))  # a softmax
GEN_SOFTMAX, GEN_POWER = "pyg-gen-softmax", "pyg-gen-powermean"
PYG_GAT, PYG_GCN = "pyg-gat", "pyg-gcn"
Epoch = Callable[[], object]


@dataclass(frozen=True)
class Trainee:
    r"""A model to train for an epoch."""

    name: str  # the key in the results
    label: str  # what tables call it
    baseline: str | None  # the same model with the linear aggregation, or on dense input
    prepare: Callable[[EpochData], Epoch]  # makes the epoch from a data


def epoch_of(model: Module, run: Callable[[], Any], data: EpochData) -> Epoch:
    r"""A training epoch of a model: forward, backward and Adam step."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)

    def epoch() -> None:
        optimizer.zero_grad()
        loss = cross_entropy(run(), data.y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return epoch


def _ours(backbone: str, aggr: str, nonlinear: str, sparse: bool, data: EpochData) -> Epoch:
    torch.manual_seed(0)
    shape = data.shape
    sizes = (shape.features, HIDDEN, shape.classes)
    options: Any = {"dropout": DROPOUT, "nonlinear": nonlinear}
    model: NodeModel = build_model(backbone, aggr, *sizes, **options)
    x = SparseFeatures.from_dense(data.x) if sparse else data.x
    return epoch_of(model, lambda: model(x, data.graph), data)


class PygModel(Module):
    r"""Two layers of PyG with dropout before each, as a user would write it."""

    def __init__(
        self,
        first: Module,
        second: Module,
        activation: Callable[..., Any],
        *,
        dropout_first: bool = True,
    ) -> None:
        super().__init__()
        self.first, self.second, self.activation = first, second, activation
        self.dropout_first = dropout_first

    def forward(self, x: Any, edge_index: Any) -> Any:
        r"""Runs both layers."""
        if self.dropout_first:
            x = torch.nn.functional.dropout(x, DROPOUT, self.training)
        x = self.activation(self.first(x, edge_index))
        x = torch.nn.functional.dropout(x, DROPOUT, self.training)
        return self.second(x, edge_index)


def _pyg(make: Callable[[int, int], PygModel], data: EpochData) -> Epoch:
    torch.manual_seed(0)
    model = make(data.shape.features, data.shape.classes)
    return epoch_of(model, lambda: model(data.x, data.edge_index), data)


def _gen(aggr: str, learn: str, features: int, classes: int) -> PygModel:
    layer = partial(pyg.GENConv, aggr=aggr, num_layers=1, norm=None, **{learn: True})
    return PygModel(layer(features, HIDDEN), layer(HIDDEN, classes), relu)


def _gcn(features: int, classes: int) -> PygModel:
    layer = partial(pyg.GCNConv, cached=True)  # normalised once, as ours
    return PygModel(layer(features, HIDDEN), layer(HIDDEN, classes), relu)


def _gat(features: int, classes: int) -> PygModel:
    first = pyg.GATConv(features, HIDDEN // HEADS, HEADS, dropout=DROPOUT)
    second = pyg.GATConv(HIDDEN, classes, 1, dropout=DROPOUT)
    return PygModel(first, second, torch.nn.functional.elu)


def _named(backbone: str, aggr: str, nonlinear: str) -> Trainee:
    name, label = f"{backbone}-{aggr}", f"{backbone} {aggr}"
    if aggr != "none":
        name += f"-{nonlinear}"
        label += f", {nonlinear} layer{'s' if nonlinear == 'all' else ''}"
    prepare = partial(_ours, backbone, aggr, nonlinear, False)
    return Trainee(name, label, f"{backbone}-none", prepare)


def _trainees() -> list[Trainee]:
    found = []
    for backbone in ("gcn", "gat"):
        found.append(_named(backbone, "none", "first"))
        for aggr in AGGREGATORS:
            found += [_named(backbone, aggr, nonlinear) for nonlinear in ("first", "all")]
    softmax, power = partial(_gen, "softmax", "learn_t"), partial(_gen, "powermean", "learn_p")
    return [
        *found,
        Trainee(PYG_GCN, "PyG GCNConv", None, partial(_pyg, _gcn)),
        Trainee(GEN_SOFTMAX, "PyG GENConv softmax, learned", None, partial(_pyg, softmax)),
        Trainee(GEN_POWER, "PyG GENConv power mean, learned", None, partial(_pyg, power)),
        Trainee(PYG_GAT, "PyG GATConv", None, partial(_pyg, _gat)),
    ]


TRAINEES: Final[dict[str, Trainee]] = {trainee.name: trainee for trainee in _trainees()}
r"""The models that train on every shape but the sparse one, in the order of the tables."""

SPARSE: Final[dict[str, Trainee]] = {PYG_GCN: TRAINEES[PYG_GCN]} | {
    f"gcn-{aggr}-{kind}": Trainee(
        f"gcn-{aggr}-{kind}",
        f"gcn {aggr}, {kind} input",
        f"gcn-{aggr}-dense",
        partial(_ours, "gcn", aggr, "first", kind == "sparse"),
    )
    for aggr in AGGREGATIONS
    for kind in ("dense", "sparse")
}
r"""Sparse and dense input side by side, and PyG's GCN on dense input."""

PYG_BASELINES: Final = {
    "faster_than_gen_softmax": GEN_SOFTMAX,
    "faster_than_gen_powermean": GEN_POWER,
    "faster_than_pyg_gat": PYG_GAT,
    "faster_than_pyg_gcn": PYG_GCN,
}
SHAPES: Final = ((PUBMED, TRAINEES), (COMPUTERS, TRAINEES), (PPI, TRAINEES), (CITESEER, SPARSE))
MEMORY_CASES: dict[str, tuple[Shape, Callable[[str | None], Module]]] = {
    "gat 4×256": (PPI, lambda aggr: GATConv(50, 256, 4, aggr=aggr)),
    "gcn 64": (LARGE, lambda aggr: GCNConv(64, 64, aggr=aggr)),
}
SHRINK = 40
METHOD = {
    "epoch": "forward, backward and Adam step of two layers, hidden 64 (GAT: 8 heads of 8), "
    "dropout 0.5, all nodes in the loss, dense input unless stated",
    "own_linear": "the time as a multiple of that of the same model without aggregator",
}


def run_layers(
    settings: BenchSettings, progress: Progress = lambda _, __: lambda: None
) -> dict[str, Any]:
    r"""Measures epochs on every shape, and the memory of layers; :obj:`quick` shrinks all graphs.

    :obj:`progress`: see :func:`meanmax.study.bench.aggregators.run_bench`.
    """
    settings = settings.resolved()
    result = measure.new_result(settings, METHOD)
    with num_threads(settings.threads):
        result["shapes"] = [
            _measure(shape, trainees, settings, progress) for shape, trainees in SHAPES
        ]
    result["memory"], result["memory_error"] = None, None
    if settings.measure_memory:
        wanted = (settings.threads, settings.seed, SHRINK if settings.quick else 1)
        result["memory"], result["memory_error"] = measure.try_child(
            progress, "layers: memory", lambda: layer_memory(*wanted)
        )
    result["machine"] = machine_facts()
    return result


def _measure(
    shape: Shape, trainees: Mapping[str, Trainee], settings: BenchSettings, progress: Progress
) -> dict[str, Any]:
    data = EpochData(shape.shrunk(SHRINK) if settings.quick else shape, settings.seed)
    timings = time_in_turns(
        {name: trainee.prepare(data) for name, trainee in trainees.items()},
        repeats=settings.repeats,
        budget=settings.budget,
        seed=settings.seed,
        on_step=progress(f"{shape.name}: epochs", len(trainees) * (settings.repeats + 1)),
    )
    return {
        "name": shape.name,
        "num_nodes": data.shape.nodes,
        "num_edges": data.graph.num_edges,
        "features": data.shape.features,
        "filled": float((data.x != 0).float().mean()),
        "results": [_row(trainees[name], timing, timings) for name, timing in timings.items()],
    }


def _row(trainee: Trainee, timing: Timing, timings: Mapping[str, Timing]) -> dict[str, Any]:
    own = timings[trainee.baseline].median_ms if trainee.baseline else None
    row: dict[str, Any] = {
        "trainee": trainee.name,
        "label": trainee.label,
        "n": len(timing.seconds),
        "median_ms": timing.median_ms,
        "ratio_to_own": quotient(timing.median_ms, own),
        "times_ms": [1000 * seconds for seconds in timing.seconds],
        "error": timing.error,
    }
    for key, name in PYG_BASELINES.items():
        theirs = timings[name].median_ms if name in timings else None
        row[key] = quotient(theirs, timing.median_ms)
    return row


def layer_memory(threads: int, seed: int, shrink: int) -> list[dict[str, Any]] | None:
    r"""Peak bytes of a forward and backward pass of every layer and aggregator, and those of the
    layer's own aggregation; :obj:`None` where the system cannot measure them. Graphs are smaller
    than their real sizes by the factor :obj:`shrink`.
    """
    request = {"threads": threads, "seed": seed, "shrink": shrink}
    measured: list[dict[str, Any]] | None
    measured = run_child(f"{__name__}:measure_layers", request, measure.SEPARATE_ARRAYS)
    return measured


def measure_layers(threads: int, seed: int, shrink: int) -> list[dict[str, Any]] | None:
    r"""Measures in this process; see :func:`layer_memory`."""
    if not measure.can_reset_peak():
        return None
    torch.set_num_threads(threads)
    rows = []
    for name, (shape, make) in MEMORY_CASES.items():
        if shrink > 1:
            shape = replace(shape.shrunk(shrink), features=shape.features)
        data = EpochData(shape, seed)
        peaks = {aggr: _peak(make, aggr, data) for aggr in AGGREGATIONS}
        rows += [
            {
                "layer": name,
                "aggr": aggr,
                "num_nodes": shape.nodes,
                "num_edges": data.graph.num_edges,
                "peak_mb": None if peak is None else peak / 1e6,
                "ratio_to_linear": quotient(peak or None, peaks["none"] or None),
            }
            for aggr, peak in peaks.items()
        ]
    return rows


def _peak(make: Callable[[str | None], Module], aggr: str, data: EpochData) -> int | None:
    torch.manual_seed(0)
    layer = make(None if aggr == "none" else aggr)
    x = data.x.clone().requires_grad_()
    leaves = [x, *layer.parameters()]
    return measure.peak_of(
        lambda: torch.autograd.grad(layer(x, data.graph).square().mean(), leaves)
    )
