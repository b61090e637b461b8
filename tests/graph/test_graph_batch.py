import pytest
import torch
from torch_geometric.data import Batch, Data

from meanmax.graph import Graph

EDGES = torch.tensor([[1, 0, 2, 3], [0, 1, 3, 2]])
ONE = Graph.from_edge_index([[0], [1]])


def test_batch_vector_gives_node_ranges():
    graph = Graph.from_edge_index(EDGES, batch=torch.tensor([0, 0, 2, 2, 2]))
    assert graph.num_nodes == 5
    assert graph.num_graphs == 3
    assert graph.src_ptr.tolist() == graph.dst_ptr.tolist() == [0, 2, 2, 5]
    assert graph.src_ptr.dtype == torch.int64


def test_batch_pair_of_rectangular_graphs():
    batch = (torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1, 2]))
    graph = Graph.from_edge_index([[1, 2], [0, 2]], batch=batch)
    assert (graph.num_src, graph.num_dst, graph.num_graphs) == (3, 4, 3)
    assert graph.src_ptr.tolist() == [0, 2, 3, 3]
    assert graph.dst_ptr.tolist() == [0, 1, 3, 4]


def test_join_equals_edges_moved_by_hand():
    first = Graph.from_edge_index([[0, 1, 1], [1, 0, 1]], 3, [1.0, 2.0, 3.0])
    second = Graph.from_edge_index([[0], [0]], (4, 1), [4.0])
    third = Graph.from_edge_index(EDGES, 4, [5.0, 6.0, 7.0, 8.0], batch=torch.tensor([0, 0, 1, 1]))
    joined = Graph.batch([first, second, third])
    assert joined.edge_index.tolist() == [[0, 1, 1, 3, 8, 7, 9, 10], [1, 0, 1, 3, 4, 5, 7, 6]]
    assert joined.edge_weight.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    assert (joined.num_src, joined.num_dst, joined.num_graphs) == (11, 8, 4)
    assert joined.src_ptr.tolist() == [0, 3, 7, 9, 11]
    assert joined.dst_ptr.tolist() == [0, 3, 4, 6, 8]

    alone = Graph.from_edge_index(joined.edge_index, (11, 8), joined.edge_weight)
    for name in ("rowptr", "col", "perm", "weight", "colptr", "row", "csc_to_csr"):
        assert torch.equal(getattr(joined, name), getattr(alone, name)), name
    assert joined.rowptr.dtype == joined.perm.dtype == torch.int32


def test_join_of_sorted_graphs_stays_sorted():
    graph = Graph.from_edge_index([[1, 0], [0, 1]])
    joined = Graph.batch([graph, graph])
    assert joined.perm is None
    assert joined.weight is None
    assert joined.edge_index.tolist() == [[1, 0, 3, 2], [0, 1, 2, 3]]


def test_join_needs_graphs_of_one_kind():
    plain = Graph.from_edge_index(EDGES)
    with pytest.raises(ValueError, match="at least one graph"):
        Graph.batch([])
    with pytest.raises(ValueError, match="got 1 of 2 with weights"):
        Graph.batch([plain, plain.with_weight(torch.ones(4))])
    with pytest.raises(ValueError, match=r"equally many heads \(got \[\(\), \(2,\)\]\)"):
        Graph.batch([plain.with_weight(torch.ones(4)), plain.with_weight(torch.ones(4, 2))])


def test_join_equals_pyg_batch():
    first = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=3)
    last = Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=0)
    data = [first, Data(edge_index=EDGES, num_nodes=4), last]
    options = {"normalize": "sym", "self_loops": True}
    batch = Graph.from_data(Batch.from_data_list(data), **options)
    joined = Graph.batch([Graph.from_data(each, **options) for each in data])
    assert batch.num_graphs == joined.num_graphs == 3
    assert batch.dst_ptr.tolist() == joined.dst_ptr.tolist() == [0, 3, 7, 7]
    for name in ("rowptr", "col", "weight"):
        assert torch.equal(getattr(batch, name), getattr(joined, name)), name


@pytest.mark.parametrize(
    ("graphs", "got"), [([ONE, 1], "got int at 1"), (None, "got NoneType"), (ONE, "got Graph")]
)
def test_what_is_no_list_of_graphs(graphs, got):
    with pytest.raises(TypeError, match=rf"'graphs' must .*meanmax.Graph \({got}\)"):
        Graph.batch(graphs)
