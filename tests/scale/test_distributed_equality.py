"""Communicator that hold parts of a graph learn what one process learns from the whole."""

import numpy as np
import pytest
import torch

from meanmax import Graph
from meanmax.data import load
from meanmax.scale import assign_blocks, assign_metis
from tests.data.real import FOLDER, needs_amazon, needs_planetoid
from tests.scale import work
from tests.scale.launch import on_ranks
from tests.scale.power_law import AGGREGATORS, BACKBONES, model_for, power_law

ALL = [(backbone, aggr, ()) for backbone in BACKBONES for aggr in AGGREGATORS]
FURTHER = [
    ("gcn", "softmax", (("nonlinear", "all"), ("order", "aggregate-first"))),
    ("sage", "lp", (("pool", True),)),
    ("gat", "poly", (("nonlinear", "all"), ("skip", "linear"))),
    ("gin", "lp", (("nonlinear", "all"),)),
    ("gen", "softmax", (("layers", 3), ("skip", "res+"), ("norm", "layer"))),
]
TOLERANCE = 1e-5


def problem(graph: Graph, channels=6, seed=1):
    """Features with ties at the minimum, three classes, and some training nodes."""
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(size=(graph.num_nodes, channels))).float().clamp(min=-0.5)
    y = torch.from_numpy(rng.integers(3, size=graph.num_nodes))
    train = torch.from_numpy(rng.choice(graph.num_nodes, graph.num_nodes // 5, replace=False))
    return x, y, train


def assert_equal(graph, part, size, x, y, train, cases):
    ranks = on_ranks(work.train_parts, size, graph, part, x, y, train, cases)
    for case in cases:
        backbone, aggr, options = case
        model = model_for(backbone, aggr, x, int(y.max()) + 1, **dict(options))
        whole = work.learned(model, x, graph, y, train, len(train))
        for losses, grads, weights in (rank[case] for rank in ranks):
            assert np.allclose(losses, whole[0], rtol=TOLERANCE, atol=TOLERANCE), case
            assert_close(grads, whole[1], case)
            assert_close(weights, whole[2], case)


def assert_close(found, wanted, case):
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        # Norm-wise, as a gradient's small entries are differences of large ones.
        error = (found[name] - value).norm()
        assert error <= TOLERANCE * value.norm() + 2e-6, (case, name, float(error))


def test_two_ranks_learn_what_one_process_learns():
    graph = power_law()
    part = assign_blocks(graph, 2)
    assert_equal(graph, part, 2, *problem(graph), ALL + FURTHER)


def test_ranks_without_nodes_or_edges_take_part():
    graph = Graph.from_edge_index([[0, 1, 2, 0], [1, 0, 0, 2]], 8)
    part = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])  # rank 1 has no edge, rank 2 no node
    x, y, _ = problem(graph)
    # In float64, since Adam makes steps of the rounding of gradients that are zero.
    assert_equal(graph, part, 3, x.double(), y, torch.tensor([0, 2]), ALL)


def test_weights_of_edges_go_to_their_ranks():
    graph = power_law(80, 400)
    weighted = graph.with_weight(torch.rand(400, generator=torch.Generator().manual_seed(0)) + 0.1)
    cases = [(backbone, "softmax", ()) for backbone in BACKBONES]
    assert_equal(weighted, assign_blocks(graph, 2), 2, *problem(graph), cases)


@pytest.mark.extra
def test_sparse_features_stay_sparse_on_ranks():
    graph = power_law(120, 600)
    x, y, train = problem(graph, channels=150)
    x = x.clamp(min=1.0) - 1.0  # most are 0
    cases = [(backbone, aggr, ()) for backbone in BACKBONES for aggr in ("none", "lp")]
    ranks = on_ranks(work.train_parts, 2, graph, assign_metis(graph, 2), x, y, train, cases, True)
    for case in cases:
        model = model_for(case[0], case[1], x, 3)
        whole = work.learned(model, x, graph, y, train, len(train))
        for losses, grads, _ in (rank[case] for rank in ranks):
            assert np.allclose(losses, whole[0], rtol=1e-4), case
            assert_close(grads, whole[1], case)


@pytest.mark.extra
@pytest.mark.long
@pytest.mark.parametrize("size", [2, 4])
def test_ranks_learn_the_same_on_a_larger_graph(size):
    graph = power_law(20_000, 200_000)
    x, y, train = problem(graph)
    # In float64: in float32 already the order of 4000 summands moves Adam's steps by 1e-5.
    assert_equal(graph, assign_metis(graph, size), size, x.double(), y, train, ALL)


@pytest.mark.extra
@pytest.mark.long
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("name", ["pubmed", "photo"])
@needs_planetoid
@needs_amazon
def test_ranks_learn_the_same_on_real_graphs(name, size):
    data = load(name, data_dir=FOLDER)
    graph = data.graph()
    x = data.x if isinstance(data.x, torch.Tensor) else data.x.to_dense()
    train = torch.arange(0, data.num_nodes, 50)[data.labelled[::50]]
    assert_equal(graph, assign_metis(graph, size), size, x.double(), data.y, train, ALL)
