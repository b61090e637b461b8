r"""Predictions for every node of a graph folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from meanmax.scale.edges_errors import BatchingError
from meanmax.scale.folder import GraphFolder
from meanmax.scale.layerwise import (MEMORY, layerwise)
from meanmax.scale.passes import OnRows
from meanmax.scale.rows import (Rows, ScaledRows)
from meanmax.data import Dataset
from meanmax.train import NodeClassifier


@torch.no_grad()
def predict_folder(
    classifier: NodeClassifier,
    folder: GraphFolder,
    *,
    memory: int = MEMORY,
    scratch: Path | None = None,
    on_rows: OnRows | None = None,
) -> np.ndarray:
    r"""The probability of every class, or of every label, :obj:`[num_nodes, num_classes]`, exact
    and with bounded memory beside the result.

    Args:
        classifier (NodeClassifier): A trained classifier.
        folder (GraphFolder): The graph.
        memory (int, optional): Bytes that the arrays of a block may take. (default: 1 GiB)
        scratch (Path, optional): A folder for hidden layers. (default: the graph folder's parent)
        on_rows (callable, optional): Called with the number of rows after each block.
    """
    found = folder.manifest.num_features
    if found != classifier.n_features_in_:
        raise BatchingError(
            f"{folder.path} has {found} features, but the classifier was trained on "
            f"{classifier.n_features_in_}"
        )
    rows: Rows = folder.x
    if classifier.fitted_params_["scale"]:
        rows = ScaledRows(rows, classifier.scaling_)
    place = folder.path.parent if scratch is None else scratch
    out = layerwise(
        classifier.model_, rows, folder.edges, memory=memory, scratch=place, on_rows=on_rows
    )
    chance: np.ndarray = (out.sigmoid() if classifier.multilabel_ else out.softmax(dim=1)).numpy()
    return chance


def without_graph(folder: GraphFolder) -> Dataset:
    r"""The labels and identifiers of a folder as a data set, without its features and edges.

    Args:
        folder (GraphFolder): The graph.
    """
    ids = folder.arrays.get("ids", folder.arrays.get("node"))
    return Dataset(
        folder.manifest.name,
        torch.empty(folder.num_nodes, 0),
        torch.from_numpy(np.array(folder.y)),
        torch.empty(2, 0, dtype=torch.int64),
        class_names=folder.manifest.class_names,
        node_ids=None if ids is None else np.array(ids),
    )
