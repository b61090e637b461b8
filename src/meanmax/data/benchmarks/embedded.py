r"""Small data sets that come with scikit-learn and PyG: no file, no network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from scipy.spatial.distance import cdist
from torch import Tensor

from meanmax.data.dataset import Dataset
from meanmax.data.matrices import standardise, undirected

NEIGHBOURS = 10
r"""The number of nearest neighbours that each node is joined to; edges are undirected."""


def nearest_neighbours(
    points: np.ndarray, k: int, metric: Literal["cosine", "euclidean"]
) -> Tensor:
    r"""Joins each point and its :obj:`k` nearest neighbours, undirected. Distances are compared to
    ten digits; ties go to the lower index.
    """
    distance = cdist(points, points, metric).round(10)
    np.fill_diagonal(distance, np.inf)
    nearest = distance.argsort(axis=1, kind="stable")[:, :k]
    source = np.arange(len(points)).repeat(nearest.shape[1])
    return undirected(source, nearest.ravel(), len(points))


def digits() -> Dataset:
    r"""1,797 images of 8 × 8 pixels; neighbours by the cosine of the pixels."""
    from sklearn.datasets import load_digits

    table = load_digits()
    return _from_table("digits", table, nearest_neighbours(table.data, NEIGHBOURS, "cosine"))


def wine() -> Dataset:
    r"""178 wines with 13 measurements; neighbours by the distance of standardised features."""
    from sklearn.datasets import load_wine

    return _from_measurements("wine", load_wine())


def cancer() -> Dataset:
    r"""569 tumours with 30 measurements; neighbours by the distance of standardised features."""
    from sklearn.datasets import load_breast_cancer

    return _from_measurements("cancer", load_breast_cancer())


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
    "digits": digits,
    "wine": wine,
    "cancer": cancer,
    "karate": karate,
}


def _from_measurements(name: str, table: Any) -> Dataset:
    points = standardise(table.data)
    return _from_table(name, table, nearest_neighbours(points, NEIGHBOURS, "euclidean"))


def _from_table(name: str, table: Any, edge_index: Tensor) -> Dataset:
    return Dataset(
        name,
        torch.from_numpy(standardise(table.data)),
        torch.from_numpy(table.target.astype(np.int64)),
        edge_index,
        class_names=tuple(str(label) for label in table.target_names),
        notes=(
            f"{NEIGHBOURS} nearest neighbours, undirected.",
            "Features standardised over all nodes.",
        ),
    )
