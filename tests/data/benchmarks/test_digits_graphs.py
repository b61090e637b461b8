import networkx
import numpy as np
import pytest
from sklearn.datasets import load_digits

from meanmax.data import fingerprint, load, make_split, statistics


@pytest.fixture(scope="module")
def dataset():
    return load("digits-graphs")


def test_counts(dataset):
    table = load_digits()
    assert (dataset.level, dataset.num_graphs, dataset.num_classes) == ("graph", 1797, 10)
    assert dataset.y.tolist() == table.target.tolist()
    assert dataset.num_nodes == np.count_nonzero(table.data)
    found = statistics(dataset)
    assert (found.directed, found.self_loops, found.max_degree) == (False, 0, 8)
    assert make_split(dataset, seed=1).name == "folds, seed 1"
    assert fingerprint(load("digits-graphs")) == fingerprint(dataset)


@pytest.mark.parametrize("number", [0, 7, 1796])
def test_a_graph_is_its_image(dataset, number):
    image = load_digits().images[number]
    first, end = dataset.graph_ptr[number : number + 2].tolist()
    x = dataset.x[first:end].numpy()
    drawn = np.zeros((8, 8))
    places = np.rint(x[:, 1:] * 7).astype(int)
    drawn[tuple(places.T)] = x[:, 0] * 16
    np.testing.assert_array_equal(drawn, image)
    # A king's moves between inked pixels.
    board = networkx.strong_product(networkx.path_graph(8), networkx.path_graph(8))
    wanted = board.subgraph([(a, b) for a, b in board if image[a, b] > 0])
    inside = (dataset.edge_index[1] >= first) & (dataset.edge_index[1] < end)
    pairs = dataset.edge_index[:, inside].t().numpy() - first
    got = {frozenset((tuple(places[u]), tuple(places[v]))) for u, v in pairs}
    assert got == {frozenset(edge) for edge in wanted.edges}
    assert len(pairs) == 2 * wanted.number_of_edges()


def test_features_are_from_0_to_1(dataset):
    assert dataset.feature_names == ("ink", "row", "column")
    assert dataset.x.amin(0).tolist() == [1 / 16, 0, 0]
    assert dataset.x.amax(0).tolist() == [1, 1, 1]
