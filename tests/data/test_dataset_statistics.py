import networkx
import numpy as np
import pytest
import torch

from meanmax.data import Dataset, statistics
from meanmax.graph import SparseFeatures


def dataset(edges, y, **options):
    classes = tuple("abc") if np.ndim(y) == 1 else ("l",)
    index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    y = torch.tensor(y)
    return Dataset("s", torch.zeros(y.size(0), 4), y, index, class_names=classes, **options)


def test_undirected():
    # 0-1, 1-2 (twice), 3 alone with a self-loop, 4 alone
    both = [(0, 1), (1, 0), (1, 2), (2, 1), (1, 2), (2, 1), (3, 3)]
    found = statistics(dataset(both, [0, 0, 1, 2, -1]))
    assert (found.nodes, found.edges, found.self_loops) == (5, 2, 1)
    assert (found.features, found.classes, found.graphs, found.labelled) == (4, 3, 1, 4)
    assert (found.mean_degree, found.max_degree) == (pytest.approx(4 / 5), 2)
    assert found.homophily == 0.5
    assert (found.components, found.isolated, found.directed) == (3, 2, False)


def test_directed():
    found = statistics(dataset([(0, 1), (1, 0), (2, 1)], [0, 0, -1, 1]))
    assert (found.edges, found.directed, found.isolated, found.components) == (3, True, 1, 2)
    assert (found.mean_degree, found.max_degree) == (0.75, 2)
    assert found.homophily == 1.0  # the edge from 2 has an end without label


def test_parallel_edges_do_not_make_a_graph_directed():
    found = statistics(dataset([(0, 1), (0, 1), (1, 0)], [0, 1]))
    assert (found.edges, found.directed, found.max_degree) == (1, False, 1)


def test_no_edges():
    found = statistics(dataset([], [0, 1]))
    assert (found.edges, found.homophily, found.components, found.isolated) == (0, None, 2, 2)
    assert (found.mean_degree, found.max_degree, found.directed) == (0.0, 0, False)


def test_several_labels_have_no_homophily():
    assert statistics(dataset([(0, 1), (1, 0)], [[1.0], [0.0]])).homophily is None


def test_density_counts_what_is_not_zero_dense_or_sparse():
    x = torch.tensor([[0.0, 2.0], [0.0, 0.0], [-1.0, 3.0]])
    sparse = SparseFeatures.from_dense(x)
    sparse.value[0] = 0.0  # stored, but zero
    options = {"class_names": ("a",)}
    none, y = torch.zeros(2, 0, dtype=torch.long), torch.zeros(3, dtype=torch.long)
    assert statistics(Dataset("s", x, y, none, **options)).density == 3 / 6
    assert statistics(Dataset("s", sparse, y, none, **options)).density == 2 / 6


@pytest.mark.parametrize("seed", range(3))
def test_as_networkx_counts(seed):
    graph = networkx.gnm_random_graph(60, 70, seed=seed)
    label = np.random.default_rng(seed).integers(3, size=60)
    edges = [pair for u, v in graph.edges for pair in ((u, v), (v, u))]
    found = statistics(dataset(edges, label))
    assert found.edges == graph.number_of_edges()
    assert found.components == networkx.number_connected_components(graph)
    assert found.isolated == networkx.number_of_isolates(graph)
    assert found.max_degree == max(degree for _, degree in graph.degree)
    same = sum(label[u] == label[v] for u, v in graph.edges)
    assert found.homophily == pytest.approx(same / 70)
