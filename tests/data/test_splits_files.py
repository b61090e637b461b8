import numpy as np
import pytest
import torch

from meanmax.data import load, make_split
from meanmax.data.files import DataError

from .mutate import only_clear_errors
from .real import FOLDER, needs
from .test_splits import labelled


@pytest.fixture
def dataset():
    return labelled([0, 1, 0, 1, -1, 0], node_ids=np.array(["a", "b", "c", "d", "e", "f"]))


def read(dataset, folder, name, content, seed=0):
    path = folder / name
    if isinstance(content, dict):
        np.savez(path, **content)
    else:
        path.write_bytes(content.encode())
    split = make_split(dataset, f"file:{path}", seed)
    return split.train.tolist(), split.val.tolist(), split.test.tolist()


ROWS = {
    "train": np.array([[1, 0], [3, 2]], np.int32),
    "val": np.array([[2], [1]]),
    "test": np.array([[5], [0]]),
}
FORMS = {
    "plain": lambda part, row: (part, ROWS[part][row]),
    "rows": lambda part, row: (part, ROWS[part]),
    "with the name": lambda part, row: (f"made up_{part}", ROWS[part]),
    "masks": lambda part, row: (f"{part}_mask", np.isin(np.arange(6), ROWS[part][row])),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("row", [0, 1])
def test_npz(dataset, tmp_path, form, row):
    content = dict(FORMS[form](part, row) for part in ROWS)
    want = ([0, 1], [2], [5]) if row == 0 else ([2, 3], [1], [0])
    assert read(dataset, tmp_path, "split.npz", content, row) == want


def test_csv(dataset, tmp_path):
    text = "id,split\nf,test\na,train\nc,Validation\nb,train\nd,\n"
    assert read(dataset, tmp_path, "split.csv", text) == ([0, 1], [2], [5])


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_csv_of_other_programs(dataset, tmp_path, mark):
    text = "Id,Split\r\nf,Test\r\na,train\r\nc,1\r\nb,TRAIN\r\n".replace(",", mark)
    assert read(dataset, tmp_path, "split.csv", text) == ([0, 1], [2], [5])


@pytest.mark.parametrize("kind", [np.bool_, np.uint8, np.int64, np.float32])
@pytest.mark.parametrize("name", ["train", "train_mask"])
def test_masks_of_other_types(dataset, tmp_path, kind, name):
    masks = {
        name.replace("train", part): np.isin(np.arange(6), nodes[0]).astype(kind)
        for part, nodes in ROWS.items()
    }
    assert read(dataset, tmp_path, "split.npz", masks) == ([0, 1], [2], [5])


@pytest.mark.parametrize("kind", [np.bool_, np.uint8])
@pytest.mark.parametrize("row", [0, 1])
def test_masks_with_a_row_for_each_node(dataset, tmp_path, kind, row):
    masks = {
        f"{part}_mask": np.stack([np.isin(np.arange(6), nodes[k]) for k in (0, 1)], 1).astype(kind)
        for part, nodes in ROWS.items()
    }
    want = ([0, 1], [2], [5]) if row == 0 else ([2, 3], [1], [0])
    assert read(dataset, tmp_path, "split.npz", masks, row) == want
    with pytest.raises(DataError, match="has 2 splits, no column 2"):
        read(dataset, tmp_path, "split.npz", masks, 2)


def test_two_nodes_by_number(tmp_path):
    content = {"train": np.array([1, 0]), "val": np.zeros(0, int), "test": np.zeros(0, int)}
    assert read(labelled([0, 1]), tmp_path, "split.npz", content) == ([0, 1], [], [])


def test_csv_by_number(tmp_path):
    text = "split,id\ntrain,2\nval,0\ntest,1\n"
    assert read(labelled([0, 1, 0]), tmp_path, "split.csv", text) == ([2], [0], [1])


def test_nodes_without_label_are_left_out(dataset, tmp_path):
    content = {"train": np.array([0, 4]), "val": np.array([1]), "test": np.array([2])}
    assert read(dataset, tmp_path, "split.npz", content) == ([0], [1], [2])


WRONG = {
    "twice": ("s.npz", {"train": [0, 1], "val": [1], "test": [2]}, "node 1 occurs twice"),
    "outside": ("s.npz", {"train": [0, 6], "val": [1], "test": [2]}, "nodes from 0 to 5"),
    "negative": ("s.npz", {"train": [0, -1], "val": [1], "test": [2]}, "nodes from 0 to 5"),
    "floats": ("s.npz", {"train": [0.5], "val": [1], "test": [2]}, "node numbers"),
    "no test": ("s.npz", {"train": [0], "val": [1]}, "must hold train"),
    "no row": ("s.npz", {"train": [[0]], "val": [[1]], "test": [[2]]}, "no row 1"),
    "nothing": ("s.npz", {"train": [4], "val": [1], "test": [2]}, "no labelled node"),
    "short mask": ("s.npz", {"train": [True], "val": [False], "test": [False]}, "masks of 6"),
    "numbers as mask": (
        "s.npz",
        {"train_mask": [0, 2, 3, 1, 4, 5], "val_mask": [0] * 6, "test_mask": [0] * 6},
        "'s.npz: train_mask' must hold masks of 6 nodes",
    ),
    "no columns": ("s.csv", "a,train\n", "columns id and split"),
    "unknown node": ("s.csv", "id,split\na,train\nz,test\n", "line 3 of 's.csv'.*node 'z'"),
    "unknown part": ("s.csv", "id,split\na,trian\n", "line 2 of 's.csv'.*got 'trian'"),
    "no archive": ("s.npz.csv", "PK", "columns id and split"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_files_are_refused(dataset, tmp_path, case):
    name, content, message = WRONG[case]
    with pytest.raises(DataError, match=message):
        read(dataset, tmp_path, name, content, seed=1 if case == "no row" else 0)


def test_a_file_that_is_not_there(dataset, tmp_path):
    with pytest.raises(DataError, match="there is no split file"):
        make_split(dataset, f"file:{tmp_path / 'none.npz'}")


@pytest.mark.parametrize("name", ["split.npz", "split.csv"])
def test_damaged_files(dataset, tmp_path, name):
    path = tmp_path / name
    if name == "split.npz":
        np.savez(path, **{part: nodes[0] for part, nodes in ROWS.items()})
    else:
        path.write_text("id,split\nf,test\na,train\nc,val\nb,train\n")

    def parse(content):
        (tmp_path / f"damaged-{name}").write_bytes(content)
        return make_split(dataset, f"file:{tmp_path / f'damaged-{name}'}")

    assert only_clear_errors(parse, path.read_bytes(), 300) > 30


@needs("citation_splits.npz", "ind.cora.graph", "ind.citeseer.graph")
def test_the_splits_of_the_authors():
    file = FOLDER / "citation_splits.npz"
    with np.load(file) as content:
        train, test = content["cora_train"][3], content["citeseer_test"][3]
    cora = load("cora", data_dir=FOLDER, download=False)
    split = make_split(cora, f"file:{file}", 3)
    assert split.train.tolist() == sorted(train.tolist())
    assert torch.bincount(cora.y[split.train]).tolist() == [20] * 7  # so the node order is right
    citeseer = load("citeseer", data_dir=FOLDER, download=False)
    split = make_split(citeseer, f"file:{file}", 3)
    known = citeseer.labelled.numpy()
    assert split.test.tolist() == sorted(node for node in test.tolist() if known[node])
