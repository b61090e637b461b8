from __future__ import annotations

import numpy as np
import pytest
import torch

from meanmax import NodeClassifier, NodeRegressor
from meanmax.data import load
from meanmax.train import load_model

QUICK = {"epochs": 3, "hidden": 4}


@pytest.mark.parametrize("kind", [NodeClassifier, NodeRegressor])
def test_either_kind_is_loaded(kind, tmp_path):
    data = load("karate")
    y = data.y if kind is NodeClassifier else torch.arange(34.0) / 3
    model = kind(**QUICK).fit(data.graph(), data.x, y, torch.arange(20))
    model.save(tmp_path / "model.zip")
    found = load_model(tmp_path / "model.zip")
    assert type(found) is kind
    expected = model.predict(data.graph(), data.x)
    np.testing.assert_array_equal(found.predict(data.graph(), data.x), expected)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "a.zip").write_bytes(b"something")
    with pytest.raises(ValueError, match="a.zip was not saved by meanmax, or is damaged"):
        load_model(tmp_path / "a.zip")
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "b.zip")
