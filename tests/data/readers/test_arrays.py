"""Arrays in .npz and .pt files that do not fit together."""

import os
import zipfile

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
    "endless": ({"labels": np.array([np.inf, 1, 0, 1])}, "must be finite numbers"),
    "an endless target": ({"labels": np.array([0.5, np.inf, 0, 1])}, "target of node 'bob' is not"),
    "one target": ({"labels": np.array([0.5, 0.5, np.nan, 0.5])}, "the one number 0.5"),
    "objects": ({"labels": np.array([[1], [1, 2], 3, 4], object)}, "np.array.values.tolist"),
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


@pytest.mark.parametrize("call", ["builtins\nbytearray", "__builtin__\nbytearray", "torch\nTensor"])
def test_a_pickle_that_asks_for_memory_is_refused_before_it_takes_any(call, tmp_path):
    program = f"\x80\x02}}X\1\0\0\0xc{call}\n\x8a\5\0\0\0\0\1\x85Rs.".encode("latin-1")  # 4 GiB
    with zipfile.ZipFile(tmp_path / "mine.pt", "w") as archive:
        archive.writestr("mine/data.pkl", program)
        archive.writestr("mine/version", "3\n")
    name = call.rpartition("\n")[2]
    with pytest.raises(OwnDataError, match=f"it builds a {name}, which saved tensors do not need"):
        read_own(tmp_path / "mine.pt")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
@pytest.mark.parametrize(
    "name",
    [
        "mine.npz",
        "mine.pt",
        "mine.zip",
        pytest.param("mine.json", marks=pytest.mark.extra),
        pytest.param("mine.json.gz", marks=pytest.mark.extra),
    ],
)
def test_a_pipe_is_refused_instead_of_waited_for(name, tmp_path):
    os.mkfifo(tmp_path / name)
    with pytest.raises(OwnDataError, match="is a pipe or a device: copy what it gives to a file"):
        read_own(tmp_path / name)


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


TWO_SPLITS = np.array([[[1, 0, 0, 0], [0, 1, 0, 0]],
                       [[0, 1, 0, 0], [1, 0, 0, 0]],
                       [[0, 0, 0, 1], [0, 0, 0, 1]]], bool)  # fmt: skip


def split_parts(dataset):
    return [[part.tolist() for part in (s.train, s.val, s.test)] for s in dataset.splits]


def heterophilous_file(folder, **changes):
    """A file as the heterophilous benchmarks have it."""
    arrays = {
        "node_features": np.array(graphs.FEATURES, np.float32),
        "node_labels": np.array([0, 1, -1, 0]),
        "edges": np.array([[1, 0], [0, 2]]),
        **dict(zip(("train_masks", "val_masks", "test_masks"), TWO_SPLITS, strict=True)),
    }
    np.savez(folder / "mine.npz", **{**arrays, **changes})
    return folder / "mine.npz"


def test_a_file_of_the_heterophilous_benchmarks(tmp_path):
    dataset = read_own(heterophilous_file(tmp_path))
    assert dataset.edge_index.tolist() == graphs.EDGE_INDEX
    assert dataset.y.tolist() == graphs.Y
    assert split_parts(dataset) == [[[0], [1], [3]], [[1], [0], [3]]]
    assert dataset.split is dataset.splits[0]
    assert [split.name for split in dataset.splits] == ["own, row 0", "own, row 1"]


@pytest.mark.parametrize("layout", ["columns", "rows", "shared test nodes"])
def test_masks_of_several_splits(layout, tmp_path):
    train, val, test = TWO_SPLITS if layout == "rows" else TWO_SPLITS.transpose(0, 2, 1)
    test = test[:, 0] if layout == "shared test nodes" else test
    masks = {"train_mask": train, "val_mask": val, "test_mask": test}
    dataset = read_own(graphs.benchmark_file(tmp_path, **masks))
    assert split_parts(dataset) == [[[0], [1], [3]], [[1], [0], [3]]]


def test_square_masks_are_columns_in_pyg_and_rows_elsewhere(tmp_path):
    train = np.eye(4, dtype=bool)[[0, 0, 1, 3]]
    empty = {"val_masks": np.zeros((4, 4), bool), "test_masks": np.zeros((4, 4), bool)}
    dataset = read_own(heterophilous_file(tmp_path, train_masks=train, **empty))
    assert [split.train.tolist() for split in dataset.splits] == [[0], [0], [1], [3]]
    none = dict.fromkeys(("val_mask", "test_mask"))
    train = np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]])
    dataset = read_own(graphs.benchmark_file(tmp_path, train_mask=train, **none))
    assert [split.train.tolist() for split in dataset.splits] == [[0], [0], [1], [3]]


SPLITS = {
    "overlap": ({"val_masks": TWO_SPLITS[0]}, "node 0 is in 'val_masks' and in .* of split 0"),
    "other nodes": ({"val_masks": np.zeros((2, 5), bool)}, r"each of 4 nodes \(got \[2, 5\]\)"),
    "other splits": (
        {"val_masks": np.zeros((3, 4), bool)},
        "holds 2 splits where another mask holds 3",
    ),
    "no training": ({"train_masks": TWO_SPLITS[2] & [[1], [0]]}, "split 1 trains on no labelled"),
}


@pytest.mark.parametrize("case", SPLITS)
def test_several_splits_that_cannot_be(case, tmp_path):
    changes, message = SPLITS[case]
    with pytest.raises(OwnDataError, match=message):
        read_own(heterophilous_file(tmp_path, **changes))


@pytest.mark.parametrize("labels", [
    np.array([1.5, -2.0, np.nan, 0.25]),
    np.array(["1.5", "-2", "", "2.5e-1"]),
], ids=["numbers", "text"])  # fmt: skip
def test_numbers_that_are_not_whole_are_a_target(labels, tmp_path):
    dataset = read_own(graphs.benchmark_file(tmp_path, labels=labels))
    assert (dataset.task, dataset.y.dtype, dataset.class_names) == ("regression", torch.float32, ())
    np.testing.assert_array_equal(dataset.y, [1.5, -2, np.nan, 0.25])
    assert dataset.split.train.tolist() == [0]
    assert any("a regression target" in note for note in dataset.notes)


def test_a_column_of_targets_in_pyg(tmp_path):
    y = torch.tensor([[1.5], [2.0], [torch.nan], [3.0]])
    np.testing.assert_array_equal(
        read_own(graphs.tensors_file(tmp_path, y=y)).y, [1.5, 2, np.nan, 3]
    )


def test_whole_numbers_stay_classes(tmp_path):
    dataset = read_own(graphs.benchmark_file(tmp_path, labels=np.array([3.0, 1.0, np.nan, 3.0]),
                                             class_names=None))  # fmt: skip
    assert (dataset.task, dataset.y.tolist()) == ("multiclass", [1, 0, -1, 1])
    assert dataset.class_names == ("1", "3")


def test_nan_in_features_is_filled_if_asked(tmp_path):
    x = np.array([[1, np.nan], [2, 5], [6, np.nan], [np.nan, 7]])
    path = graphs.benchmark_file(tmp_path, attr_matrix=x)
    with pytest.raises(OwnDataError, match=r"not finite .*impute='mean' \(--impute mean\)"):
        read_own(path)
    dataset = read_own(path, impute="mean")
    assert dataset.x.tolist() == [[1, 6], [2, 5], [6, 6], [3, 7]]
    assert dataset.encoding == {"impute": {"0": 3.0, "1": 6.0}}
    assert read_own(path, impute="median").x[:, 0].tolist() == [1, 2, 6, 2]
    assert read_own(path, impute={"0": -1, "1": -2}).x.tolist() == [
        [1, -2],
        [2, 5],
        [6, -2],
        [-1, 7],
    ]
    with pytest.raises(OwnDataError, match="not finite in 32 bits at .0, 1."):
        read_own(graphs.benchmark_file(tmp_path, attr_matrix=x[:, [0, 1]] * [1, np.nan]),
                 impute="mean")  # fmt: skip


def test_arrays_have_no_columns_of_text(tmp_path):
    with pytest.raises(OwnDataError, match="'one_hot' names columns of tables"):
        read_own(graphs.benchmark_file(tmp_path), one_hot=["colour"])


@pytest.mark.parametrize("split, divided", [([0, 0, 0, 1, 1], 0), ([0, -1, 0, 1, 2], 1)])
def test_splits_that_divide_a_graph_are_noted(split, divided, tmp_path):
    problems = check(graphs.several_file(tmp_path, split=np.array(split)))
    found = [problem for problem in problems if "the split divides" in problem.message]
    assert [problem.severity for problem in found] == ["note"] * divided
    assert all("1 graph (the first is number 2)" in problem.message for problem in found)
