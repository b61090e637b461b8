r"""Saved models of any kind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

from meanmax.train.checkpoint import read_archive
from meanmax.train.classifier import GraphClassifier, NodeClassifier
from meanmax.train.regressor import GraphRegressor, NodeRegressor

Model: TypeAlias = NodeClassifier | NodeRegressor | GraphClassifier | GraphRegressor
_KINDS: dict[str, type[Model]] = {
    kind._format: kind for kind in (NodeClassifier, NodeRegressor, GraphClassifier, GraphRegressor)
}


def load_model(path: str | os.PathLike[str]) -> Model:
    r"""Reads a file that a classifier or regressor of nodes or graphs saved; raises a
    :class:`ValueError` for any other file.

    Example:
        >>> import tempfile
        >>> from meanmax import NodeClassifier
        >>> from meanmax.data import load
        >>> karate = load("karate")
        >>> model = NodeClassifier(epochs=2)
        >>> model = model.fit(karate.graph(), karate.x, karate.y, range(33), [33])
        >>> with tempfile.TemporaryDirectory() as place:
        ...     model.save(f"{place}/model.zip")
        ...     type(load_model(f"{place}/model.zip")).__name__
        'NodeClassifier'
    """
    facts, _ = read_archive(Path(path), tuple(_KINDS), lambda name: False)
    return _KINDS[facts["format"]].load(path)
