r"""Saved models of any kind."""

from __future__ import annotations

import os
from pathlib import Path

from meanmax.train.checkpoint import read_archive
from meanmax.train.classifier import NodeClassifier
from meanmax.train.regressor import NodeRegressor

_KINDS: dict[str, type[NodeClassifier] | type[NodeRegressor]] = {
    kind._format: kind for kind in (NodeClassifier, NodeRegressor)
}


def load_model(path: str | os.PathLike[str]) -> NodeClassifier | NodeRegressor:
    r"""Reads a file that a :class:`~meanmax.NodeClassifier` or a :class:`~meanmax.NodeRegressor`
    saved; raises a :class:`ValueError` for any other file.
    """
    facts, _ = read_archive(Path(path), tuple(_KINDS), lambda name: False)
    return _KINDS[facts["format"]].load(path)
