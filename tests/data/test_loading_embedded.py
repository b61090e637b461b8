import networkx
import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.neighbors import kneighbors_graph
from sklearn.preprocessing import StandardScaler

from meanmax.data import load, statistics
from meanmax.data.loading import nearest_neighbours

TABLES = {"digits": load_digits, "wine": load_wine, "cancer": load_breast_cancer}


@pytest.mark.parametrize("name", TABLES)
def test_features_and_labels_are_those_of_scikit_learn(name):
    dataset, table = load(name), TABLES[name]()
    np.testing.assert_allclose(dataset.x, StandardScaler().fit_transform(table.data), atol=1e-5)
    assert dataset.y.tolist() == table.target.tolist()
    assert dataset.num_classes == len(table.target_names)


@pytest.mark.parametrize("name", TABLES)
def test_ten_nearest_neighbours_either_way(name):
    points, metric = TABLES[name]().data, "cosine"
    if name != "digits":
        points, metric = StandardScaler().fit_transform(points), "euclidean"
    chosen = kneighbors_graph(points, 10, metric=metric)
    want = {(u, v) for u, v in zip(*(chosen + chosen.T).nonzero(), strict=True)}
    got = {(u, v) for u, v in load(name).edge_index.t().tolist()}
    # Equally distant points may be chosen differently, but hardly any are.
    assert len(got ^ want) <= 0.001 * len(want)


def test_ties_go_to_the_first():
    line = np.array([[0.0], [1.0], [2.0], [3.0]])
    edges = nearest_neighbours(line, 1, "euclidean")
    assert edges.t().tolist() == [[1, 0], [0, 1], [2, 1], [1, 2], [3, 2], [2, 3]]


def test_karate_club():
    dataset = load("karate")
    club = networkx.karate_club_graph()
    assert {(u, v) for u, v in dataset.edge_index.t().tolist() if u < v} == set(club.edges)
    assert torch.equal(dataset.x, torch.eye(34))
    assert statistics(dataset).edges == 78
    assert dataset.y.unique().tolist() == [0, 1, 2, 3]
