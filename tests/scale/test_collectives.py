"""What ranks hold and send is what the formula says; what they measure is of the whole graph."""

import pytest
import torch

from meanmax import Graph
from meanmax.scale import DistributedGraph, Halo, assign_blocks
from tests.scale import work
from tests.scale.launch import on_ranks
from tests.scale.power_law import model_for, power_law

GRAPH = power_law()
PART = assign_blocks(GRAPH, 2)
X = torch.randn(GRAPH.num_nodes, 6, generator=torch.Generator().manual_seed(0))
HIDDEN, CLASSES, HEADS = 8, 3, 2


@pytest.mark.parametrize(
    ("backbone", "aggr", "forward", "backward"),
    [
        ("gcn", "softmax", HIDDEN + CLASSES, HIDDEN + CLASSES),
        ("gcn", "lp", HIDDEN + CLASSES, HIDDEN + CLASSES),
        ("sage", "poly", 6 + HIDDEN, HIDDEN),  # the input takes no gradient
        ("masked_gcn", "lp", 2 * 6 + HIDDEN + 2 * HIDDEN + CLASSES, 3 * HIDDEN + CLASSES),
        ("gin", "softmax", 6 + HIDDEN, HIDDEN),
        ("gen", "softmax", HIDDEN + CLASSES, HIDDEN + CLASSES),
        ("gat", "none", HIDDEN + HEADS + CLASSES + 1, HIDDEN + HEADS + CLASSES + 1),
    ],
)
def test_traffic_maxness_and_memory(backbone, aggr, forward, backward):
    ranks = on_ranks(work.measure, 2, GRAPH, PART, X, backbone, aggr)
    whole = model_for(backbone, aggr, X, CLASSES).maxness(X, GRAPH)
    for rank, (maxness, (_, sent), borrowed_by_others, borrowed, holds) in enumerate(ranks):
        assert sent == 4 * (forward * borrowed_by_others + backward * borrowed)
        own = int((PART == rank).sum())
        edges = int((PART[GRAPH.edge_index[1]] == rank).sum())
        assert holds == (own, own + borrowed, edges)
        for name, value in whole.items():
            assert torch.allclose(maxness[name], value, atol=1e-5, equal_nan=True)


def test_a_part_must_fit_its_halo():
    part = Graph.from_edge_index([[2, 1], [0, 1]], (3, 2))
    with pytest.raises(ValueError, match="2 own nodes and the 0 nodes of the halo"):
        DistributedGraph(part, Halo(torch.tensor([], dtype=torch.int64), (0,), (0,)))


def test_a_part_is_not_copied():
    part = Graph.from_edge_index([[0, 1], [1, 0]], (2, 2))
    graph = DistributedGraph(part, Halo(torch.tensor([], dtype=torch.int64), (0,), (0,)))
    assert repr(graph) == "DistributedGraph(num_nodes=2, halo=0, num_edges=2, weighted=False)"
    with pytest.raises(TypeError, match="belongs to its process"):
        graph.__reduce__()


def test_what_needs_the_whole_graph_is_refused():
    for said in on_ranks(work.refused, 2, GRAPH):
        cat, norm, batch = said
        assert "CAT" in cat and "whole graph" in cat
        assert "norm='layer'" in norm
        assert "cannot be batched" in batch


def test_a_rank_with_bad_features_says_so_and_the_others_do_not_hang():
    good, bad = on_ranks(work.fails_alone, 2, GRAPH, 1)
    assert bad.startswith("NotFiniteError: 'x' must be finite")
    assert good.startswith("RankError: another rank of this job has stopped")
