"""The paper's sixteen methods learn, and stay finite."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from meanmax import Graph, build_model

BACKBONES = ("gcn", "masked_gcn", "gat", "cat")
METHODS = [(b, a) for b in BACKBONES for a in ("none", "lp", "poly", "softmax")]
EXTRA = [("sage", "lp"), ("sage", "max"), ("gin", "none"), ("gin", "softmax"), ("gcn", "max")]


def small_problem(seed: int = 0):
    """24 nodes in two communities with three classes that features and edges only hint at."""
    generator = torch.Generator().manual_seed(seed)
    nodes = 24
    y = torch.arange(nodes) % 3
    dense = torch.rand(nodes, nodes, generator=generator) < 0.06 + 0.2 * (y[:, None] == y)
    dense.fill_diagonal_(False)
    x = torch.randn(nodes, 8, generator=generator) + 1.5 * torch.eye(3, 8)[y]
    return x, Graph.from_edge_index(dense.nonzero().t(), nodes), y


def train(backbone, aggr, seed, epochs, *, dropout=0.0, nonlinear="first"):
    torch.manual_seed(seed)
    x, graph, y = small_problem()
    model = build_model(
        backbone, aggr, 8, 16, 3, heads=2 if backbone in ("gat", "cat") else None,
        dropout=dropout, nonlinear=nonlinear,
        layer_options={"num_nodes": len(y) if backbone == "cat" else None},
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(epochs):
        optimizer.zero_grad()
        loss, extra = cross_entropy(model(x, graph), y), model.extra_loss(graph)
        (loss if extra is None else loss + extra).backward()
        optimizer.step()
        assert torch.isfinite(loss)
    return model, (model.eval()(x, graph).argmax(1) == y).float().mean()


@pytest.mark.parametrize(("backbone", "aggr"), METHODS + EXTRA)
def test_overfits_a_small_graph(backbone, aggr):
    _, accuracy = train(backbone, aggr, seed=0, epochs=300)
    assert accuracy == 1.0


@pytest.mark.parametrize(
    "seeds", [range(2), pytest.param(range(2, 20), marks=pytest.mark.long)], ids=["few", "rest"]
)
@pytest.mark.parametrize(("backbone", "aggr"), METHODS)
def test_stays_finite_from_twenty_seeds(backbone, aggr, seeds):
    for seed in seeds:
        model, _ = train(backbone, aggr, seed, epochs=200, dropout=0.5, nonlinear="all")
        assert all(torch.isfinite(parameter).all() for parameter in model.parameters())
