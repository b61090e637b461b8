"""Classifiers that were saved by version 0.1.0, trained for a few epochs on the karate club."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from meanmax import NodeClassifier
from meanmax.data import load

SAVED = Path(__file__).parent / "saved"


@pytest.mark.parametrize("name", ["gcn-softmax-options", "sage-lp"])
def test_saved_models_predict_what_they_did(name, tmp_path):
    dataset = load("karate")
    model = NodeClassifier.load(SAVED / f"{name}.zip")
    expected = np.load(SAVED / f"{name}.npy")
    got = model.predict_proba(dataset.graph(), dataset.x)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    model.save(tmp_path / "again.zip")
    again = NodeClassifier.load(tmp_path / "again.zip")
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.predict_proba(dataset.graph(), dataset.x), got)
