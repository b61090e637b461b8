"""The linear layers are PyG's: same parameters, same outputs, same gradients."""

from __future__ import annotations

import pytest
import torch
import torch_geometric.nn as pyg
from torch.nn import Module, ReLU, Sequential

from meanmax import Graph, SparseFeatures, use_backend
from meanmax.nn import GATConv, GCNConv, GENConv, GINConv, Linear, SAGEConv
from tests.nn.graphs import NUM_NODES, awkward_edges, edge_weights, features

CHANNELS, OUT, HEADS = 6, 5, 3
PAIRS = {
    "gcn": lambda: (GCNConv(CHANNELS, OUT), pyg.GCNConv(CHANNELS, OUT)),
    "gcn aggregate-first": lambda: (
        GCNConv(CHANNELS, OUT, order="aggregate-first"),
        pyg.GCNConv(CHANNELS, OUT),
    ),
    "gcn without loops": lambda: (
        GCNConv(CHANNELS, OUT, add_self_loops=False, bias=False),
        pyg.GCNConv(CHANNELS, OUT, add_self_loops=False, bias=False),
    ),
    "gcn unnormalised": lambda: (
        GCNConv(CHANNELS, OUT, add_self_loops=False, normalize=False),
        pyg.GCNConv(CHANNELS, OUT, add_self_loops=False, normalize=False),
    ),
    "gat": lambda: (GATConv(CHANNELS, OUT, HEADS), pyg.GATConv(CHANNELS, OUT, HEADS)),
    "gat averaged": lambda: (
        GATConv(CHANNELS, OUT, HEADS, concat=False),
        pyg.GATConv(CHANNELS, OUT, HEADS, concat=False),
    ),
    "gat without loops": lambda: (
        GATConv(CHANNELS, OUT, HEADS, add_self_loops=False, negative_slope=0.5),
        pyg.GATConv(CHANNELS, OUT, HEADS, add_self_loops=False, negative_slope=0.5),
    ),
    "sage": lambda: (SAGEConv(CHANNELS, OUT), pyg.SAGEConv(CHANNELS, OUT)),
    "sage transform-first": lambda: (
        SAGEConv(CHANNELS, OUT, order="transform-first"),
        pyg.SAGEConv(CHANNELS, OUT),
    ),
    "sage max": lambda: (SAGEConv(CHANNELS, OUT, aggr="max"), pyg.SAGEConv(CHANNELS, OUT, "max")),
    "sage pool": lambda: (
        SAGEConv(CHANNELS, OUT, aggr="max", pool=True),
        pyg.SAGEConv(CHANNELS, OUT, "max", project=True),
    ),
    "sage normalised": lambda: (
        SAGEConv(CHANNELS, OUT, normalize=True, root_weight=False),
        pyg.SAGEConv(CHANNELS, OUT, normalize=True, root_weight=False),
    ),
    "gin": lambda: (GINConv(mlp(), eps=0.3), pyg.GINConv(mlp(), eps=0.3)),
    "gin learned eps": lambda: (
        GINConv(mlp(), train_eps=True),
        pyg.GINConv(mlp(), train_eps=True),
    ),
    "gen": lambda: (GENConv(CHANNELS, OUT), pyg.GENConv(CHANNELS, OUT, "mean")),
    "gen of one width": lambda: (
        GENConv(CHANNELS, CHANNELS, norm="layer", bias=True, eps=0.1),
        pyg.GENConv(CHANNELS, CHANNELS, "mean", norm="layer", bias=True, eps=0.1),
    ),
    "gen max": lambda: (
        GENConv(CHANNELS, OUT, aggr="max", num_layers=3, expansion=1, norm=None),
        pyg.GENConv(CHANNELS, OUT, "max", num_layers=3, expansion=1, norm=None),
    ),
    "gen one layer": lambda: (
        GENConv(CHANNELS, OUT, num_layers=1),
        pyg.GENConv(CHANNELS, OUT, "mean", num_layers=1),
    ),
    "gen message norm": lambda: (
        GENConv(CHANNELS, OUT, msg_norm=True, learn_msg_scale=True),
        pyg.GENConv(CHANNELS, OUT, "mean", msg_norm=True, learn_msg_scale=True),
    ),
}
WEIGHTED = [name for name in PAIRS if name.startswith("gcn")]


def mlp() -> Module:
    return Sequential(Linear(CHANNELS, 7), ReLU(), Linear(7, OUT))


@pytest.mark.parametrize("backend", ["numba", "torch", "reference"])
@pytest.mark.parametrize("name", PAIRS)
def test_unweighted(name, backend):
    compare(name, backend, weighted=False)


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("name", WEIGHTED)
def test_weighted(name, backend):
    compare(name, backend, weighted=True)


@pytest.mark.parametrize("name", PAIRS)
def test_sparse_features(name):
    torch.manual_seed(0)
    ours, theirs = PAIRS[name]()
    theirs.load_state_dict(ours.state_dict())
    x = torch.relu(features(CHANNELS) - 0.5)
    graph = Graph.from_edge_index(awkward_edges(), NUM_NODES)
    out, expected = ours(SparseFeatures.from_dense(x), graph), theirs(x, awkward_edges())
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
    assert_same_gradients(ours, theirs, out, expected)


@pytest.mark.parametrize(
    "name",
    ["gat without loops", "sage", "sage max", "gin", "gen", "gen of one width", "gen message norm"],
)
def test_different_sources_and_targets(name):
    torch.manual_seed(0)
    ours, theirs = PAIRS[name]()
    theirs.load_state_dict(ours.state_dict())
    edges = torch.tensor([[0, 1, 2, 9, 9], [0, 0, 3, 3, 3]])
    pair = (features(CHANNELS)[:10], features(CHANNELS, seed=5)[:4])
    out = ours(pair, Graph.from_edge_index(edges, (10, 4)))
    torch.testing.assert_close(out, theirs(pair, edges), rtol=1e-5, atol=1e-5)


def test_attention_weights():
    ours, theirs = PAIRS["gat"]()
    theirs.load_state_dict(ours.state_dict())
    x, edges = features(CHANNELS), awkward_edges()
    _, (ours_index, ours_alpha) = ours(x, edges, return_attention_weights=True)
    _, (index, alpha) = theirs(x, edges, return_attention_weights=True)
    order = torch.sort(index[1], stable=True).indices  # PyG keeps the order given
    assert torch.equal(ours_index, index[:, order])
    torch.testing.assert_close(ours_alpha, alpha[order], rtol=1e-5, atol=1e-6)


def test_gradient_of_edge_weights():
    ours, theirs = PAIRS["gcn"]()
    theirs.load_state_dict(ours.state_dict())
    x, edges = features(CHANNELS), awkward_edges()
    given = [edge_weights(edges).requires_grad_() for _ in range(2)]
    graph = Graph.from_edge_index(edges, NUM_NODES)
    ours(x, graph, given[0]).square().sum().backward()
    theirs(x, edges, given[1]).square().sum().backward()
    # Of two self-loops of node 3 the last one counts, yet PyG gives the first one its gradient too.
    first_loop = edges.size(1) - 5
    assert given[0].grad[first_loop] == 0
    given[1].grad[first_loop] = 0
    torch.testing.assert_close(given[0].grad, given[1].grad, rtol=1e-4, atol=1e-5)


def compare(name: str, backend: str, *, weighted: bool) -> None:
    torch.manual_seed(0)
    ours, theirs = PAIRS[name]()
    theirs.load_state_dict(ours.state_dict())
    edges = awkward_edges()
    weight = edge_weights(edges) if weighted else None
    x, same = (features(CHANNELS).requires_grad_() for _ in range(2))
    with use_backend(backend):
        out = ours(x, Graph.from_edge_index(edges, NUM_NODES, weight))
        expected = theirs(same, edges, weight) if weighted else theirs(same, edges)
        torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
        assert_same_gradients(ours, theirs, out, expected)
    torch.testing.assert_close(x.grad, same.grad, rtol=1e-4, atol=1e-5)


def assert_same_gradients(ours, theirs, out, expected):
    factor = torch.linspace(-1, 1, out.numel()).view_as(out)
    (out * factor).sum().backward()
    (expected * factor).sum().backward()
    found = {name: p.grad for name, p in ours.named_parameters()}
    for name, parameter in theirs.named_parameters():
        torch.testing.assert_close(found.pop(name), parameter.grad, rtol=1e-4, atol=1e-5)
    assert not found
