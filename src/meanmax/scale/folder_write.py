r"""Writes graph folders, from memory or from another folder, a block of rows at a time."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch

from meanmax.data import Dataset, Split
from meanmax.data.files import write_text
from meanmax.graph.build import index_dtype
from meanmax.scale.edges import PASS_BYTES, Array, Edges, FolderError
from meanmax.scale.folder import FILE, ROLES, GraphFolder, Manifest, facts_of, open_folder
from meanmax.scale.rows import DenseRows, Rows, SparseRows, rows_of, take_place


class FolderWriter:
    r"""Files of a folder that is being written.

    Args:
        folder (Path): Where.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def array(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        r"""A new array, mapped and writable, whose place on disk is taken."""
        path = self.folder / f"{name}.npy"
        header = np.lib.format.header_data_from_array_1_0(np.empty(0, dtype)) | {"shape": shape}
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            file.flush()
            take_place(file.fileno(), file.tell() + size, self.folder)
        if 0 in shape:
            return np.empty(shape, dtype)
        return np.load(path, mmap_mode="r+", allow_pickle=False)  # type: ignore[no-any-return]

    def save(self, name: str, array: Array) -> None:
        r"""Writes an array that is in memory."""
        np.save(self.folder / f"{name}.npy", array, allow_pickle=False)

    def finish(self, manifest: Manifest) -> None:
        r"""Adds sizes and checksums to the manifest, and writes it."""
        for path in sorted(self.folder.glob("*.npy")):
            manifest.arrays[path.stem] = facts_of(path)
        write_text(self.folder / FILE, manifest.text())


@contextmanager
def new_folder(path: str | PathLike[str], *, overwrite: bool = False) -> Iterator[FolderWriter]:
    r"""A folder that is there as a whole at the end of the block, or not at all.

    Args:
        path (str or PathLike): The folder.
        overwrite (bool, optional): Whether a graph folder that is there is replaced.
            (default: :obj:`False`)
    """
    target = Path(path)
    if target.exists() and not (overwrite and ((target / FILE).is_file() or _is_empty(target))):
        hint = "it is no graph folder" if overwrite else "choose another name, or overwrite it"
        raise FolderError(f"{target} is there already: {hint}")
    target.parent.mkdir(parents=True, exist_ok=True)
    own = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        own.chmod(0o755)
        yield FolderWriter(own)
        if target.exists():
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
    split: Split | None = None,
    overwrite: bool = False,
) -> GraphFolder:
    r"""Writes a graph folder, all at once or not at all, and opens it.

    Args:
        path (str or PathLike): The folder.
        source (Dataset or GraphFolder): What to write; one graph.
        part (Tensor, optional): The part of every node, as :func:`meanmax.scale.assign_metis`
            gives it. Nodes are then grouped by part, so that each part is read in one go, and
            :obj:`node.npy` says which number each had. (default: :obj:`None`)
        split (Split, optional): Which nodes train, validate and test. (default: that of the data)
        overwrite (bool, optional): Whether a graph folder that is there is replaced.
            (default: :obj:`False`)
    """
    given = _Given.of(source, split)
    order, place, pointer = _order(part, given.edges.num_nodes)
    with new_folder(path, overwrite=overwrite) as writer:
        _write_edges(writer, given.edges, order, place)
        _write_features(writer, given.x, order)
        writer.save("y", np.asarray(given.y if order is None else given.y[order]))
        for role, nodes in given.roles.items():
            writer.save(role, nodes if place is None else np.sort(place[nodes]))
        if pointer is not None and order is not None:
            writer.save("part_ptr", pointer)
            writer.save("node", order if given.node is None else given.node[order])
        if given.ids is not None:
            writer.save("ids", given.ids if order is None else given.ids[order])
        writer.finish(given.manifest)
    return open_folder(path)


class _Given:
    r"""What is written, in one form."""

    def __init__(self, x: Rows, y: Array, edges: Edges, split: Split | None) -> None:
        self.x, self.y, self.edges = x, y, edges
        self.roles: dict[str, Array] = {}
        self.ids: Array | None = None
        self.node: Array | None = None
        self.manifest: Manifest
        if split is not None:
            self.roles = {role: getattr(split, role).numpy() for role in ROLES}

    @classmethod
    def of(cls, source: Dataset | GraphFolder, split: Split | None) -> _Given:
        if isinstance(source, Dataset):
            given = cls(rows_of(source.x), source.y.numpy(), Edges.of(source.graph()), split)
            given.manifest = _manifest(source)
            if source.node_ids is not None:
                given.ids = source.node_ids.astype(str)
            kept = source.split
        else:
            given = cls(source.x, source.y, source.edges, split)
            old = source.manifest
            given.manifest = Manifest(**{**vars(old), "arrays": {}, "about": dict(old.about)})
            given.ids, kept = source.arrays.get("ids"), source.split
            given.node = source.arrays.get("node")
        if split is None and kept is not None:
            given.roles = {role: getattr(kept, role).numpy() for role in ROLES}
        return given


def _manifest(source: Dataset) -> Manifest:
    return Manifest(
        name=source.name,
        num_nodes=source.num_nodes,
        num_edges=source.edge_index.size(1),
        num_features=source.num_features,
        class_names=source.class_names,
        multilabel=source.y.dim() == 2,
        about={"notes": list(source.notes)},
    )


def _order(
    part: torch.Tensor | None, num_nodes: int
) -> tuple[Array | None, Array | None, Array | None]:
    r"""The old number of each new node, the new one of each old, and where parts begin."""
    if part is None:
        return None, None, None
    if part.shape != (num_nodes,):
        raise FolderError(f"'part' must be [{num_nodes}] (got {list(part.shape)})")
    owner = part.numpy()
    order = np.argsort(owner, kind="stable")
    place = np.empty(num_nodes, np.int64)
    place[order] = np.arange(num_nodes)
    pointer = np.zeros(int(owner.max()) + 2, np.int64)
    np.cumsum(np.bincount(owner), out=pointer[1:])
    return order, place, pointer


def _write_edges(
    writer: FolderWriter, edges: Edges, order: Array | None, place: Array | None
) -> None:
    size = edges.num_nodes
    degree = np.diff(edges.rowptr)
    rowptr = writer.array("rowptr", (size + 1,), np.int64)
    rowptr[0] = 0
    np.cumsum(degree if order is None else degree[order], out=rowptr[1:])
    small = index_dtype(size) == torch.int32
    col = writer.array("col", (edges.num_edges,), np.int32 if small else np.int64)
    weight = None
    if edges.weight is not None:
        weight = writer.array("weight", (edges.num_edges,), np.float32)
    ordered = Edges(rowptr, col)
    for first, last in ordered.blocks(40, 40, PASS_BYTES):
        block = edges.rows(first, last) if order is None else edges.chosen(order[first:last])
        inside = slice(int(rowptr[first]), int(rowptr[last]))
        col[inside] = block.column if place is None else place[block.column]
        if weight is not None:
            weight[inside] = block.weight


def _write_features(writer: FolderWriter, x: Rows, order: Array | None) -> None:
    size, channels = x.shape
    if isinstance(x, SparseRows):
        entries, inner = x.entries, FolderWriter(writer.folder / "sparse")
        inner.folder.mkdir()
        _write_edges(inner, entries, order, None)
        for name, new in (("rowptr", "rowptr"), ("col", "col"), ("weight", "value")):
            (inner.folder / f"{name}.npy").rename(writer.folder / f"x_{new}.npy")
        inner.folder.rmdir()
        return
    assert isinstance(x, DenseRows)
    array = writer.array("x", (size, channels), np.float32)
    step = max(1, PASS_BYTES // (8 * channels))
    for first in range(0, size, step):
        last = min(first + step, size)
        rows = x.read(first, last) if order is None else x.gather(order[first:last])
        array[first:last] = rows.numpy()


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())
