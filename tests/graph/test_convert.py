import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.utils import from_scipy_sparse_matrix

from meanmax.graph import Graph

EDGES = torch.tensor([[0, 2, 1], [1, 0, 2]])
WEIGHT = torch.tensor([1.0, 2.0, 3.0])


def dense(graph):
    matrix = np.zeros((graph.num_src, graph.num_dst))
    weight = torch.ones(graph.num_edges) if graph.weight is None else graph.edge_weight
    np.add.at(matrix, tuple(graph.edge_index.numpy()), weight.numpy())
    return matrix


def test_data():
    data = Data(x=torch.ones(4, 2), edge_index=EDGES, edge_weight=WEIGHT, half=WEIGHT / 2)
    assert Graph.from_data(data).num_nodes == 4
    assert torch.equal(Graph.from_data(data).edge_index, EDGES)
    assert torch.equal(Graph.from_data(data).edge_weight, WEIGHT)
    assert torch.equal(Graph.from_data(data, edge_weight="half").edge_weight, WEIGHT / 2)
    assert Graph.from_data(data, edge_weight=None).weight is None
    del data.edge_weight
    assert Graph.from_data(data).weight is None
    looped = Graph.from_data(data, normalize="row", self_loops=True)
    assert looped.edge_weight.tolist() == [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1.0]


def test_data_with_a_batch_vector():
    data = Data(edge_index=EDGES, num_nodes=4, batch=torch.tensor([0, 0, 0, 1]))
    assert Graph.from_data(data).dst_ptr.tolist() == [0, 3, 4]


def test_batch_of_data_keeps_its_graphs():
    data = Data(edge_index=EDGES, edge_weight=WEIGHT, num_nodes=3)
    graph = Graph.from_data(Batch.from_data_list([data, data]))
    assert (graph.num_graphs, graph.num_nodes, graph.num_edges) == (2, 6, 6)
    assert graph.src_ptr.tolist() == [0, 3, 6]
    assert graph.edge_weight.tolist() == [1.0, 2.0, 3.0] * 2


def test_data_errors():
    with pytest.raises(TypeError, match=r"Data or a Batch of them \(got HeteroData\)"):
        Graph.from_data(HeteroData())
    with pytest.raises(ValueError, match=r"no 'edge_index' \(it has \['x'\]\)"):
        Graph.from_data(Data(x=torch.ones(2, 1)))
    with pytest.raises(ValueError, match=r"no edge weights 'cost' \(it has \['edge_index'"):
        Graph.from_data(Data(edge_index=EDGES, num_nodes=3), edge_weight="cost")


FORMATS = ["coo", "csr", "csc", "lil", "dok", "bsr"]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8, bool])
def test_scipy_entry_i_j_is_the_edge_from_i_to_j(kind, dtype):
    expected = np.array([[0, 1, 0, 1], [1, 0, 0, 0], [0, 1, 1, 0]], dtype)
    graph = Graph.from_scipy(scipy.sparse.coo_array(expected).asformat(kind))
    assert (graph.num_src, graph.num_dst) == (3, 4)
    assert graph.weight.dtype == (torch.float64 if dtype == np.float64 else torch.float32)
    np.testing.assert_array_equal(dense(graph), expected)


def test_scipy_equals_pyg_and_keeps_zeros_and_multiple_edges():
    matrix = scipy.sparse.coo_matrix(([1.0, 0.0, 2.0], ([0, 1, 0], [1, 0, 1])), shape=(2, 2))
    graph = Graph.from_scipy(matrix)
    index, weight = from_scipy_sparse_matrix(matrix)
    assert torch.equal(graph.edge_index, index)
    assert torch.equal(graph.edge_weight, weight)


def test_scipy_products_equal_ours():
    matrix = scipy.sparse.random(30, 20, density=0.2, format="csr", random_state=0)
    graph = Graph.from_scipy(matrix)
    weight, col, rowptr = (t.numpy() for t in (graph.weight, graph.col, graph.rowptr))
    ours = scipy.sparse.csr_array((weight, col, rowptr), shape=(20, 30))
    np.testing.assert_array_equal(ours.toarray(), matrix.toarray().T)
    order = graph.csc_to_csr.numpy()
    columns = (weight[order], graph.row.numpy(), graph.colptr.numpy())
    np.testing.assert_array_equal(
        scipy.sparse.csc_array(columns, shape=(20, 30)).toarray(), ours.toarray()
    )


def test_scipy_sorted_by_column_is_not_sorted_again():
    matrix = scipy.sparse.random(9, 9, density=0.5, format="csc", random_state=0)
    assert Graph.from_scipy(matrix).perm is None
    options = {"normalize": "sym", "self_loops": "replace"}
    assert Graph.from_scipy(matrix, **options).num_edges > 9


def test_scipy_errors():
    with pytest.raises(TypeError, match=r"scipy sparse matrix \(got ndarray\)"):
        Graph.from_scipy(np.eye(2))
    with pytest.raises(ValueError, match="must not be negative"):
        Graph.from_scipy(-scipy.sparse.eye_array(2, format="csr"))


@pytest.mark.parametrize(
    "kind", [networkx.Graph, networkx.DiGraph, networkx.MultiGraph, networkx.MultiDiGraph]
)
@pytest.mark.parametrize("weight", [None, "cost"])
def test_networkx_equals_its_own_matrix(kind, weight):
    given = kind()
    given.add_nodes_from("dcba")
    edges = [("a", "b", 2.0), ("b", "a", 3.0), ("b", "c", 0.5), ("c", "c", 4.0), ("b", "c", 1.0)]
    given.add_weighted_edges_from(edges, weight="cost")
    graph = Graph.from_networkx(given, edge_weight=weight)
    expected = networkx.to_numpy_array(given, weight=weight, multigraph_weight=sum)
    assert (graph.weight is None) == (weight is None)
    np.testing.assert_array_equal(dense(graph), expected)
    loops = given.number_of_edges() * (1 if given.is_directed() else 2)
    assert graph.num_edges == loops - (not given.is_directed())


def test_networkx_without_edges_and_options():
    assert Graph.from_networkx(networkx.Graph()).num_nodes == 0
    path = Graph.from_networkx(networkx.path_graph(3), normalize="row", self_loops=True)
    assert path.rowptr.tolist() == [0, 2, 5, 7]


def test_networkx_missing_weight():
    given = networkx.Graph([("a", "b")])
    with pytest.raises(ValueError, match="the edge 'a' -> 'b' has no attribute 'cost'"):
        Graph.from_networkx(given, edge_weight="cost")
