from __future__ import annotations

import pytest
import torch

from meanmax import Graph

EDGES = torch.tensor([[2, 0, 1, 1, 3], [0, 1, 0, 1, 3]])  # not sorted, with two self-loops


@pytest.mark.parametrize("normalize", [None, "sym", "row"])
@pytest.mark.parametrize("self_loops", [False, True, "replace"])
@pytest.mark.parametrize("weighted", [False, True])
def test_is_what_building_it_so_would_give(normalize, self_loops, weighted):
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]) if weighted else None
    found = Graph.from_edge_index(EDGES, 5, weight).prepared(normalize, self_loops)
    built = Graph.from_edge_index(EDGES, 5, weight, normalize, self_loops)
    assert torch.equal(found.rowptr, built.rowptr)
    assert torch.equal(found.col, built.col)
    assert (found.weight is None) == (built.weight is None)
    if built.weight is not None:
        torch.testing.assert_close(found.weight, built.weight)
    assert found.perm is None
    assert torch.equal(found.edge_index[0], found.col.long())


def test_is_remembered():
    graph = Graph.from_edge_index(EDGES, 5)
    assert graph.prepared("sym", True) is graph.prepared("sym", True)
    assert graph.prepared("sym", True) is not graph.prepared("row", True)


def test_a_graph_that_is_ready_is_itself():
    graph = Graph.from_edge_index([[1, 0], [0, 1]])
    assert graph.prepared() is graph


def test_weights_with_a_gradient_are_prepared_anew():
    weight = torch.rand(5, requires_grad=True)
    graph = Graph.from_edge_index(EDGES, 5, weight)
    first, second = graph.prepared("sym", True), graph.prepared("sym", True)
    assert first is not second
    first.weight.square().sum().backward()
    assert weight.grad is not None and bool((weight.grad != 0).any())


def test_batches_and_different_sources_stay_what_they_are():
    batch = Graph.batch([Graph.from_edge_index(EDGES, 5), Graph.from_edge_index([[1], [0]])])
    assert batch.prepared("sym", True).num_graphs == 2
    assert batch.prepared("sym", True).src_ptr.tolist() == [0, 5, 7]
    bipartite = Graph.from_edge_index([[0, 4, 2], [1, 0, 1]], (5, 2))
    ready = bipartite.prepared("row")
    assert (ready.num_src, ready.num_dst) == (5, 2)
    assert ready.weight.tolist() == [1.0, 0.5, 0.5]
    with pytest.raises(ValueError, match="self_loops"):
        bipartite.prepared(None, True)


def test_made_in_inference_mode_it_can_be_trained_with():
    graph = Graph.from_edge_index(EDGES, 5)
    with torch.inference_mode():
        ready = graph.prepared("sym", True)
    assert not ready.weight.is_inference()
