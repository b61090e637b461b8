import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import add_remaining_self_loops

from meanmax.graph import Graph
from meanmax.graph.build import normalized, with_self_loops

# Directed, multiple edges 0 -> 1, self-loops at 1 (one) and 3 (two), node 4 isolated.
EDGES = torch.tensor([[0, 0, 1, 3, 2, 3, 3], [1, 1, 1, 3, 0, 3, 2]])
WEIGHT = torch.tensor([0.5, 2.0, 3.0, 0.25, 1.5, 4.0, 0.0], dtype=torch.float64)


@st.composite
def weighted_edges(draw):
    n = draw(st.integers(1, 6))
    node, value = st.integers(0, n - 1), st.sampled_from([0.0, 0.25, 1.0, 3.0])
    drawn = draw(st.lists(st.tuples(node, node, value), max_size=20))
    edge_index = torch.tensor([[u, v] for u, v, _ in drawn], dtype=torch.long).reshape(-1, 2).t()
    return n, edge_index, torch.tensor([w for *_, w in drawn], dtype=torch.float64)


@given(weighted_edges(), st.booleans(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_sym_equals_gcn_norm(drawn, weighted, loops):
    n, edge_index, weight = drawn
    given_weight = weight if weighted else None
    graph = Graph.from_edge_index(edge_index, n, given_weight, "sym", loops)
    expected_index, expected = gcn_norm(edge_index, given_weight, n, add_self_loops=loops)
    assert torch.equal(graph.edge_index, expected_index)
    assert torch.equal(graph.edge_weight, expected)


@pytest.mark.parametrize("loops", [True, "add"])
def test_added_self_loops_equal_pyg(loops):
    graph = Graph.from_edge_index(EDGES, 5, WEIGHT, self_loops=loops)
    index, weight = add_remaining_self_loops(EDGES, WEIGHT, 1.0, 5)
    assert torch.equal(graph.edge_index, index)
    assert torch.equal(graph.edge_weight, weight)
    assert weight[-5:].tolist() == [1.0, 3.0, 1.0, 4.0, 1.0]  # of two self-loops the last


def test_replaced_self_loops_all_weigh_one():
    graph = Graph.from_edge_index(EDGES, 5, WEIGHT, self_loops="replace")
    assert torch.equal(graph.edge_index, add_remaining_self_loops(EDGES, num_nodes=5)[0])
    assert graph.edge_weight.tolist() == [0.5, 2.0, 1.5, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0]


def test_self_loops_are_kept_unless_asked_and_need_no_weights():
    assert torch.equal(Graph.from_edge_index(EDGES, 5).edge_index, EDGES)
    graph = Graph.from_edge_index(EDGES, 5, self_loops=True)
    assert graph.weight is None
    assert graph.num_edges == 9


def test_self_loops_of_heads():
    weight = torch.stack([WEIGHT, 2 * WEIGHT], dim=1)
    graph = Graph.from_edge_index(EDGES, 5, weight, self_loops="add")
    assert graph.edge_weight[-5:].tolist() == [[1, 1], [3, 6], [1, 1], [4, 8], [1, 1]]


def dense(graph, weight):
    matrix = np.zeros((graph.num_dst, graph.num_src))
    np.add.at(matrix, tuple(graph.edge_index.flip(0).numpy()), weight.numpy())
    return matrix


def test_row_divides_by_the_sum_at_the_target():
    edge_index = torch.tensor([[0, 4, 1, 4, 2, 3], [1, 1, 0, 1, 2, 2]])
    weight = torch.tensor([1.0, 2.0, 5.0, 1.0, 0.0, 0.0])
    graph = Graph.from_edge_index(edge_index, (5, 4), weight, "row")
    expected = [[0, 1, 0, 0, 0], [0.25, 0, 0, 0, 0.75], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]]
    np.testing.assert_allclose(dense(graph, graph.edge_weight), expected)
    unweighted = Graph.from_edge_index(edge_index, (5, 4), normalize="row")
    assert unweighted.weight.dtype == torch.float32
    assert unweighted.weight.tolist() == pytest.approx([1, 1 / 3, 1 / 3, 1 / 3, 0.5, 0.5])


@pytest.mark.parametrize("normalize", ["sym", "row"])
def test_heads_are_normalised_apart(normalize):
    weight = torch.stack([WEIGHT, WEIGHT.flip(0)], dim=1)
    both = Graph.from_edge_index(EDGES, 5, weight, normalize, True).weight
    for head in range(2):
        alone = Graph.from_edge_index(EDGES, 5, weight[:, head], normalize, True).weight
        assert torch.equal(both[:, head], alone)


@pytest.mark.parametrize("mode", ["sym", "row"])
@pytest.mark.parametrize("self_loops", [False, "add", "replace"])
def test_gradient_reaches_given_weights(mode, self_loops):
    def weight_of(values):
        return Graph.from_edge_index(EDGES, 5, values, mode, self_loops).weight

    positive = (WEIGHT + 0.5).requires_grad_()
    assert torch.autograd.gradcheck(weight_of, positive)


@pytest.mark.parametrize("mode", ["sym", "row"])
def test_gradient_is_finite_where_all_weights_are_zero(mode):
    weight = torch.zeros(7, requires_grad=True)
    normalized(EDGES[0], EDGES[1], weight, 5, mode).sum().backward()
    assert weight.grad.isfinite().all()


def test_self_loops_of_no_edges():
    none = torch.empty(0, dtype=torch.int32)
    src, dst, weight = with_self_loops(none, none, torch.empty(0), 2, "add")
    assert (src.tolist(), dst.tolist(), weight.tolist()) == ([0, 1], [0, 1], [1.0, 1.0])
