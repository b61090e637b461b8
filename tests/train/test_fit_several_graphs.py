"""Training on graphs that validation nodes are not in."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch

from meanmax import Graph, NodeClassifier, SparseFeatures
from meanmax.train import LabeledNodes
from meanmax.train.problem import graph_numbers, graph_samples

SIZES = (12, 9, 14, 10, 11)


def several(seed=0):
    """Five graphs; the class shows in the features, with noise, and in the edges."""
    rng = np.random.default_rng(seed)
    total = sum(SIZES)
    batch = np.repeat(np.arange(5), SIZES)
    y = rng.integers(0, 2, total)
    near = rng.random((total, total)) < np.where(y[:, None] == y, 0.5, 0.05)
    near &= batch[:, None] == batch
    x = rng.normal(size=(total, 4)).astype(np.float32)
    x[:, 0] += 2 * y
    weight = rng.random(int(near.sum())).astype(np.float32)
    graph = Graph.from_edge_index(
        np.stack(near.nonzero()), total, weight, batch=torch.from_numpy(batch)
    )
    return graph, x, y, batch


def quick(**params) -> NodeClassifier:
    return NodeClassifier(**{"hidden": 8, "epochs": 12, "dropout": 0.2, **params})


def test_graphs_are_taken_apart():
    edges = [[0, 1, 1, 4, 3, 3], [1, 0, 0, 3, 4, 4]]
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    graph = Graph.from_edge_index(edges, 5, weight, batch=torch.tensor([0, 0, 1, 2, 2]))
    x = torch.arange(10.0).reshape(5, 2)
    nodes = LabeledNodes(torch.tensor([1, 3, 4]), torch.tensor([7, 8, 9]))
    assert graph_numbers(graph, torch.arange(5)).tolist() == [0, 0, 1, 2, 2]
    first, last = graph_samples(x, graph, nodes)
    assert first.graph.edge_index.tolist() == [[1, 1, 0], [0, 0, 1]]
    assert first.graph.edge_weight.tolist() == [2.0, 3.0, 1.0]
    assert (first.nodes.index.tolist(), first.nodes.target.tolist()) == ([1], [7])
    assert last.graph.edge_index.tolist() == [[1, 0, 0], [0, 1, 1]]
    assert last.graph.edge_weight.tolist() == [4.0, 5.0, 6.0]
    assert (last.nodes.index.tolist(), last.nodes.target.tolist()) == ([0, 1], [8, 9])
    assert last.x.tolist() == [[6.0, 7.0], [8.0, 9.0]]
    sparse = SparseFeatures.from_scipy(scipy.sparse.csr_array(x.numpy()))
    assert graph_samples(sparse, graph, nodes)[1].x.to_dense().tolist() == last.x.tolist()


@pytest.mark.parametrize("backbone", ["gcn", "cat"])
def test_other_graphs_play_no_part_in_training(backbone):
    graph, x, y, batch = several()
    train, val = batch < 3, batch == 3
    model = quick(backbone=backbone).fit(graph, x, y, train, val)
    changed, hidden = x.copy(), y.copy()
    changed[batch == 4] = 1000.0
    hidden[batch == 4] = -1
    same = quick(backbone=backbone).fit(graph, changed, hidden, train, val)
    assert model.num_nodes_ is None
    np.testing.assert_array_equal(model.predict_proba(graph, x), same.predict_proba(graph, x))
    assert model.score(graph, x, y, batch == 4) > 0.6


def test_the_number_of_graphs_in_a_batch_counts():
    graph, x, y, batch = several()
    fits = {
        size: quick(batch_graphs=size).fit(graph, x, y, batch < 3, batch == 3) for size in (1, 3)
    }
    assert fits[1].history_.train_loss != fits[3].history_.train_loss
    with pytest.raises(ValueError, match="'batch_graphs' must be a positive integer"):
        quick(batch_graphs=0).fit(graph, x, y, batch < 3, batch == 3)


def test_a_shared_graph_means_that_all_is_seen():
    graph, x, y, batch = several()
    train = np.flatnonzero(batch < 3)[1:]
    model = quick().fit(graph, x, y, train, [0])
    assert model.num_nodes_ == sum(SIZES)
    np.testing.assert_allclose(model.scaling_.mean, x.mean(0), rtol=1e-5, atol=1e-6)


def test_scaled_as_training_nodes_are():
    graph, x, y, batch = several()
    model = quick(epochs=1).fit(graph, x, y, batch < 3)
    np.testing.assert_allclose(model.scaling_.mean, x[batch < 3].mean(0), rtol=1e-5, atol=1e-6)


def test_saved_for_graphs_to_come(tmp_path):
    graph, x, y, batch = several()
    model = quick(backbone="cat", aggr="lp").fit(graph, x, y, batch < 3, batch == 3)
    model.save(tmp_path / "model.zip")
    new, features, _, _ = several(1)
    again = NodeClassifier.load(tmp_path / "model.zip")
    np.testing.assert_array_equal(
        again.predict_proba(new, features), model.predict_proba(new, features)
    )
