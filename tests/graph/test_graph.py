import copy
import io
import pickle

import numpy as np
import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch

from meanmax.graph import Graph
from meanmax.graph import build as structure_module
from meanmax.graph.build import group_sorted

EDGES = torch.tensor([[0, 0, 3, 1, 2, 0], [2, 1, 1, 1, 0, 1]])
WEIGHT = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])


@pytest.fixture
def graph():
    return Graph.from_edge_index(EDGES, 5, WEIGHT)


def test_both_orders(graph):
    assert graph.rowptr.tolist() == [0, 1, 5, 6, 6, 6]
    assert graph.col.tolist() == [2, 0, 3, 1, 0, 0]
    assert graph.perm.tolist() == [4, 1, 2, 3, 5, 0]
    assert graph.weight.tolist() == [5.0, 2.0, 3.0, 4.0, 6.0, 1.0]
    assert graph.colptr.tolist() == [0, 3, 4, 5, 6, 6]
    assert graph.row.tolist() == [1, 1, 2, 1, 0, 1]
    assert graph.csc_to_csr.tolist() == [1, 4, 5, 3, 0, 2]
    index = (graph.rowptr, graph.col, graph.perm, graph.colptr, graph.row, graph.csc_to_csr)
    assert {tensor.dtype for tensor in index} == {torch.int32}
    assert (graph.num_nodes, graph.num_src, graph.num_dst, graph.num_edges) == (5, 5, 5, 6)
    assert graph.num_graphs == 1
    assert graph.src_ptr.tolist() == graph.dst_ptr.tolist() == [0, 5]
    assert graph.src_ptr.dtype == torch.int64


def test_given_order_comes_back(graph):
    assert graph.edge_index.dtype == torch.int64
    assert graph.edge_index.is_contiguous()
    assert torch.equal(graph.edge_index, EDGES)
    assert torch.equal(graph.edge_weight, WEIGHT)
    values = torch.stack([WEIGHT, -WEIGHT], dim=1).requires_grad_()
    ordered = graph.to_graph_order(values)
    assert torch.equal(ordered[:, 0], graph.weight)
    (ordered * torch.arange(6.0)[:, None]).sum().backward()
    assert values.grad[:, 1].tolist() == [5.0, 1.0, 2.0, 3.0, 0.0, 4.0]


def test_values_of_sorted_edges_are_returned_as_they_are():
    graph = Graph.from_edge_index(EDGES[:, [4, 1, 2, 3, 5, 0]])
    assert graph.perm is None
    assert graph.to_graph_order(WEIGHT) is WEIGHT


@pytest.mark.parametrize("num_nodes", [None, 0, 3])
def test_no_edges(num_nodes):
    graph = Graph.from_edge_index([[], []], num_nodes, [], normalize="sym")
    assert graph.num_nodes == (num_nodes or 0)
    assert graph.num_edges == 0
    assert graph.rowptr.tolist() == graph.colptr.tolist() == [0] * (graph.num_nodes + 1)
    assert graph.edge_index.shape == (2, 0)
    assert graph.with_weight(torch.ones(0, 4)).weight.shape == (0, 4)


def test_rectangular():
    graph = Graph.from_edge_index([[4, 0], [1, 0]], (5, 2))
    assert (graph.num_src, graph.num_dst) == (5, 2)
    assert graph.rowptr.tolist() == [0, 1, 2]
    assert graph.colptr.tolist() == [0, 1, 1, 1, 1, 2]
    assert (graph.src_ptr.tolist(), graph.dst_ptr.tolist()) == ([0, 5], [0, 2])


def test_from_csr():
    rowptr, col = torch.tensor([0, 2, 2, 3]), torch.tensor([4, 1, 0], dtype=torch.int32)
    graph = Graph.from_csr(rowptr, col, num_src=5, edge_weight=torch.tensor([1.0, 2.0, 3.0]))
    assert graph.edge_index.tolist() == [[4, 1, 0], [0, 0, 2]]
    assert graph.perm is None
    assert graph.edge_weight.tolist() == [1.0, 2.0, 3.0]
    assert graph.row.tolist() == [2, 0, 0]
    assert Graph.from_csr([0, 1, 2], [1, 0]).num_nodes == 2


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, np.int64])
def test_memory_given_to_from_csr_may_change_later(dtype):
    make = np.array if dtype is np.int64 else torch.tensor
    rowptr, col = make([0, 2, 2, 3], dtype=dtype), make([4, 1, 0], dtype=dtype)
    weight = torch.tensor([1.0, 2.0, 3.0])
    graph = Graph.from_csr(rowptr, col, num_src=5, edge_weight=weight)
    rowptr[:], col[:], weight[:] = 10**6, -(10**6), -1.0
    assert graph.rowptr.tolist() == [0, 2, 2, 3] and graph.col.tolist() == [4, 1, 0]
    assert graph.weight.tolist() == [1.0, 2.0, 3.0]


def test_from_csr_shares_memory_on_request_and_keeps_gradients():
    rowptr, col = torch.tensor([0, 1, 2], dtype=torch.int32), torch.tensor([1, 0]).int()
    weight = torch.ones(2, requires_grad=True)
    shared = Graph.from_csr(rowptr, col, edge_weight=weight, copy=False)
    for own, given in ((shared.rowptr, rowptr), (shared.col, col), (shared.weight, weight)):
        assert own.data_ptr() == given.data_ptr()
    copied = Graph.from_csr(rowptr, col, edge_weight=weight)
    assert torch.autograd.grad(copied.weight.sum(), weight)[0].tolist() == [1.0, 1.0]


def test_where_graphs_and_groups_begin_is_copied():
    ptr = torch.tensor([0, 1, 2])
    data = Batch(edge_index=torch.tensor([[0, 1], [0, 1]]), num_nodes=2, ptr=ptr)
    graph, groups = Graph.from_data(data), group_sorted(given := ptr.int(), 2)
    ptr.fill_(99), given.fill_(99)
    assert graph.src_ptr.tolist() == groups.rowptr.tolist() == [0, 1, 2]


def test_with_weight_shares_the_structure(graph, monkeypatch):
    heads = torch.stack([WEIGHT, 2 * WEIGHT], dim=1).requires_grad_()
    other = graph.with_weight(heads)
    row = other.row
    monkeypatch.setattr(structure_module, "to_csc", None)
    assert graph.row is row
    assert other.col is graph.col
    assert torch.equal(other.edge_weight, heads)
    assert torch.equal(other.weight[:, 0], graph.weight)
    assert torch.autograd.grad(other.edge_weight[1, 1], heads)[0].nonzero().tolist() == [[1, 1]]
    assert other.with_weight(None).weight is None
    assert other.cache is not graph.cache


@pytest.mark.parametrize("sort_order", [None, "row", "col"])
@pytest.mark.parametrize("cached", [False, True])
def test_pyg_edge_index(sort_order, cached):
    plain = EDGES
    if sort_order is not None:
        plain = EDGES[:, EDGES[["row", "col"].index(sort_order)].argsort(stable=True)]
    given = EdgeIndex(plain, sparse_size=(6, 6), sort_order=sort_order)
    if cached:
        given.fill_cache_()
    graph = Graph.from_edge_index(given)
    expected = Graph.from_edge_index(plain, 6)
    assert graph.num_nodes == 6
    assert (graph.perm is None) == (sort_order == "col")
    for name in ("rowptr", "col", "colptr", "row", "csc_to_csr", "edge_index"):
        assert torch.equal(getattr(graph, name), getattr(expected, name))
        assert type(getattr(graph, name)) is torch.Tensor


def test_sizes_of_pyg_edge_index():
    assert Graph.from_edge_index(EdgeIndex(EDGES)).num_nodes == 4
    rectangular = Graph.from_edge_index(EdgeIndex(EDGES, sparse_size=(7, None)))
    assert (rectangular.num_src, rectangular.num_dst) == (7, 3)
    assert Graph.from_edge_index(EdgeIndex(EDGES, sparse_size=(7, 7)), 9).num_nodes == 9
    assert Graph.from_edge_index(EdgeIndex(EDGES, is_undirected=False), (4, 3)).num_dst == 3


def save_and_load(graph):
    file = io.BytesIO()
    torch.save(graph, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize(
    "clone", [copy.deepcopy, lambda graph: pickle.loads(pickle.dumps(graph)), save_and_load]
)
@pytest.mark.parametrize("with_csc", [False, True])
def test_copies_leave_the_cache(graph, clone, with_csc):
    graph.cache["kernel"] = object
    if with_csc:
        assert graph.row.numel() == 6
    twin = clone(graph)
    assert twin.cache == {}
    assert repr(twin) == repr(graph)
    for name in ("rowptr", "col", "perm", "weight", "row", "csc_to_csr", "edge_index", "dst_ptr"):
        assert torch.equal(getattr(twin, name), getattr(graph, name))
        assert getattr(twin, name) is not getattr(graph, name)


@pytest.mark.parametrize("with_csc", [False, True])
def test_to_moves_every_tensor(graph, with_csc):
    graph.cache["kernel"] = object
    if with_csc:
        assert graph.row.numel() == 6
    moved = graph.to("meta")
    assert moved.cache == {}
    assert moved.device == torch.device("meta")
    names = ["rowptr", "col", "perm", "weight", "src_ptr", "dst_ptr"]
    names += ["colptr", "row", "csc_to_csr"] * with_csc
    for name in names:
        assert getattr(moved, name).is_meta
        assert getattr(moved, name).shape == getattr(graph, name).shape
    assert graph.to("cpu") is graph
    assert Graph.from_csr([0, 1], [0]).to("meta").weight is None


def test_repr(graph):
    assert repr(graph) == "Graph(num_nodes=5, num_edges=6, weighted=True, num_graphs=1)"
    bipartite = Graph.from_edge_index([[4], [1]], (5, 2))
    assert repr(bipartite) == (
        "Graph(num_src=5, num_dst=2, num_edges=1, weighted=False, num_graphs=1)"
    )
    heads = graph.with_weight(torch.ones(6, 8)).to("meta")
    assert repr(heads) == (
        "Graph(num_nodes=5, num_edges=6, weighted=True, heads=8, num_graphs=1, device='meta')"
    )
