"""How features are scaled, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch

from meanmax.graph import SparseFeatures
from meanmax.nn.linear import as_dense
from meanmax.train import NodeClassifier, Settings
from meanmax.train.problem import Scaling
from meanmax.train.settings import SettingsError

# Negative values, an empty row, an empty column, and a constant one without zeros.
DENSE = np.array(
    [
        [1.0, -2.0, 0.0, 0.1, 0.0],
        [0.0, 0.0, 0.0, 0.1, 0.0],
        [3.0, 0.0, 0.0, 0.1, 8.0],
        [0.0, 6.0, 0.0, 0.1, 0.0],
    ]
)
SPARSE = DENSE * (np.arange(4) != 1)[:, None]


def by_rows(x):
    total = np.abs(x).sum(axis=1, keepdims=True)
    return x / np.where(total > 0, total, 1)


def standard(x, *, center):
    deviation = x.std(axis=0)
    deviation = np.where(deviation > 1e-9, deviation, 1)
    return (x - x.mean(axis=0) * center) / deviation


def dense(x):
    return torch.tensor(x, dtype=torch.float32)


def sparse(x):
    return SparseFeatures.from_scipy(scipy.sparse.csr_array(x.astype(np.float32)))


@pytest.mark.parametrize("x", [DENSE, SPARSE], ids=["constant", "empty-row"])
@pytest.mark.parametrize(
    ("scale", "of_dense", "of_sparse"),
    [
        ("rows", by_rows, by_rows),
        ("standard", lambda x: standard(x, center=True), lambda x: standard(x, center=False)),
        (True, lambda x: standard(x, center=True), by_rows),
    ],
)
def test_scales_are_numpys(x, scale, of_dense, of_sparse):
    found = Scaling.of(dense(x), scale)(dense(x))
    np.testing.assert_allclose(found.numpy(), of_dense(x), rtol=1e-6, atol=1e-7)
    given = sparse(x)
    scaled = Scaling.of(given, scale)(given)
    assert isinstance(scaled, SparseFeatures)
    assert scaled.value.shape == given.value.shape and scaled.dtype == torch.float32
    np.testing.assert_allclose(as_dense(scaled).numpy(), of_sparse(x), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", [dense, sparse])
@pytest.mark.parametrize("value", [0.1, -1e6, 3e-5])
def test_a_constant_column_is_not_divided_by_rounding_noise(kind, value):
    x = kind(np.full((1003, 2), value))
    scaled = as_dense(Scaling.of(x, "standard")(x)).numpy()
    expected = 0.0 if kind is dense else value
    np.testing.assert_allclose(scaled, expected, rtol=1e-6, atol=1e-6 * abs(value))


def test_the_scale_of_other_nodes_is_that_of_the_first():
    other = DENSE[::-1] * 2
    scaling = Scaling.of(dense(DENSE), "standard")
    deviation = np.where(DENSE.std(axis=0) > 1e-9, DENSE.std(axis=0), 1)
    expected = (other - DENSE.mean(axis=0)) / deviation
    np.testing.assert_allclose(scaling(dense(other)).numpy(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(as_dense(scaling(sparse(other))), expected, rtol=1e-5, atol=1e-6)


def test_another_way_is_refused():
    assert Settings.from_dict("gcn", "none", {"scale": "rows"}).to_dict() == {"scale": "rows"}
    with pytest.raises(
        SettingsError, match="'scale' must be of type bool or one of rows, standard"
    ):
        Settings.from_dict("gcn", "none", {"scale": "columns"})
    with pytest.raises(ValueError, match="'scale' must be True, False, 'rows', 'standard'"):
        Settings(scale="columns")


@pytest.mark.parametrize("scale", ["rows", "standard"])
def test_a_saved_model_scales_as_it_did(tmp_path, scale):
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(20, 4, generator=draw) * 5 + 3
    edges = torch.randint(0, 20, (2, 60), generator=draw)
    y = torch.arange(20) % 2
    train, val = torch.arange(20) < 12, torch.arange(20) >= 12
    model = NodeClassifier(scale=scale, hidden=4, epochs=3)
    model.fit(edges, x, y, train_mask=train, val_mask=val)
    model.save(tmp_path / "model.zip")
    loaded = NodeClassifier.load(tmp_path / "model.zip")
    assert loaded.scale == scale and loaded.scaling_.by_rows == (scale == "rows")
    np.testing.assert_array_equal(loaded.predict_proba(edges, x), model.predict_proba(edges, x))
