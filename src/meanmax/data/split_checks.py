r"""What every split has to be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from meanmax.data.dataset import Dataset
from meanmax.data.errors import DataError
from meanmax.data.split import Split


def checked_split(dataset: Dataset, parts: Sequence[np.ndarray], name: str) -> Split:
    r"""Sorted, disjoint sets of nodes; nodes without label are left out of each.

    Args:
        dataset (Dataset): What is split.
        parts (sequence): The nodes to learn from, at least one; to select on; to report on.
        name (str): What to call the split.
    """
    for part, nodes in zip(("train", "val", "test"), parts, strict=True):
        if nodes.ndim != 1 or nodes.dtype.kind not in "iu":
            raise DataError(f"'{part}' of split '{name}' must be a list of node numbers")
        if nodes.size and (nodes.min() < 0 or nodes.max() >= dataset.num_nodes):
            raise DataError(
                f"'{part}' of split '{name}' must hold nodes from 0 to {dataset.num_nodes - 1} "
                f"(got {nodes.min()} to {nodes.max()})"
            )
    together = np.concatenate([nodes.astype(np.int64) for nodes in parts])
    values, counts = np.unique(together, return_counts=True)
    if (counts > 1).any():
        node = int(values[counts > 1][0])
        raise DataError(f"split '{name}' must name each node once (node {node} comes twice)")
    labelled = dataset.labelled.numpy()
    kept = [np.sort(nodes[labelled[nodes]]).astype(np.int64) for nodes in parts]
    if kept[0].size == 0:
        raise DataError(f"split '{name}' has no labelled node to train on")
    train, val, test = (torch.from_numpy(nodes) for nodes in kept)
    return Split(train, val, test, name)
