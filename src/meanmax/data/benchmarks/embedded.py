r"""Small data sets that come with scikit-learn and PyG: no file, no network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from scipy.spatial.distance import cdist
from torch import Tensor

from meanmax.data.dataset import Dataset
from meanmax.data.matrices import standardise, undirected

NEIGHBOURS = 10


def nearest_neighbours(points: np.ndarray, k: int, metric: str) -> Tensor:
    r"""Joins each point and its :obj:`k` nearest neighbours, undirected. Distances are compared to
    ten digits; ties go to the lower index.
    """
    distance = cdist(points, points, metric).round(10)
    np.fill_diagonal(distance, np.inf)
    nearest = distance.argsort(axis=1, kind="stable")[:, :k]
    source = np.arange(len(points)).repeat(nearest.shape[1])
    return undirected(source, nearest.ravel(), len(points))


def from_sklearn(name: str) -> Dataset:
    r"""A table of scikit-learn: features are standardised over all nodes, neighbours are found by
    the cosine of the pixels (digits) or the distance of standardised features (wine, cancer).
    """
    from sklearn import datasets

    table = getattr(datasets, f"load_{'breast_cancer' if name == 'cancer' else name}")()
    x = standardise(table.data)
    near = (table.data, NEIGHBOURS, "cosine") if name == "digits" else (x, NEIGHBOURS, "euclidean")
    return Dataset(
        name,
        torch.from_numpy(x),
        torch.from_numpy(table.target.astype(np.int64)),
        nearest_neighbours(*near),
        class_names=tuple(str(label) for label in table.target_names),
        notes=(
            f"{NEIGHBOURS} nearest neighbours, undirected.",
            "Features standardised over all nodes.",
        ),
    )


def karate() -> Dataset:
    r"""Zachary's karate club with the four communities and one-hot features of PyG."""
    from torch_geometric.datasets import KarateClub

    club = KarateClub()[0]
    source, target = club.edge_index.numpy()
    return Dataset(
        "karate",
        club.x.to(torch.float32),
        club.y.to(torch.int64),
        undirected(source, target, club.num_nodes),
        class_names=tuple(f"community {number}" for number in range(4)),
        notes=("Features are one-hot: each member is a feature.",),
    )


EMBEDDED: dict[str, Callable[[], Dataset]] = {
    **{name: partial(from_sklearn, name) for name in ("digits", "wine", "cancer")},
    "karate": karate,
}
