r"""Protein interactions in 24 tissues: the release, and its variant with rebuilt labels."""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np
import torch

from meanmax.data.dataset import Dataset, Split
from meanmax.data.files import DataError, read_npy, read_npz, read_zip, refusing
from meanmax.data.matrices import standardise, undirected

_ROLES = ("train", "valid", "test")
_PARTS = ("graph.json", "feats.npy", "labels.npy", "graph_id.npy")
_NOTES = (
    "Features standardised on the nodes of the training graphs.",
    "Undirected; duplicate edges and self-loops removed.",
)
_REBUILT = "Labels rebuilt from the Gene Ontology: results on ppi-go are not results on PPI."


class _Tissues(NamedTuple):
    features: np.ndarray
    labels: np.ndarray
    edges: np.ndarray  # [num_edges, 2]
    graph_id: np.ndarray
    role: np.ndarray  # of each node: 0 train, 1 validation, 2 test


def read_ppi(name: str, files: dict[str, bytes]) -> Dataset:
    r"""Prepares the 24 graphs, in the order of the files."""
    ((what, content),) = files.items()
    with refusing(what):
        if name == "ppi":
            raw = _read_release(content, what)
        else:
            keys = ("features", "labels", "edges", "graph_id", "split")
            raw = _Tissues(*read_npz(content, keys, what).values())
        _check(raw, what)
        graph_ptr = np.append(np.flatnonzero(np.diff(raw.graph_id, prepend=-1)), raw.role.size)
        train, val, test = (torch.from_numpy(np.flatnonzero(raw.role == k)) for k in range(3))
        return Dataset(
            name,
            torch.from_numpy(standardise(raw.features, raw.role == 0)),
            torch.from_numpy(raw.labels.astype(np.float32)),
            undirected(raw.edges[:, 0], raw.edges[:, 1], raw.role.size),
            class_names=tuple(f"GO set {label}" for label in range(raw.labels.shape[1])),
            graph_ptr=torch.from_numpy(graph_ptr),
            split=Split(train, val, test, "as released"),
            notes=_NOTES if name == "ppi" else (*_NOTES, _REBUILT),
            scheme="inductive",
        )


def _read_release(content: bytes, what: str) -> _Tissues:
    """The three parts, one after the other; nodes are numbered within each part."""
    members = tuple(f"{role}_{part}" for role in _ROLES for part in _PARTS)
    unpacked = read_zip(content, members, what)
    parts: list[_Tissues] = []
    first_node, first_graph = 0, 0
    for number, role in enumerate(_ROLES):
        x, y, graph_id = (read_npy(unpacked[f"{role}_{part}"], role) for part in _PARTS[1:])
        edges = _links(unpacked[f"{role}_graph.json"], x.shape[0], what)
        ids = np.unique(graph_id, return_inverse=True)[1]
        where = np.full(x.shape[0], number)
        parts.append(_Tissues(x, y, edges + first_node, ids + first_graph, where))
        first_node += x.shape[0]
        first_graph += int(ids.max(initial=-1)) + 1
    return _Tissues(*(np.concatenate(pieces) for pieces in zip(*parts, strict=True)))


def _links(content: bytes, num_nodes: int, what: str) -> np.ndarray:
    ends = [(link["source"], link["target"]) for link in json.loads(content)["links"]]
    if not all(type(a) is int and type(b) is int for a, b in ends):
        raise DataError(f"'{what}' must number its nodes with integers")
    edges = np.array(ends, np.int64).reshape(-1, 2)
    if edges.size and (edges.min() < 0 or edges.max() >= num_nodes):
        raise DataError(f"'{what}' has an edge outside its {num_nodes} nodes")
    return edges


def _check(raw: _Tissues, what: str) -> None:
    shapes = {array.shape[:1] for array in (raw.features, raw.labels, raw.graph_id, raw.role)}
    if len(shapes) != 1 or raw.role.size == 0 or raw.edges.shape[1:] != (2,):
        raise DataError(f"'{what}' must describe every node in each of its arrays")
    if raw.features.ndim != 2 or raw.labels.ndim != 2 or raw.graph_id.ndim != 1:
        raise DataError(f"'{what}' must hold matrices of features and labels")
    if any(array.dtype.kind not in "iuf" for array in raw) or raw.edges.dtype.kind == "f":
        raise DataError(f"'{what}' must hold numbers")
    if not np.isfinite(raw.features).all() or not np.isin(raw.labels, (0, 1)).all():
        raise DataError(f"'{what}' must hold finite features and labels 0 or 1")
    if (np.diff(raw.graph_id) < 0).any() or not np.isin(raw.role, (0, 1, 2)).all():
        raise DataError(f"'{what}' must hold one graph after the other, each with a split 0, 1, 2")
    if raw.edges.size and (raw.edges.min() < 0 or raw.edges.max() >= raw.role.size):
        raise DataError(f"'{what}' has an edge outside its {raw.role.size} nodes")
    if (raw.graph_id[raw.edges[:, 0]] != raw.graph_id[raw.edges[:, 1]]).any():
        raise DataError(f"'{what}' has an edge between two graphs")
    changes = np.diff(raw.role.astype(np.int64)) != 0
    if (changes & (np.diff(raw.graph_id) == 0)).any():
        raise DataError(f"'{what}' splits a graph")
