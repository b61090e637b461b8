from __future__ import annotations

import pytest
import torch

from meanmax import Graph, SparseFeatures, use_backend
from meanmax.nn import MaskedGCNConv
from meanmax.nn.masked_gcn import sparse_spread, spread
from meanmax.ops.autograd import summed_weights
from tests.nn import dense

NODES, CHANNELS, OUT = 24, 5, 3


@pytest.fixture
def edges():
    return dense.simple_edges(NODES)


def layer_and_input(seed: int = 0):
    torch.manual_seed(seed)
    layer = MaskedGCNConv(CHANNELS, OUT).double()
    with torch.no_grad():
        layer.log_variance.uniform_(-1, 1)
        layer.bias.uniform_(-1, 1)
    return layer, torch.randn(NODES, CHANNELS, dtype=torch.float64)


@pytest.mark.parametrize("backend", ["numba", "torch", "reference"])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_dense_equations(edges, weighted, backend):
    layer, x = layer_and_input()
    weight = torch.rand(edges.size(1)) + 0.1 if weighted else None
    given = [x.clone().requires_grad_() for _ in range(2)]
    with use_backend(backend):
        out = layer(given[0], Graph.from_edge_index(edges, NODES, weight))
    matrix = dense.adjacency(edges, weight, NODES)
    parameters = (layer.lin.weight, layer.log_variance, layer.bias)
    expected = dense.masked_gcn(given[1], matrix, *parameters)
    # Weights of the graph are float32; everything else is float64.
    tolerance = 1e-6 if not weighted else 1e-5
    torch.testing.assert_close(out, expected, rtol=tolerance, atol=tolerance)
    ours = torch.autograd.grad(out.square().sum(), [given[0], *parameters])
    theirs = torch.autograd.grad(expected.square().sum(), [given[1], *parameters])
    for got, wanted in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_sparse_features_give_the_same(edges):
    layer, x = layer_and_input()
    x = torch.relu(x)
    graph = Graph.from_edge_index(edges, NODES)
    sparse = SparseFeatures.from_dense(x, torch.float64)
    out, expected = layer(sparse, graph), layer(x, graph)
    torch.testing.assert_close(out, expected, rtol=1e-6, atol=1e-6)
    parameters = list(layer.parameters())
    ours = torch.autograd.grad(out.square().sum(), parameters)
    theirs = torch.autograd.grad(expected.square().sum(), parameters)
    for got, wanted in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)


def test_the_sparse_sum_is_computed_once_per_features(edges):
    graph = Graph.from_edge_index(edges, NODES).prepared("sym", True)
    degree = summed_weights(graph)
    first = SparseFeatures.from_dense(torch.rand(NODES, CHANNELS))
    second = SparseFeatures.from_dense(torch.rand(NODES, CHANNELS))
    spread_first = sparse_spread(first, graph, degree)
    assert sparse_spread(first, graph, degree) is spread_first
    assert not torch.equal(sparse_spread(second, graph, degree), spread_first)


def test_a_common_offset_does_not_change_the_spread(edges):
    graph = Graph.from_edge_index(edges, NODES).prepared("sym", True)
    x, degree = torch.rand(NODES, CHANNELS), summed_weights(graph)
    moved = spread(x + 100.0, x + 100.0, graph, degree)
    torch.testing.assert_close(moved, spread(x, x, graph, degree), rtol=1e-3, atol=1e-4)
    assert bool((moved >= 0).all())


def test_dropout_comes_after_the_mask(edges):
    layer = MaskedGCNConv(CHANNELS, OUT, dropout=0.5)
    graph, x = Graph.from_edge_index(edges, NODES), torch.rand(NODES, CHANNELS)
    layer.eval()
    assert torch.equal(layer(x, graph), layer(x, graph))
    layer.train()
    assert not torch.equal(layer(x, graph), layer(x, graph))
