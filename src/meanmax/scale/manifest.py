r"""What a graph folder says about itself: sizes, types and checksums of its arrays."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from meanmax.scale.edges import Array
from meanmax.scale.edges_errors import FolderError

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
