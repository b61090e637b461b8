r"""Amazon Photo and Computers, the npz files of gnn-benchmark."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
import torch
from scipy.sparse.csgraph import connected_components

from meanmax.data.dataset import Dataset
from meanmax.data.files import DataError, read_npz, refusing
from meanmax.data.matrices import csr_problem, undirected
from meanmax.graph import SparseFeatures

_CLASSES = {
    "photo": "Film Photography, Digital Cameras, Binoculars & Scopes, Lenses, Tripods & Monopods, "
    "Video Surveillance, Lighting & Studio, Flashes",
    "computers": "Desktops, Data Storage, Laptops, Monitors, Computer Components, "
    "Video Projectors, Routers, Tablets, Networking Products, Webcams",
}


def read_amazon(name: str, files: dict[str, bytes]) -> Dataset:
    r"""Prepares a graph of products: the largest connected component of the undirected graph, in
    the order of the file. Features stay as they are.
    """
    ((what, content),) = files.items()
    classes = tuple(_CLASSES[name].split(", "))
    with refusing(what):
        adjacency, words = (read_matrix(content, prefix, what) for prefix in ("adj", "attr"))
        label = read_npz(content, ("labels",), what)["labels"]
        sizes = (*adjacency.shape, words.shape[0])
        if label.ndim != 1 or label.dtype.kind not in "iu" or set(sizes) != {label.size}:
            raise DataError(f"'{what}' must hold one label for each of {sizes[0]} nodes")
        if label.size == 0 or label.min() < 0 or label.max() >= len(classes):
            raise DataError(f"'{what}' must have labels from 0 to {len(classes) - 1}")
        component = connected_components(adjacency, directed=False)[1]
        keep = np.flatnonzero(component == np.bincount(component).argmax())
        edges = scipy.sparse.coo_array(adjacency[keep][:, keep])
        return Dataset(
            name,
            SparseFeatures.from_scipy(words[keep]),
            torch.from_numpy(label[keep].astype(np.int64)),
            undirected(edges.row, edges.col, keep.size),
            class_names=classes,
            notes=(
                "The largest connected component, edges undirected, self-loops removed.",
                "Features as released: 0 or 1 for each word of the reviews.",
            ),
            scheme="amazon",
        )


def read_matrix(content: bytes, prefix: str, what: str) -> Any:
    r"""The sparse matrix :obj:`adj`, the links, or :obj:`attr`, the features, of an npz file."""
    keys = tuple(f"{prefix}_{part}" for part in ("data", "indices", "indptr", "shape"))
    data, indices, indptr, shape = read_npz(content, keys, what).values()
    problem = csr_problem(data, indices, indptr, shape)
    if problem:
        raise DataError(f"'{what}': {problem}")
    return scipy.sparse.csr_array((data, indices, indptr), tuple(map(int, shape)))
