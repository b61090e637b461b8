r"""Whole training epochs: forward, backward and a step, of our models and of PyG's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import cross_entropy, relu

from meanmax.graph import Graph, SparseFeatures
from meanmax.nn import build_model
from meanmax.study.bench.graphs import power_law_graph


@dataclass(frozen=True)
class Shape:
    r"""The sizes of a data set.

    Args:
        name (str): The data set it resembles.
        nodes (int): Nodes.
        edges (int): Edges, both directions counted, without self-loops.
        features (int): Feature channels.
        filled (float): The share of features that are not 0.
        classes (int): Classes.
    """

    name: str
    nodes: int
    edges: int
    features: int
    filled: float
    classes: int

    def shrunk(self, factor: int) -> Shape:
        r"""A smaller one to try things with."""
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


class Problem:
    r"""A graph, features and classes to train on.

    Args:
        shape (Shape): The sizes.
        seed (int): Of graph, features and classes.
    """

    def __init__(self, shape: Shape, seed: int) -> None:
        looped = power_law_graph(shape.nodes, shape.edges + shape.nodes, seed)
        edges = looped.edge_index
        self.shape = shape
        self.edge_index: Tensor = edges[:, edges[0] != edges[1]].contiguous()
        self.graph = Graph.from_edge_index(self.edge_index, shape.nodes)
        generator = torch.Generator().manual_seed(seed)
        size = (shape.nodes, shape.features)
        x = torch.randn(size, generator=generator)
        if shape.filled < 1:
            kept = torch.rand(size, generator=generator) < shape.filled
            x = x.abs() * kept
        self.x = x
        self.y = torch.randint(shape.classes, (shape.nodes,), generator=generator)


HIDDEN, HEADS, DROPOUT = 64, 8, 0.5
AGGREGATORS = ("none", "lp", "poly", "softmax", "max")
GEN_SOFTMAX, GEN_POWER = "pyg-gen-softmax", "pyg-gen-powermean"
PYG_GAT, PYG_GCN = "pyg-gat", "pyg-gcn"
Epoch = Callable[[], object]


@dataclass(frozen=True)
class Trainee:
    r"""A model to train for an epoch.

    Args:
        name (str): The key in the results.
        label (str): What tables call it.
        baseline (str, optional): The trainee it is compared with as its linear self, or its dense
            one.
        prepare (callable): Makes the epoch from a problem.
    """

    name: str
    label: str
    baseline: str | None
    prepare: Callable[[Problem], Epoch]


def _epoch(model: Module, run: Callable[[], Any], problem: Problem) -> Epoch:
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)

    def epoch() -> None:
        optimizer.zero_grad()
        loss = cross_entropy(run(), problem.y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return epoch


def _ours(backbone: str, aggr: str, nonlinear: str, sparse: bool, problem: Problem) -> Epoch:
    torch.manual_seed(0)
    shape = problem.shape
    model = build_model(
        backbone, aggr, shape.features, HIDDEN, shape.classes, dropout=DROPOUT,
        nonlinear=nonlinear,  # type: ignore[arg-type]
    )  # fmt: skip
    x = SparseFeatures.from_dense(problem.x) if sparse else problem.x
    return _epoch(model, lambda: model(x, problem.graph), problem)


class PygModel(Module):
    r"""Two layers of PyG with dropout before each, as a user would write it.

    Args:
        first (torch.nn.Module): The hidden layer.
        second (torch.nn.Module): The output layer.
        activation (callable): What comes between.
    """

    def __init__(self, first: Module, second: Module, activation: Callable[..., Any]) -> None:
        super().__init__()
        self.first, self.second, self.activation = first, second, activation

    def forward(self, x: Any, edge_index: Any) -> Any:
        r"""Runs both layers."""
        x = torch.nn.functional.dropout(x, DROPOUT, self.training)
        x = self.activation(self.first(x, edge_index))
        x = torch.nn.functional.dropout(x, DROPOUT, self.training)
        return self.second(x, edge_index)


def _pyg(make: Callable[[int, int], PygModel], problem: Problem) -> Epoch:
    torch.manual_seed(0)
    model = make(problem.shape.features, problem.shape.classes)
    return _epoch(model, lambda: model(problem.x, problem.edge_index), problem)


def _gen(aggr: str, options: dict[str, Any], features: int, classes: int) -> PygModel:
    layer = partial(pyg.GENConv, aggr=aggr, num_layers=1, norm=None, **options)
    return PygModel(layer(features, HIDDEN), layer(HIDDEN, classes), relu)


def _gcn(features: int, classes: int) -> PygModel:
    layer = partial(pyg.GCNConv, cached=True)  # normalised once, as ours
    return PygModel(layer(features, HIDDEN), layer(HIDDEN, classes), relu)


def _gat(features: int, classes: int) -> PygModel:
    first = pyg.GATConv(features, HIDDEN // HEADS, HEADS, dropout=DROPOUT)
    second = pyg.GATConv(HIDDEN, classes, 1, dropout=DROPOUT)
    return PygModel(first, second, torch.nn.functional.elu)


def _named(backbone: str, aggr: str, nonlinear: str) -> Trainee:
    where = "" if aggr == "none" else f", {nonlinear} layer{'s' if nonlinear == 'all' else ''}"
    suffix = "" if aggr == "none" else f"-{nonlinear}"
    return Trainee(
        f"{backbone}-{aggr}{suffix}",
        f"{backbone} {aggr}{where}",
        f"{backbone}-none",
        partial(_ours, backbone, aggr, nonlinear, False),
    )


def _trainees() -> list[Trainee]:
    found = []
    for backbone in ("gcn", "gat"):
        found.append(_named(backbone, "none", "first"))
        for aggr in AGGREGATORS[1:]:
            found += [_named(backbone, aggr, nonlinear) for nonlinear in ("first", "all")]
    return [
        *found,
        Trainee(PYG_GCN, "PyG GCNConv", None, partial(_pyg, _gcn)),
        Trainee(
            GEN_SOFTMAX,
            "PyG GENConv softmax, learned",
            None,
            partial(_pyg, partial(_gen, "softmax", {"learn_t": True})),
        ),
        Trainee(
            GEN_POWER,
            "PyG GENConv power mean, learned",
            None,
            partial(_pyg, partial(_gen, "powermean", {"learn_p": True})),
        ),
        Trainee(PYG_GAT, "PyG GATConv", None, partial(_pyg, _gat)),
    ]


TRAINEES: Final[dict[str, Trainee]] = {trainee.name: trainee for trainee in _trainees()}
r"""What is trained on every shape but the sparse one, in the order of the tables."""

SPARSE: Final[dict[str, Trainee]] = {
    PYG_GCN: TRAINEES[PYG_GCN],
} | {
    f"gcn-{aggr}-{kind}": Trainee(
        f"gcn-{aggr}-{kind}",
        f"gcn {aggr}, {kind} input",
        f"gcn-{aggr}-dense",
        partial(_ours, "gcn", aggr, "first", kind == "sparse"),
    )
    for aggr in AGGREGATORS
    for kind in ("dense", "sparse")
}
r"""Sparse input beside the same as a dense matrix, and PyG's GCN, which takes it dense."""
