r"""Handwritten digits as graphs of their inked pixels, to learn on whole graphs without files."""

from __future__ import annotations

import numpy as np
import torch

from meanmax.data.dataset import Dataset
from meanmax.data.matrices import undirected

_HALF = ((0, 1), (1, -1), (1, 0), (1, 1))  # of the eight neighbours; the others are their opposites
_STRONGEST = 16  # ink


def digits_graphs() -> Dataset:
    r"""Each of scikit-learn's 1,797 images of 8 × 8 pixels is a graph. Its nodes are the pixels
    with ink, row by row; the features are the ink, the row and the column, all scaled to
    :math:`[0, 1]`; edges join pixels that touch, also at a corner. The label is the digit.
    """
    from sklearn.datasets import load_digits

    table = load_digits()
    ink = table.images  # [num_graphs, rows, columns]
    inked = ink > 0
    image, row, column = np.nonzero(inked)
    number = np.full(ink.shape, -1, np.int64)
    number[inked] = np.arange(image.size)
    padded = np.pad(number, ((0, 0), (0, 1), (1, 1)), constant_values=-1)
    near = [padded[image, row + down, column + 1 + right] for down, right in _HALF]
    target = np.concatenate(near)
    source = np.tile(np.arange(image.size), len(_HALF))
    touch = target >= 0
    last = ink.shape[1] - 1
    x = np.stack([ink[inked] / _STRONGEST, row / last, column / last], axis=1)
    return Dataset(
        "digits-graphs",
        torch.from_numpy(x.astype(np.float32)),
        torch.from_numpy(table.target.astype(np.int64)),
        undirected(source[touch], target[touch], image.size),
        class_names=tuple(str(label) for label in table.target_names),
        graph_ptr=torch.from_numpy(np.append(0, np.cumsum(inked.sum(axis=(1, 2))))),
        feature_names=("ink", "row", "column"),
        level="graph",
        notes=("A graph for each image: its pixels with ink, and edges between those that touch.",),
    )
