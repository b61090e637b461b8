import dataclasses
import hashlib
import struct

import numpy as np
import pytest
import torch

from meanmax.data import Dataset
from meanmax.data.dataset import Split, fingerprint
from meanmax.graph import SparseFeatures

X = [[3.0, 2.0], [1.0, 4.0], [0.0, 0.0]]
FEW = [[0.0, 2.0], [1.0, 0.0], [-0.0, 0.0]]
BASE = Dataset(
    "a",
    torch.tensor(X),
    torch.tensor([0, 1, -1]),
    torch.tensor([[1, 0, 2], [0, 1, 1]]),
    edge_weight=torch.tensor([1.0, 2.0, 3.0]),
    class_names=("u", "v"),
)


def changed(**fields):
    return dataclasses.replace(BASE, **fields)


def test_it_is_the_sha256_of_named_arrays_in_order():
    text = b"meanmax data 1\n"
    text += b"source <i8 (3,)\n" + struct.pack("<3q", 1, 0, 2)
    text += b"target <i8 (3,)\n" + struct.pack("<3q", 0, 1, 1)
    text += b"weight <f4 (3,)\n" + struct.pack("<3f", 1, 2, 3)
    text += b"x <f4 (3, 2)\n" + struct.pack("<6f", 3, 2, 1, 4, 0, 0)
    text += b"y <i8 (3,)\n" + struct.pack("<3q", 0, 1, -1)
    text += b"graphs <i8 (2,)\n" + struct.pack("<2q", 0, 3)
    assert fingerprint(BASE) == hashlib.sha256(text).hexdigest()


def test_features_that_are_mostly_zero_are_hashed_as_sparse():
    text = b"meanmax data 1\n"
    text += b"source <i8 (3,)\n" + struct.pack("<3q", 1, 0, 2)
    text += b"target <i8 (3,)\n" + struct.pack("<3q", 0, 1, 1)
    text += b"columns <i8 (2,)\n" + struct.pack("<2q", 1, 0)
    text += b"pointer <i8 (4,)\n" + struct.pack("<4q", 0, 1, 2, 2)
    text += b"values <f4 (2,)\n" + struct.pack("<2f", 2, 1)
    text += b"shape <i8 (2,)\n" + struct.pack("<2q", 3, 2)
    text += b"y <i8 (3,)\n" + struct.pack("<3q", 0, 1, -1)
    text += b"graphs <i8 (2,)\n" + struct.pack("<2q", 0, 3)
    dataset = changed(x=SparseFeatures.from_dense(FEW), edge_weight=None)
    assert fingerprint(dataset) == hashlib.sha256(text).hexdigest()


@pytest.mark.parametrize("x", [X, FEW, [[-0.0, 2.0], [1.0, 4.0], [3.0, 0.0]]])
def test_dense_or_sparse_does_not_count(x):
    sparse = SparseFeatures.from_dense(x)
    assert fingerprint(changed(x=torch.tensor(x))) == fingerprint(changed(x=sparse))
    assert torch.equal(sparse.to_dense(), torch.tensor(x))  # nothing was changed on the way


def test_stored_zeros_do_not_count():
    stored = SparseFeatures.from_dense(FEW)
    stored = stored.with_value(torch.tensor([0.0, 1.0]))
    assert fingerprint(changed(x=stored)) == fingerprint(
        changed(x=torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]))
    )
    assert stored.value.tolist() == [0.0, 1.0]


def test_weights_of_one_are_none():
    ones = changed(edge_weight=torch.ones(3))
    assert fingerprint(ones) == fingerprint(changed(edge_weight=None)) != fingerprint(BASE)


def test_the_order_of_edges_and_names_do_not_count():
    split = Split(torch.tensor([0]), torch.tensor([1]), torch.tensor([]), "s")
    same = changed(
        name="b",
        edge_index=BASE.edge_index[:, [2, 0, 1]],
        edge_weight=BASE.edge_weight[[2, 0, 1]],
        notes=("note",),
        node_ids=np.array(["x", "y", "z"]),
        split=split,
    )
    assert fingerprint(same) == fingerprint(BASE)


@pytest.mark.parametrize(
    "fields",
    [
        {"x": torch.tensor([[3.0, 2.0], [1.0, 4.0], [0.0, 1e-30]])},
        {"x": SparseFeatures.from_dense(FEW)},
        {"y": torch.tensor([0, 1, 1])},
        {"edge_index": torch.tensor([[1, 0, 2], [0, 1, 0]])},
        {"edge_weight": torch.tensor([1.0, 2.0, 4.0])},
        {"edge_weight": None},
        {"graph_ptr": torch.tensor([0, 2, 3])},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_what_a_model_sees_counts(fields):
    assert fingerprint(changed(**fields)) != fingerprint(BASE)


def test_unlabelled_rows_of_several_labels():
    nan = float("nan")
    one, two = (
        fingerprint(changed(y=torch.tensor([[1.0, 0.0], row, [0.0, 1.0]])))
        for row in ([nan, nan], [0.0, 0.0])
    )
    assert one != two


def test_a_target_is_hashed_with_its_gaps():
    def of(*values):
        return fingerprint(changed(y=torch.tensor(values), class_names=()))

    nan = float("nan")
    assert of(0.5, nan, 0.0) == of(0.5, -nan, -0.0)
    assert len({of(0.5, nan, 0.0), of(0.5, 1.0, 0.0), of(0.25, nan, 0.0), of(0.5, 0.0, nan)}) == 4


def test_splits_and_names_of_features_do_not_count():
    one = torch.tensor([0])
    split = Split(one, one + 1, one + 2, "mine")
    assert fingerprint(changed(splits=(split, split), feature_names=("f", "g"))) == fingerprint(
        BASE
    )
