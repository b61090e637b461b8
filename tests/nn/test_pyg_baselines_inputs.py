"""What PyTorch Geometric's layers are called with is made once, but where gradients need more."""

from __future__ import annotations

import gc

import pytest
import torch

from meanmax import Graph, SparseFeatures
from meanmax.nn import build_pyg_baseline, pyg_baselines
from tests.nn.graphs import NUM_NODES, awkward_edges, edge_weights, features

CHANNELS = 6


@pytest.fixture
def graph():
    return Graph.from_edge_index(awkward_edges(), NUM_NODES)


def pyg_baseline(backbone, baseline, graph):
    torch.manual_seed(0)
    return build_pyg_baseline(backbone, baseline, CHANNELS, 16, 4, graph=graph)


def test_edges_are_prepared_once_and_weights_with_a_gradient_each_time(graph, monkeypatch):
    calls = []
    true = pyg_baselines.gcn_norm
    monkeypatch.setattr(pyg_baselines, "gcn_norm", lambda *a, **k: calls.append(0) or true(*a, **k))
    model, x = pyg_baseline("gcn", "pyg-softmax", graph), features(CHANNELS)
    with torch.inference_mode():
        model(x, graph)
    model(x, graph).sum().backward()
    assert len(calls) == 1
    weight = edge_weights(awkward_edges()).requires_grad_()
    learned = graph.with_weight(weight)
    for _ in range(2):
        model(x, learned).square().sum().backward(retain_graph=True)
    assert len(calls) == 3
    assert weight.grad.abs().sum() > 0


def test_sparse_features_become_dense_once(graph, monkeypatch):
    x = torch.relu(features(CHANNELS))
    sparse = SparseFeatures.from_dense(x)
    calls = []
    true = SparseFeatures.to_dense
    monkeypatch.setattr(SparseFeatures, "to_dense", lambda self: calls.append(0) or true(self))
    model = pyg_baseline("sage", "pyg-powermean", graph)
    with torch.inference_mode():
        model(sparse, graph)
    model(sparse, graph).sum().backward()
    assert torch.equal(model.eval()(sparse, graph), model(x, graph))
    assert len(calls) == 1
    known = len(pyg_baselines._DENSE)
    del sparse
    gc.collect()
    assert len(pyg_baselines._DENSE) == known - 1


def test_sparse_features_with_a_gradient_and_in_double(graph):
    sparse = SparseFeatures.from_dense(torch.relu(features(CHANNELS)))
    model = pyg_baseline("gcn", "pyg-softmax", graph)
    value = sparse.value.clone().requires_grad_()
    model(sparse.with_value(value), graph).square().sum().backward()
    assert value.grad.abs().sum() > 0
    single, double = model.eval()(sparse, graph), model.double()(sparse, graph)
    assert double.dtype == torch.float64
    torch.testing.assert_close(double.float(), single)


def test_self_loops_are_replaced_and_plain_edges_kept():
    graph = Graph.from_edge_index([[0, 1, 1, 1], [0, 0, 1, 1]], 3)
    (looped,) = pyg_baselines.edges_of(graph, "looped", torch.float32)
    assert looped.tolist() == [[1, 0, 1, 2], [0, 0, 1, 2]]
    (plain,) = pyg_baselines.edges_of(graph, "plain", torch.float32)
    assert plain.tolist() == [[0, 1, 1, 1], [0, 0, 1, 1]]


def test_normalised_weights_take_the_graphs_own():
    graph = Graph.from_edge_index([[0, 1], [1, 0]], 2, [3.0, 3.0])
    _, weight = pyg_baselines.edges_of(graph, "normalized", torch.float64)
    expected = torch.tensor([0.75, 0.75, 0.25, 0.25], dtype=torch.float64)  # degrees are 1 + 3
    torch.testing.assert_close(weight, expected)
    with pytest.raises(ValueError, match=r"one weight per edge \(got 2\)"):
        pyg_baselines.edges_of(graph.with_weight(torch.ones(2, 2)), "normalized", torch.float32)
