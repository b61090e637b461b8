"""Arrays in .npz and .pt files that do not fit together."""

import numpy as np
import pytest
import torch

from meanmax.data.readers import OwnDataError, check, read_own

from . import graphs

BENCHMARK = {
    "no features": ({"attr_matrix": None}, "no features"),
    "NaN": ({"attr_matrix": np.full((4, 2), np.nan)}, r"not finite in 32 bits at \[0, 0\]"),
    "text": ({"attr_matrix": np.array([["a"]] * 4)}, "'attr_matrix' must hold numbers"),
    "other nodes": ({"attr_matrix": np.ones((3, 2))}, "features of 3 nodes in a graph of 4"),
    "a large index": ({"adj_indices": np.array([1, 4])}, "must name one column of 4"),
    "a negative index": ({"adj_indices": np.array([1, -1])}, "must name one column of 4"),
    "a falling pointer": ({"adj_indptr": np.array([0, 2, 1, 2, 2])}, "must rise from 0"),
    "a long pointer": ({"adj_indptr": np.array([0, 2, 2, 2, 2, 2])}, "does not fit"),
    "a huge shape": ({"adj_shape": np.array([4, 2**40])}, "beyond 2,147,483,647"),
    "not square": ({"adj_shape": np.array([4, 5])}, "must be square"),
    "a negative weight": ({"adj_data": np.array([1.0, -0.5])}, "negative at edge 1"),
    "few labels": ({"labels": np.array([0, 1])}, "'labels' has 2 rows for 4 nodes"),
    "fractions": ({"labels": np.array([0.5, 1, 0, 1])}, "must be whole numbers"),
    "three": ({"labels": np.full((4, 2), 3)}, r"must be 0 or 1 \(got 3 at \[0, 0\]\)"),
    "one class": ({"labels": np.zeros(4, int)}, "one class 'cat'"),
    "twice the same name": ({"node_names": np.array(["a"] * 4)}, "a different identifier"),
    "overlap": ({"val_mask": np.array([1, 1, 0, 0])}, "node 0 is in 'val_mask' and in 'train"),
    "a short mask": ({"val_mask": np.array([True])}, "true or false for each of 4 nodes"),
    "split": ({"split": np.array([0, 1, 2, 3])}, "must hold 0 .train., 1 .val., 2 .test."),
}


@pytest.mark.parametrize("case", BENCHMARK)
def test_benchmark_arrays(case, tmp_path):
    changes, message = BENCHMARK[case]
    with pytest.raises(OwnDataError, match=f"^mine.npz: .*{message}"):
        read_own(graphs.benchmark_file(tmp_path, **changes))


SEVERAL = {
    "a node too large": (
        {"edges": np.array([[0, 5]])},
        r"edge 0 joins \[0, 5\], and nodes are 0 to",
    ),
    "three columns": ({"edges": np.zeros((2, 3), int)}, "two columns"),
    "floats": ({"edges": np.zeros((2, 2))}, "'edges' must hold integers"),
    "between graphs": ({"edges": np.array([[2, 3]])}, "edge 0 joins nodes of two graphs"),
    "unsorted graphs": ({"graph_id": np.array([1, 2, 1, 2, 2])}, "sort nodes by graph"),
    "no columns": ({"features": np.zeros((5, 0))}, "'features' has no columns"),
}


@pytest.mark.parametrize("case", SEVERAL)
def test_arrays_of_several_graphs(case, tmp_path):
    changes, message = SEVERAL[case]
    with pytest.raises(OwnDataError, match=message):
        read_own(graphs.several_file(tmp_path, **changes))


TENSORS = {
    "no x": ({"x": None}, "holds no tensor 'x'"),
    "sparse": ({"x": torch.eye(4).to_sparse()}, "'x' is not a plain, dense tensor"),
    "endless": ({"x": torch.ones(1, 1).expand(10**9, 10**9)}, "'x' is not a plain"),
    "a list": ({"x": [[1.0]]}, "'x' is not a plain"),
    "three rows": ({"edge_index": torch.zeros(3, 2, dtype=torch.long)}, "must be .2, num_edges"),
    "a node too large": ({"edge_index": torch.tensor([[0], [9]])}, r"joins \[0, 9\]"),
    "few weights": ({"edge_weight": torch.ones(1)}, "1 entries for 2 edges"),
    "infinite": (
        {"edge_weight": torch.tensor([1.0, torch.inf])},
        r"not finite in 32 bits at \[1\]",
    ),
    "complex": ({"x": torch.zeros(4, 2, dtype=torch.complex64)}, "must hold numbers"),
}


@pytest.mark.parametrize("case", TENSORS)
def test_tensors(case, tmp_path):
    changes, message = TENSORS[case]
    with pytest.raises(OwnDataError, match=f"^mine.pt: .*{message}"):
        read_own(graphs.tensors_file(tmp_path, **changes))


def test_labels_are_renumbered_and_names_kept(tmp_path):
    labels = np.array([7, -3, -5, 3])
    dataset = read_own(graphs.benchmark_file(tmp_path, labels=labels, class_names=None))
    assert dataset.y.tolist() == [1, -1, -1, 0]
    assert dataset.class_names == ("3", "7")
    dataset = read_own(graphs.benchmark_file(tmp_path, labels=np.array(["b", "", "a", "b"])))
    assert dataset.y.tolist() == [1, -1, 0, 1]
    assert dataset.class_names == ("a", "b")


def test_rows_of_nan_are_unlabelled(tmp_path):
    labels = np.array([[1, 0], [np.nan, np.nan], [0, 1], [1, 1], [0, 0]])
    dataset = read_own(graphs.several_file(tmp_path, labels=labels))
    assert dataset.labelled.tolist() == [True, False, True, True, True]
    assert dataset.split.train.tolist() == [0, 2]


def test_other_byte_orders_and_types(tmp_path):
    changes = {"edges": np.array([[0, 1]], ">u2"), "features": np.ones((5, 1), ">f8")}
    dataset = read_own(graphs.several_file(tmp_path, **changes))
    assert dataset.edge_index.tolist() == [[1, 0], [0, 1]]
    half = torch.tensor(graphs.FEATURES).bfloat16()
    assert read_own(graphs.tensors_file(tmp_path, x=half)).x.tolist() == half.float().tolist()


def test_unused_tensors_are_noted(tmp_path):
    problems = check(graphs.tensors_file(tmp_path, edge_attr=torch.ones(2, 3)))
    assert any("edge_attr not used" in problem.message for problem in problems)


@pytest.mark.parametrize("gap", ["-1", "nan", "NA", ""])
def test_gaps_in_an_array_of_text(gap, tmp_path):
    labels = np.array(["7", gap, "3", "3"])
    dataset = read_own(graphs.benchmark_file(tmp_path, labels=labels))
    assert (dataset.y.tolist(), dataset.class_names) == ([1, -1, 0, 0], ("3", "7"))


def test_masks_of_several_splits(tmp_path):
    masks = {name: np.zeros((4, 10), bool) for name in ("train_mask", "val_mask", "test_mask")}
    with pytest.raises(OwnDataError, match=r"several splits .*\[4, 10\]\); .* train_mask\[:, 0\]"):
        read_own(graphs.benchmark_file(tmp_path, **masks))


@pytest.mark.parametrize("split, divided", [([0, 0, 0, 1, 1], 0), ([0, -1, 0, 1, 2], 1)])
def test_splits_that_divide_a_graph_are_noted(split, divided, tmp_path):
    problems = check(graphs.several_file(tmp_path, split=np.array(split)))
    found = [problem for problem in problems if "the split divides" in problem.message]
    assert [problem.severity for problem in found] == ["note"] * divided
    assert all("1 graph (the first is number 2)" in problem.message for problem in found)
