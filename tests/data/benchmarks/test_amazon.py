import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from meanmax.data import load, statistics
from meanmax.data.benchmarks.amazon import read_amazon
from meanmax.data.dataset import fingerprint
from meanmax.data.files import DataError

from ..mutate import only_clear_errors
from ..real import FOLDER, needs_amazon
from ..test_files import npz

FILE = "amazon_electronics_photo.npz"


def arrays(**changes):
    """Six products: 0-1, 4-1 one way only, 1-1 itself, 5-4, and the pair 2-3 apart."""
    adjacency = np.zeros((6, 6), np.float32)
    for source, target in [(0, 1), (4, 1), (1, 1), (5, 4), (4, 5), (2, 3)]:
        adjacency[source, target] = 1
    words = np.array([[1, 0], [0, 1], [1, 1], [0, 0], [0, 1], [1, 0]], np.float32)
    content = {"labels": np.array([0, 1, 2, 3, 4, 7])}
    for prefix, matrix in (("adj", adjacency), ("attr", words)):
        rows = scipy.sparse.csr_array(matrix)
        for part in ("data", "indices", "indptr"):
            content[f"{prefix}_{part}"] = getattr(rows, part)
        content[f"{prefix}_shape"] = np.array(matrix.shape)
    return content | changes


def test_largest_component_undirected():
    dataset = read_amazon("photo", {FILE: npz(**arrays())})
    assert dataset.y.tolist() == [0, 1, 4, 7]
    assert dataset.edge_index.t().tolist() == [[1, 0], [0, 1], [2, 1], [1, 2], [3, 2], [2, 3]]
    assert dataset.x.to_dense().tolist() == [[1, 0], [0, 1], [0, 1], [1, 0]]
    assert len(dataset.class_names) == 8


WRONG = {
    "labels of other size": {"labels": np.arange(5)},
    "label without class": {"labels": np.array([0, 1, 2, 3, 4, 8])},
    "negative label": {"labels": np.array([0, 1, 2, 3, 4, -1])},
    "labels that are no integers": {"labels": np.arange(6.0)},
    "falling pointer": {"adj_indptr": np.array([0, 1, 3, 2, 4, 6, 6])},
    "column outside": {"adj_indices": np.array([1, 1, 3, 1, 5, 6])},
    "negative column": {"adj_indices": np.array([1, 1, 3, 1, 5, -1])},
    "pointer of floats": {"adj_indptr": np.array([0.0, 1, 2, 3, 3, 5, 6])},
    "not finite": {"attr_data": np.array([1, 1, 1, np.nan, 1, 1], np.float32)},
    "huge shape": {"adj_shape": np.array([2**40, 2**40])},
    "text": {"attr_data": np.array(["one"] * 6)},
    "rows missing": {"attr_shape": np.array([5, 2])},
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_content_is_refused(case):
    with pytest.raises(DataError, match=FILE):
        read_amazon("photo", {FILE: npz(**arrays(**WRONG[case]))})


def test_damaged_files():
    content = npz(**arrays())

    def parse(data):
        return read_amazon("photo", {FILE: data})

    assert only_clear_errors(parse, content, 500) > 250


@needs_amazon
@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features", "classes"),
    [("photo", 7487, 119043, 745, 8), ("computers", 13381, 245778, 767, 10)],
)
def test_counts_are_those_of_the_paper(name, nodes, edges, features, classes):
    dataset = load(name, data_dir=FOLDER, download=False)
    found = statistics(dataset)
    assert (found.nodes, found.edges) == (nodes, edges)
    assert (found.features, found.classes) == (features, classes)
    source, target = dataset.edge_index.numpy()
    matrix = scipy.sparse.coo_array((np.ones(source.size), (source, target)), (nodes, nodes))
    assert connected_components(matrix, return_labels=False) == 1


@needs_amazon
def test_another_copy_with_the_same_content_is_accepted(tmp_path):
    with np.load(FOLDER / FILE) as file:
        content = {key: file[key] for key in file}
    np.savez(tmp_path / FILE, **content)  # not compressed, so other bytes
    same = load("photo", data_dir=tmp_path, download=False)
    assert fingerprint(same) == fingerprint(load("photo", data_dir=FOLDER, download=False))
    content["labels"][0] ^= 1
    np.savez(tmp_path / FILE, **content)
    with pytest.raises(DataError, match=r"is not the published amazon_electronics_photo\.npz"):
        load("photo", data_dir=tmp_path, download=False)
