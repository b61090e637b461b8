"""Parts of a graph, by METIS and by blocks."""

import builtins

import networkx
import numpy as np
import pytest
import torch

from meanmax import Graph
from meanmax.scale import PartitionError, assign_blocks, assign_metis, edge_cut
from meanmax.scale.partition import ROW_COST, block_bounds

BOTH = [pytest.param(assign_metis, marks=pytest.mark.extra), assign_blocks]


def cliques(count: int, size: int) -> Graph:
    """Cliques in a ring, one edge between neighbours; nodes shuffled."""
    ring = networkx.ring_of_cliques(count, size)
    order = np.random.default_rng(0).permutation(count * size)
    edges = np.array(ring.edges).T
    edges = order[np.concatenate([edges, edges[::-1]], axis=1)]
    return Graph.from_edge_index(edges, count * size)


@pytest.mark.extra
@pytest.mark.parametrize("parts", [2, 4, 12])
def test_metis_finds_the_cliques(parts):
    pytest.importorskip("pymetis")
    graph = cliques(12, 8)
    part = assign_metis(graph, parts)
    assert part.dtype == torch.int64 and part.shape == (96,)
    assert torch.bincount(part).tolist() == [96 // parts] * parts
    assert edge_cut(graph, part) == 2 * parts  # a ring is cut once for each part


@pytest.mark.extra
def test_the_seed_decides():
    pytest.importorskip("pymetis")
    graph = Graph.from_networkx(networkx.gnm_random_graph(300, 1500, seed=1))
    first = assign_metis(graph, 10, seed=3)
    assert torch.equal(first, assign_metis(graph, 10, seed=3))
    assert not torch.equal(first, assign_metis(graph, 10, seed=4))


@pytest.mark.extra
def test_metis_takes_a_directed_graph_as_undirected():
    pytest.importorskip("pymetis")
    edges = torch.tensor([[0, 1, 2, 0, 5, 6, 7, 5, 3, 3], [1, 2, 0, 3, 6, 7, 5, 8, 5, 3]])
    directed = Graph.from_edge_index(edges, 10)
    both = Graph.from_edge_index(torch.cat([edges, edges.flip(0)], 1), 10)
    assert torch.equal(assign_metis(directed, 2), assign_metis(both, 2))


@pytest.mark.parametrize("assign", BOTH)
@pytest.mark.parametrize("parts", [1, 2, 5, 7])
@pytest.mark.parametrize("edges", [[[], []], [[0, 1], [1, 0]], [[0, 1, 2, 3], [4, 4, 4, 4]]])
def test_no_part_is_empty(assign, parts, edges):
    if assign is assign_metis and parts > 1:
        pytest.importorskip("pymetis")
    graph = Graph.from_edge_index(torch.tensor(edges, dtype=torch.int64), 7)
    part = assign(graph, parts)
    assert part.dtype == torch.int64
    assert sorted(part.unique().tolist()) == list(range(parts)) and part.shape == (7,)


@pytest.mark.parametrize("assign", BOTH)
def test_too_many_parts(assign):
    graph = Graph.from_edge_index([[0, 1], [1, 0]], 3)
    with pytest.raises(PartitionError, match="3 nodes cannot make 4 parts.*at most 3"):
        assign(graph, 4)
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(PartitionError, match="whole number from 1 on"):
            assign(graph, wrong)


def test_without_pymetis_the_error_names_the_way_out(monkeypatch):
    real = builtins.__import__

    def absent(name, *args, **kwargs):
        if name == "pymetis":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    graph = Graph.from_edge_index([[0, 1], [1, 0]], 3)
    with pytest.raises(PartitionError, match=r"pip install 'meanmax\[scale\]'.*'blocks'"):
        assign_metis(graph, 2)
    assert assign_metis(graph, 1).tolist() == [0, 0, 0]
    assert assign_blocks(graph, 2).tolist() == [0, 1, 1]


def test_blocks_are_consecutive_and_balanced():
    graph = Graph.from_networkx(networkx.barabasi_albert_graph(2000, 5, seed=2))
    part = assign_blocks(graph, 8)
    assert bool((part.diff() >= 0).all())
    cost = graph.rowptr.diff() + ROW_COST
    sums = torch.zeros(8, dtype=cost.dtype).index_add(0, part, cost)
    assert int(sums.max() - sums.min()) <= 2 * int(cost.max())


def test_one_heavy_row_leaves_a_node_for_the_others():
    rowptr = np.array([0, 0, 1000, 1000, 1000])
    assert block_bounds(rowptr, 4).tolist() == [0, 1, 2, 3, 4]
    assert block_bounds(rowptr, 2).tolist() in ([0, 1, 4], [0, 2, 4])
    assert block_bounds(np.array([0]), 1).tolist() == [0, 0]


def test_edge_cut_counts_edges_between_parts():
    graph = Graph.from_edge_index([[0, 1, 2, 2, 3], [1, 2, 0, 2, 0]], 4)
    assert edge_cut(graph, torch.tensor([0, 0, 1, 1])) == 3
    assert edge_cut(graph, torch.zeros(4, dtype=torch.int64)) == 0
    with pytest.raises(PartitionError, match="each of 4 nodes"):
        edge_cut(graph, torch.zeros(3, dtype=torch.int64))
