r"""A graph in a folder of arrays that are mapped into memory and read where they are needed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch

from meanmax.data import Dataset, Split
from meanmax.graph import SparseFeatures
from meanmax.graph.build import expand
from meanmax.scale.edges import Array, Edges, FolderError
from meanmax.scale.rows import DenseRows, Rows, SparseRows

FORMAT = "meanmax.graph/1"
FILE = "manifest.json"
CHUNK = 1 << 22


@dataclass(frozen=True)
class ArrayFacts:
    r"""One array.

    Args:
        dtype (str): Its type, as numpy writes it.
        shape (tuple): Its sizes.
        sha256 (str): Of the whole file.
    """

    dtype: str
    shape: tuple[int, ...]
    sha256: str


@dataclass(frozen=True)
class Manifest:
    r"""What a graph folder holds.

    Args:
        name (str): What the graph is called.
        num_nodes (int): Its nodes.
        num_edges (int): Its edges; an undirected one counts twice.
        num_features (int): Channels of the features.
        class_names (tuple): The names of classes, or of labels.
        multilabel (bool): Whether a node has several labels.
        about (dict): Where it comes from.
        arrays (dict): Its arrays by name.
    """

    name: str
    num_nodes: int
    num_edges: int
    num_features: int
    class_names: tuple[str, ...]
    multilabel: bool
    about: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, ArrayFacts] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        r"""The sha256 of all checksums: equal for folders that hold the same."""
        listed = sorted((name, facts.sha256) for name, facts in self.arrays.items())
        return hashlib.sha256(json.dumps(listed).encode()).hexdigest()

    def text(self) -> str:
        r"""The manifest as it is written."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n"


def is_graph_folder(path: str | Path) -> bool:
    r"""Whether there is a graph folder, whole or damaged, at a path."""
    folder = Path(path)
    return (folder / FILE).is_file() and not (folder / "part-00000").is_dir()


def read_manifest(folder: Path) -> Manifest:
    r"""Reads and checks a manifest; nothing else is opened."""
    path = folder / FILE
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise FolderError(
            f"{folder} is no graph folder: it holds no {FILE}; write one with "
            f"meanmax.scale.write_folder"
        ) from error
    except (OSError, ValueError) as error:
        raise FolderError(f"{path} cannot be read ({error}): write the folder anew") from error
    if not isinstance(given, dict) or given.pop("format", None) != FORMAT:
        raise FolderError(f"{path} does not describe a graph in the format {FORMAT}")
    try:
        arrays = given.pop("arrays")
        facts = {
            name: ArrayFacts(one["dtype"], tuple(one["shape"]), one["sha256"])
            for name, one in arrays.items()
        }
        given["class_names"] = tuple(given["class_names"])
        return Manifest(**given, arrays=facts)
    except (AttributeError, KeyError, TypeError) as error:
        raise FolderError(f"{path} is damaged ({error}): write the folder anew") from error


def facts_of(path: Path) -> ArrayFacts:
    r"""The facts of an array that has been written, read from its file."""
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    return ArrayFacts(array.dtype.str, array.shape, checksum(path))


def checksum(path: Path) -> str:
    r"""The sha256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def mapped(folder: Path, name: str, facts: ArrayFacts) -> Array:
    r"""An array mapped from its file, read-only; an error unless it is what it should be."""
    path = folder / f"{name}.npy"
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as error:
        raise FolderError(f"{path} is missing: write the folder anew") from error
    except (OSError, ValueError) as error:
        raise FolderError(
            f"{path} is cut short or damaged ({error}): write the folder anew"
        ) from error
    if array.shape != facts.shape or array.dtype.str != facts.dtype:
        raise FolderError(
            f"{path} holds {array.dtype.str} {list(array.shape)}, but the manifest says "
            f"{facts.dtype} {list(facts.shape)}: write the folder anew"
        )
    return array


ROLES = ("train", "val", "test")
NEEDED = ("rowptr", "col", "y")


@dataclass(frozen=True, eq=False)
class GraphFolder:
    r"""An open graph folder; :func:`open_folder` makes it.

    ============================== ==================================================
    file                           holds
    ============================== ==================================================
    rowptr.npy, col.npy            edges grouped by target: CSR, :obj:`[num_nodes + 1]`, sources
    weight.npy                     weights of edges, float32, if there are any
    x.npy                          dense features, float32, or
    x_rowptr, x_col, x_value.npy   sparse ones
    y.npy                          classes, -1 for none; or 0/1 for each label, NaN for none
    train, val, test.npy           nodes of the split, if there is one
    part_ptr.npy                   the first node of each part, if nodes are grouped by parts
    node.npy                       the number that each node had before that
    ids.npy                        the user's identifiers, if there are any
    manifest.json                  sizes, types, checksums, names of classes
    ============================== ==================================================

    Args:
        path (Path): The folder.
        manifest (Manifest): What it holds.
        arrays (dict): Its arrays by name, mapped and read-only.
    """

    path: Path
    manifest: Manifest
    arrays: dict[str, Array]

    @property
    def num_nodes(self) -> int:
        r"""Nodes of the graph."""
        return self.manifest.num_nodes

    @property
    def edges(self) -> Edges:
        r"""The edges, mapped."""
        return Edges(self.arrays["rowptr"], self.arrays["col"], self.arrays.get("weight"))

    @property
    def x(self) -> Rows:
        r"""The features, mapped."""
        if "x" in self.arrays:
            return DenseRows(self.arrays["x"])
        parts = (self.arrays[f"x_{name}"] for name in ("rowptr", "col", "value"))
        return SparseRows(Edges(*parts), self.manifest.num_features)

    @property
    def y(self) -> Array:
        r"""The labels, mapped."""
        return self.arrays["y"]

    @property
    def part_ptr(self) -> Array | None:
        r"""The first node of each part, if nodes are grouped by parts."""
        return self.arrays.get("part_ptr")

    @property
    def node(self) -> Array:
        r"""The number that each node had before nodes were grouped."""
        return self.arrays.get("node", np.arange(self.num_nodes))

    @property
    def split(self) -> Split | None:
        r"""The split, if there is one."""
        if not all(role in self.arrays for role in ROLES):
            return None
        train, val, test = (
            torch.from_numpy(np.array(self.arrays[role], np.int64)) for role in ROLES
        )
        return Split(train, val, test, name="folder")

    def dataset(self) -> Dataset:
        r"""All of it in memory, nodes in the folder's order."""
        edges, x = self.edges, self.x
        pointer = torch.from_numpy(np.array(edges.rowptr, np.int64))
        source = torch.from_numpy(np.array(edges.col, np.int64))
        weight = None if edges.weight is None else torch.from_numpy(np.array(edges.weight))
        features = x.read(0, self.num_nodes)
        assert isinstance(features, torch.Tensor | SparseFeatures)
        return Dataset(
            self.manifest.name,
            features,
            torch.from_numpy(np.array(self.y)),
            torch.stack([source, expand(pointer)]),
            weight,
            self.manifest.class_names,
            np.array(self.arrays["ids"]) if "ids" in self.arrays else None,
            split=self.split,
        )

    def verify(self) -> None:
        r"""Reads every file and compares checksums; a :class:`FolderError` if one differs."""
        for name, facts in self.manifest.arrays.items():
            if checksum(self.path / f"{name}.npy") != facts.sha256:
                raise FolderError(
                    f"{self.path / name}.npy is not what was written (its checksum differs): write "
                    f"the folder anew"
                )


def open_folder(path: str | PathLike[str], *, verify: bool = False) -> GraphFolder:
    r"""Opens a graph folder. Sizes and types of all files are checked, not what is in them.

    Args:
        path (str or PathLike): The folder.
        verify (bool, optional): Whether checksums are compared, for which everything is read.
            (default: :obj:`False`)
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    missing = [name for name in NEEDED if name not in manifest.arrays]
    sparse = {"x_rowptr", "x_col", "x_value"} <= set(manifest.arrays)
    if missing or not ("x" in manifest.arrays or sparse):
        names = ", ".join(missing or ["x"])
        raise FolderError(f"{folder} has no array for {names}: write the folder anew")
    arrays = {name: mapped(folder, name, facts) for name, facts in manifest.arrays.items()}
    opened = GraphFolder(folder, manifest, arrays)
    _check_sizes(opened)
    if verify:
        opened.verify()
    return opened


def _check_sizes(folder: GraphFolder) -> None:
    nodes, edges = folder.num_nodes, folder.manifest.num_edges
    rows = folder.x.shape[0]
    found = {
        "rowptr": (len(folder.arrays["rowptr"]), nodes + 1),
        "col": (len(folder.arrays["col"]), edges),
        "the last entry of rowptr": (int(folder.arrays["rowptr"][-1]), edges),
        "y": (len(folder.y), nodes),
        "x": (rows, nodes),
        "features": (folder.x.shape[1], folder.manifest.num_features),
    }
    if "weight" in folder.arrays:
        found["weight"] = (len(folder.arrays["weight"]), edges)
    if folder.part_ptr is not None:
        found["the last entry of part_ptr"] = (int(folder.part_ptr[-1]), nodes)
    for what, (got, wanted) in found.items():
        if got != wanted:
            raise FolderError(
                f"{folder.path}: {what} is {got}, but should be {wanted}: write the folder anew"
            )
