r"""Graph folders: a graph in arrays on disk that are mapped into memory and read where needed."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch

from meanmax.data import Dataset, Split
from meanmax.data.files import reason_of, write_text
from meanmax.graph.build import expand, index_dtype
from meanmax.scale.edges import PASS_BYTES, Array, CsrEdges, FolderError, Groups, group_nodes
from meanmax.scale.features import DenseRows, FeatureRows, SparseRows, reserve, row_ranges, rows_of
from meanmax.train.problem import Scaling
from meanmax.unpacking import check_regular

FORMAT = "meanmax.graph/1"
FILE = "manifest.json"
LONGEST_HEADER = 1 << 16
ARRAYS = {
    **dict.fromkeys(("rowptr", "col", "x_rowptr", "x_col", "part_ptr"), ("i", (1,))),
    **dict.fromkeys(("node", "train", "val", "test"), ("i", (1,))),
    **dict.fromkeys(("weight", "x_value", "feature_mean", "feature_scale"), ("f", (1,))),
    "x": ("f", (2,)),
    "y": ("if", (1, 2)),
    "ids": ("U", (1,)),
}
r"""What a folder may hold: the kinds of types and the numbers of dimensions of each array."""


@dataclass(frozen=True)
class ArrayFacts:
    r"""One array."""

    dtype: str  # as numpy writes it
    shape: tuple[int, ...]
    sha256: str  # of the whole file


@dataclass(frozen=True)
class Manifest:
    r"""What a graph folder holds."""

    name: str  # what the graph is called
    num_nodes: int
    num_edges: int  # its edges; an undirected one counts twice
    num_features: int  # channels of the features
    class_names: tuple[str, ...]  # the names of classes, or of labels
    multilabel: bool  # whether a node has several labels
    about: dict[str, Any] = field(default_factory=dict)  # where it comes from
    arrays: dict[str, ArrayFacts] = field(default_factory=dict)  # its arrays by name

    @property
    def fingerprint(self) -> str:
        r"""The sha256 of all checksums: equal for folders that hold the same."""
        listed = sorted((name, facts.sha256) for name, facts in self.arrays.items())
        return hashlib.sha256(json.dumps(listed).encode()).hexdigest()

    def text(self) -> str:
        r"""The manifest as it is written."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n"


def is_graph_folder(path: str | Path) -> bool:
    r"""Whether there is a graph folder, whole or damaged, at a path.

    Example:
        >>> import tempfile
        >>> from meanmax.data import load
        >>> with tempfile.TemporaryDirectory() as place:
        ...     _ = write_folder(f"{place}/karate", load("karate"))
        ...     is_graph_folder(f"{place}/karate"), is_graph_folder(place)
        (True, False)
    """
    return (Path(path) / FILE).is_file()


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
        raise FolderError(f"{path} cannot be read ({error}): write the folder again") from error
    found = given.pop("format", None) if isinstance(given, dict) else None
    if found == "meanmax.parts/1":
        raise FolderError(
            f"{folder} holds a partition in the format of an earlier version: delete it and run "
            f"`meanmax partition` again"
        )
    if found != FORMAT:
        raise FolderError(f"{path} does not describe a graph in the format {FORMAT}")
    try:
        facts = {
            name: ArrayFacts(one["dtype"], tuple(one["shape"]), one["sha256"])
            for name, one in given.pop("arrays").items()
        }
        given["class_names"] = tuple(given["class_names"])
        manifest = Manifest(**given, arrays=facts)
        _check_manifest(manifest)
        return manifest
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FolderError(f"{path} is damaged ({error}): write the folder again") from error


def _check_manifest(manifest: Manifest) -> None:
    r"""Raises a :class:`ValueError` if an entry is of another kind than it should be."""
    for name in ("num_nodes", "num_edges", "num_features"):
        count = getattr(manifest, name)
        if type(count) is not int or count < 0:
            raise ValueError(f"{name} is {count!r}, not a count")
    kinds = {"name": str, "multilabel": bool, "about": dict}
    if wrong := [name for name, kind in kinds.items() if type(getattr(manifest, name)) is not kind]:
        raise ValueError(f"{wrong[0]} is {getattr(manifest, wrong[0])!r}")
    if not all(isinstance(name, str) for name in manifest.class_names):
        raise ValueError("the names of classes are not text")
    for name, facts in manifest.arrays.items():
        if name not in ARRAYS:
            raise ValueError(f"there is no array {name!r} in this format")
        kind, dims = ARRAYS[name]
        if np.dtype(facts.dtype).kind not in kind or len(facts.shape) not in dims:
            raise ValueError(f"{name} cannot be {facts.dtype} {list(facts.shape)}")


def checksum(path: Path) -> str:
    r"""The sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def mapped(folder: Path, name: str, facts: ArrayFacts) -> Array:
    r"""An array mapped from its file, read-only; raises an error unless it matches the manifest."""
    path = folder / f"{name}.npy"
    try:
        _check_header(path)
        array: Array = np.lib.format.open_memmap(path, mode="r")
    except FileNotFoundError as error:
        raise FolderError(f"{path} is missing: write the folder again") from error
    except Exception as error:  # numpy documents no closed list of what it raises
        raise FolderError(
            f"{path} is truncated or damaged ({reason_of(error)}): write the folder again"
        ) from error
    if array.shape != facts.shape or array.dtype.str != facts.dtype:
        raise FolderError(
            f"{path} holds {array.dtype.str} {list(array.shape)}, but the manifest says "
            f"{facts.dtype} {list(facts.shape)}: write the folder again"
        )
    return array


def _check_header(path: Path) -> None:
    r"""Raises a :class:`ValueError` for a header that is longer than numpy writes any; numpy would
    take memory for all of it.
    """
    check_regular(path)
    with path.open("rb") as file:
        start = file.read(12)
    if start[6:7] != b"\1" and int.from_bytes(start[8:], "little") > LONGEST_HEADER:
        raise ValueError("its header is too long")


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
    node.npy                       the number that each node had before grouping
    feature_mean, feature_scale    how dense features are standardised, in a partition
    ids.npy                        the user's identifiers, if there are any
    manifest.json                  sizes, types, checksums, names of classes
    ============================== ==================================================
    """

    path: Path
    manifest: Manifest
    arrays: dict[str, Array]  # by name, mapped and read-only

    @property
    def num_nodes(self) -> int:
        r"""Nodes of the graph."""
        return self.manifest.num_nodes

    @cached_property
    def edges(self) -> CsrEdges:
        r"""The edges, mapped. Their nodes are checked once: compiled code relies on them."""
        columns = self.arrays["col"]
        for first, last in row_ranges(len(columns), columns.itemsize, PASS_BYTES):
            some = columns[first:last]
            if some.min() < 0 or some.max() >= self.num_nodes:
                raise FolderError(
                    f"{self.path}: edges of col.npy lead from nodes that do not exist: write the "
                    f"folder again"
                )
        return self.unchecked_edges

    @property
    def unchecked_edges(self) -> CsrEdges:
        r"""The edges for those who read only a part, and check that."""
        return CsrEdges(self.arrays["rowptr"], self.arrays["col"], self.arrays.get("weight"))

    @property
    def x(self) -> FeatureRows:
        r"""The features, mapped."""
        if "x" in self.arrays:
            return DenseRows(self.arrays["x"])
        parts = (self.arrays[f"x_{name}"] for name in ("rowptr", "col", "value"))
        return SparseRows(CsrEdges(*parts), self.manifest.num_features)

    @property
    def y(self) -> Array:
        r"""The labels, mapped."""
        return self.arrays["y"]

    @property
    def part_ptr(self) -> Array | None:
        r"""The first node of each part, if nodes are grouped by parts."""
        return self.arrays.get("part_ptr")

    @property
    def num_parts(self) -> int:
        r"""How many parts nodes are grouped by; 1 if they are not."""
        return 1 if self.part_ptr is None else len(self.part_ptr) - 1

    @property
    def node(self) -> Array:
        r"""The number that each node had before nodes were grouped."""
        return self.arrays.get("node", np.arange(self.num_nodes))

    @property
    def split(self) -> Split | None:
        r"""The split, if there is one."""
        if not all(role in self.arrays for role in ROLES):
            return None
        arrays = (np.array(self.arrays[role], np.int64) for role in ROLES)
        train, val, test = map(torch.from_numpy, arrays)
        return Split(train, val, test, name="folder")

    def dataset(self) -> Dataset:
        r"""All of it in memory, nodes in the folder's order."""
        edges = self.edges
        pointer = torch.from_numpy(np.array(edges.rowptr, np.int64))
        source = torch.from_numpy(np.array(edges.col, np.int64))
        weight = None if edges.weight is None else torch.from_numpy(np.array(edges.weight))
        return Dataset(
            self.manifest.name,
            self.x.read(0, self.num_nodes),
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
                    f"the folder again"
                )


def open_folder(path: str | PathLike[str], *, verify: bool = False) -> GraphFolder:
    r"""Opens a graph folder. Sizes and types of all files are checked, not what is in them.

    Args:
        path (str or PathLike): The folder.
        verify (bool, optional): Whether checksums are compared, for which everything is read.
            (default: :obj:`False`)

    Example:
        >>> import tempfile
        >>> from meanmax.data import load
        >>> with tempfile.TemporaryDirectory() as place:
        ...     _ = write_folder(f"{place}/karate", load("karate"))
        ...     open_folder(f"{place}/karate", verify=True).num_nodes
        34
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    missing = [name for name in NEEDED if name not in manifest.arrays]
    sparse = {"x_rowptr", "x_col", "x_value"} <= set(manifest.arrays)
    if missing or not ("x" in manifest.arrays or sparse):
        names = ", ".join(missing or ["x"])
        raise FolderError(f"{folder} has no array for {names}: write the folder again")
    arrays = {name: mapped(folder, name, facts) for name, facts in manifest.arrays.items()}
    opened = GraphFolder(folder, manifest, arrays)
    _check_sizes(opened)
    if verify:
        opened.verify()
    return opened


def _check_sizes(folder: GraphFolder) -> None:
    r"""Compares sizes, which takes no time however large the files are, then what is in them."""
    arrays, nodes, edges = folder.arrays, folder.num_nodes, folder.manifest.num_edges
    rows, channels = folder.x.shape
    found: dict[str, tuple[Any, Any]] = {
        "rowptr": (len(arrays["rowptr"]), nodes + 1),
        "col": (len(arrays["col"]), edges),
        "the last entry of rowptr": (_last(arrays["rowptr"]), edges),
        "y": (len(folder.y), nodes),
        "x": (rows, nodes),
        "features": (channels, folder.manifest.num_features),
        "y has several labels": (folder.y.ndim == 2, folder.manifest.multilabel),
    }
    if "x" not in arrays:
        stored = len(arrays["x_value"])
        found["x_col"] = (len(arrays["x_col"]), stored)
        found["the last entry of x_rowptr"] = (_last(arrays["x_rowptr"]), stored)
    for name in ("ids", "node"):
        if name in arrays:
            found[name] = (len(arrays[name]), nodes)
    for name in ("feature_mean", "feature_scale"):
        if name in arrays:
            found[name] = (len(arrays[name]), channels)
    if "weight" in arrays:
        found["weight"] = (len(arrays["weight"]), edges)
    if folder.part_ptr is not None:
        found["the last entry of part_ptr"] = (_last(folder.part_ptr), nodes)
    _compare(folder, found)
    classes = len(folder.manifest.class_names)
    found = {"classes": (max(classes, _classes(folder.y)), classes)}
    for name in ("rowptr", "x_rowptr", "part_ptr"):
        if name in arrays:
            found[f"'{name} rises from 0'"] = (_rises(arrays[name]), True)
    for name in ROLES:
        own = arrays.get(name)
        if own is not None and len(own):
            inside = 0 <= own.min() and own.max() < nodes
            found[f"'{name} names nodes of the graph'"] = (inside, True)
    _compare(folder, found)


def _compare(folder: GraphFolder, found: Mapping[str, tuple[Any, Any]]) -> None:
    for what, (got, wanted) in found.items():
        if got != wanted:
            raise FolderError(
                f"{folder.path}: {what} is {got}, but should be {wanted}: write the folder again"
            )


def _last(pointer: Array) -> int:
    return int(pointer[-1]) if len(pointer) else -1


def _rises(pointer: Array) -> bool:
    r"""Whether a pointer begins with 0 and never falls; compiled code relies on it."""
    if not len(pointer) or pointer[0] != 0:
        return False
    ranges = row_ranges(len(pointer), 8, PASS_BYTES)
    parts = (np.asarray(pointer[first : last + 1]) for first, last in ranges)
    return all(bool((part[1:] >= part[:-1]).all()) for part in parts)


def _classes(y: Array) -> int:
    r"""How many classes, or labels, there are at least."""
    if y.ndim == 2:
        return int(y.shape[1])
    return int(y.max()) + 1 if y.size and y.dtype.kind == "i" else 0


class FolderWriter:
    r"""Writes the files of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def array(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        r"""A new array, mapped and writable, whose space on disk is reserved."""
        path = self.folder / f"{name}.npy"
        header = np.lib.format.header_data_from_array_1_0(np.empty(0, dtype)) | {"shape": shape}
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            file.flush()
            reserve(file.fileno(), file.tell() + size, self.folder)
        if 0 in shape:
            return np.empty(shape, dtype)
        return np.load(path, mmap_mode="r+", allow_pickle=False)  # type: ignore[no-any-return]

    def save(self, name: str, array: Array) -> None:
        r"""Writes an array that is in memory."""
        np.save(self.folder / f"{name}.npy", array, allow_pickle=False)

    def finish(self, manifest: Manifest) -> None:
        r"""Adds sizes and checksums to the manifest, and writes it."""
        for path in sorted(self.folder.glob("*.npy")):
            array = np.load(path, mmap_mode="r", allow_pickle=False)
            manifest.arrays[path.stem] = ArrayFacts(array.dtype.str, array.shape, checksum(path))
        write_text(self.folder / FILE, manifest.text())


@contextmanager
def new_folder(path: str | PathLike[str], *, overwrite: bool = False) -> Iterator[FolderWriter]:
    r"""A folder that exists as a whole at the end of the block, or not at all."""
    target = Path(path)
    is_empty = target.is_dir() and not any(target.iterdir())
    if target.exists() and not (overwrite and (is_graph_folder(target) or is_empty)):
        hint = "it is no graph folder" if overwrite else "choose another name, or overwrite it"
        raise FolderError(f"{target} is there already: {hint}")
    target.parent.mkdir(parents=True, exist_ok=True)
    own = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        own.chmod(0o755)
        yield FolderWriter(own)
        if overwrite and target.exists():
            shutil.rmtree(target)
        own.rename(target)
    except BaseException:
        shutil.rmtree(own, ignore_errors=True)
        raise


def write_folder(
    path: str | PathLike[str],
    source: Dataset | GraphFolder,
    *,
    part: torch.Tensor | None = None,
    num_parts: int | None = None,
    split: Split | None = None,
    about: Mapping[str, Any] | None = None,
    scaling: Scaling | None = None,
    overwrite: bool = False,
) -> GraphFolder:
    r"""Writes a graph folder, all at once or not at all, and opens it.

    Args:
        path (str or PathLike): The folder.
        source (Dataset or GraphFolder): What to write; one graph.
        part (Tensor, optional): The part of every node, as :func:`meanmax.scale.assign_metis`
            gives it. Nodes are then grouped by part, so that each part is a range of rows, and
            :obj:`node.npy` holds the number that each had before. (default: :obj:`None`)
        num_parts (int, optional): The number of parts, some of which may be empty.
            (default: as many as :obj:`part` names)
        split (Split, optional): Which nodes train, validate and test. (default: that of the data)
        about (mapping, optional): Further facts for the manifest. (default: :obj:`None`)
        scaling (Scaling, optional): How features are standardised, to be kept with them.
            (default: :obj:`None`)
        overwrite (bool, optional): Whether a graph folder at this path is replaced.
            (default: :obj:`False`)

    Example:
        >>> import tempfile
        >>> from meanmax.data import load
        >>> with tempfile.TemporaryDirectory() as place:
        ...     folder = write_folder(f"{place}/karate", load("karate"))
        ...     folder.num_nodes
        34
    """
    more: dict[str, Array] = {}
    if isinstance(source, GraphFolder):
        x, edges, more["y"] = source.x, source.edges, source.y
        more |= {name: source.arrays[name] for name in ("ids", "node") if name in source.arrays}
        manifest = replace(source.manifest, arrays={}, about=dict(source.manifest.about))
    else:
        if source.task == "regression":
            raise FolderError(
                f"the targets of '{source.name}' are numbers, but graph folders and partitions "
                f"hold classes and labels only: train on the whole graph"
            )
        x, edges, more["y"] = rows_of(source.x), CsrEdges.of(source.graph()), source.y.numpy()
        if source.node_ids is not None:
            more["ids"] = source.node_ids.astype(str)
        manifest = Manifest(
            name=source.name,
            num_nodes=source.num_nodes,
            num_edges=source.edge_index.size(1),
            num_features=source.num_features,
            class_names=source.class_names,
            multilabel=source.y.dim() == 2,
            about={"notes": list(source.notes), **source.feature_facts},
        )
    manifest.about.update(about or {})
    split = source.split if split is None else split
    roles = {} if split is None else {role: getattr(split, role).numpy() for role in ROLES}
    groups = None if part is None else group_nodes(part, edges.num_nodes, num_parts)
    if groups is None:
        more.pop("node", None)
    else:
        more.setdefault("node", np.arange(edges.num_nodes))
        more = {name: array[groups.order] for name, array in more.items()}
        more["part_ptr"] = groups.pointer
        roles = {role: np.sort(groups.place[nodes]) for role, nodes in roles.items()}
    if scaling is not None and not scaling.by_rows:
        more |= {"feature_mean": scaling.mean.numpy(), "feature_scale": scaling.scale.numpy()}
    with new_folder(path, overwrite=overwrite) as writer:
        _write_edges(writer, edges, groups)
        _write_features(writer, x, groups)
        for name, array in (more | roles).items():
            writer.save(name, np.asarray(array))
        writer.finish(manifest)
    return open_folder(path)


def _write_edges(
    writer: FolderWriter, edges: CsrEdges, groups: Groups | None, *, prefix: str = ""
) -> None:
    size, sparse = edges.num_nodes, prefix == "x_"
    degree = np.diff(edges.rowptr)
    rowptr = writer.array(f"{prefix}rowptr", (size + 1,), np.int64)
    rowptr[0] = 0
    np.cumsum(degree if groups is None else degree[groups.order], out=rowptr[1:])
    small = index_dtype(size) == torch.int32
    col = writer.array(f"{prefix}col", (edges.num_edges,), np.int32 if small else np.int64)
    weight = None
    if edges.weight is not None:
        name = "x_value" if sparse else "weight"
        weight = writer.array(name, (edges.num_edges,), np.float32)
    for first, last in CsrEdges(rowptr, col).blocks(40, 40, PASS_BYTES):
        inside = slice(int(rowptr[first]), int(rowptr[last]))
        own = edges.rows(first, last) if groups is None else edges.chosen(groups.order[first:last])
        col[inside] = own.column if groups is None or sparse else groups.place[own.column]
        if weight is not None:
            weight[inside] = own.weight


def _write_features(writer: FolderWriter, x: FeatureRows, groups: Groups | None) -> None:
    if isinstance(x, SparseRows):
        _write_edges(writer, x.entries, groups, prefix="x_")
        return
    assert isinstance(x, DenseRows)
    array = writer.array("x", x.shape, np.float32)
    for first, last in row_ranges(x.shape[0], 8 * x.shape[1], PASS_BYTES):
        rows = x.read(first, last) if groups is None else x.gather(groups.order[first:last])
        array[first:last] = rows.numpy()
