r"""Features of nodes, in memory or on disk, read by ranges of rows or by row numbers."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from meanmax.graph import Graph, SparseFeatures
from meanmax.nn.linear import Features, as_dense
from meanmax.scale.edges import Array, BatchingError, CsrEdges, FolderError, RowEdges


class FeatureRows(Protocol):
    r"""A row of features for each node."""

    @property
    def shape(self) -> tuple[int, int]:
        r"""Nodes and features."""

    def read(self, first: int, last: int) -> Features:
        r"""The rows from :obj:`first` to before :obj:`last`, copied."""

    def gather(self, nodes: Array) -> Features:
        r"""The rows of some nodes, int64, in their order, copied."""


@dataclass(frozen=True, eq=False)
class DenseRows:
    r"""Dense rows."""

    array: Array  # [num_nodes, num_features], floating-point; may be mapped from a file

    @property
    def shape(self) -> tuple[int, int]:
        r"""Nodes and features."""
        return self.array.shape[0], self.array.shape[1]

    def read(self, first: int, last: int) -> Tensor:
        r"""The rows from :obj:`first` to before :obj:`last`, copied."""
        return torch.from_numpy(np.array(self.array[first:last]))

    def gather(self, nodes: Array) -> Tensor:
        r"""The rows of some nodes, copied."""
        return torch.from_numpy(np.take(np.asarray(self.array), nodes, axis=0))


@dataclass(frozen=True, eq=False)
class SparseRows:
    r"""Sparse rows."""

    entries: CsrEdges  # from features to nodes, with the stored values as weights
    num_features: int

    @property
    def shape(self) -> tuple[int, int]:
        r"""Nodes and features."""
        return self.entries.num_nodes, self.num_features

    def read(self, first: int, last: int) -> SparseFeatures:
        r"""The rows from :obj:`first` to before :obj:`last`, copied."""
        return self._features(self.entries.rows(first, last))

    def gather(self, nodes: Array) -> SparseFeatures:
        r"""The rows of some nodes, copied."""
        return self._features(self.entries.chosen(nodes))

    def _features(self, block: RowEdges) -> SparseFeatures:
        assert block.weight is not None
        pointer, column = torch.from_numpy(block.pointer), torch.from_numpy(block.column)
        try:
            graph = Graph.from_csr(pointer, column, num_src=self.num_features, copy=False)
        except ValueError as error:
            raise FolderError(
                f"sparse features are damaged ({error}): write the folder again"
            ) from error
        return SparseFeatures(graph, torch.from_numpy(block.weight))


@dataclass(frozen=True, eq=False)
class MappedRows:
    r"""Rows that a function, such as a scaling of features, changes as they are read."""

    rows: FeatureRows
    function: Callable[[Any], Features]  # of rows of any number, each by itself

    @property
    def shape(self) -> tuple[int, int]:
        r"""Nodes and features."""
        return self.rows.shape

    def read(self, first: int, last: int) -> Features:
        r"""The rows from :obj:`first` to before :obj:`last`, changed."""
        return self.function(self.rows.read(first, last))

    def gather(self, nodes: Array) -> Features:
        r"""The rows of some nodes, changed."""
        return self.function(self.rows.gather(nodes))


def rows_of(x: Features) -> FeatureRows:
    r"""Features in memory as rows, without copying them."""
    if isinstance(x, Tensor):
        return DenseRows(x.detach().numpy())
    value = x.value.detach().float().numpy()
    return SparseRows(CsrEdges(x.graph.rowptr.numpy(), x.graph.col.numpy(), value), x.size(1))


@dataclass(frozen=True, eq=False)
class RowSummary:
    r"""Facts about all rows of features, computed a block of rows at a time when first needed."""

    rows: FeatureRows
    memory: int  # about how many bytes a block may take

    @cached_property
    def minimum(self) -> Tensor:
        r"""The smallest feature."""
        found = [float(part.amin()) for part in self._parts() if part.numel()]
        return torch.tensor(min(found, default=0.0))

    @cached_property
    def mean(self) -> Tensor:
        r"""The mean of every channel."""
        total = torch.zeros(self.rows.shape[1], dtype=torch.float64)
        for part in self._parts():
            total += part.sum(dim=0, dtype=torch.float64)
        return (total / max(1, self.rows.shape[0])).float()

    def _parts(self) -> Iterator[Tensor]:
        size, channels = self.rows.shape
        return (
            as_dense(self.rows.read(*some)) for some in row_ranges(size, 8 * channels, self.memory)
        )


def row_ranges(size: int, row_bytes: int, memory: int) -> list[tuple[int, int]]:
    r"""Ranges of rows that fit into some memory, at least one row each."""
    step = max(1, memory // row_bytes)
    return [(first, min(first + step, size)) for first in range(0, size, step)]


class ScratchSpace:
    r"""Allocates and frees float32 arrays: in memory, or in memory-mapped files of one folder,
    which the system moves to disk when it needs the memory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder  # which is there and empty; None for arrays in memory
        self._paths: dict[int, Path] = {}
        self._count = 0

    def array(self, rows: int, width: int) -> Array:
        r"""An array, :obj:`[rows, width]`, uninitialised; its space on disk is reserved."""
        size = 4 * rows * width
        if self.folder is None or size == 0:
            return np.empty((rows, width), np.float32)
        path = self.folder / f"{self._count}.f32"
        self._count += 1
        with path.open("wb") as file:
            reserve(file.fileno(), size, self.folder)
        array = np.memmap(path, np.float32, "r+", shape=(rows, width))
        self._paths[id(array)] = path
        return array

    def release(self, array: Array) -> None:
        r"""Deletes the file of an array, if it has one; what is still mapped stays readable."""
        if (path := self._paths.pop(id(array), None)) is not None:
            path.unlink()


@contextmanager
def scratch_files(folder: Path | None, needed: int) -> Iterator[ScratchSpace]:
    r"""Scratch files that are deleted at the end of the block, also after an error."""
    parent = Path(tempfile.gettempdir() if folder is None else folder)
    if not parent.is_dir():
        raise BatchingError(f"'scratch' must be a folder that is there (got {parent})")
    free = shutil.disk_usage(parent).free
    if free < needed:
        raise BatchingError(
            f"hidden layers need {needed:,} bytes of disk at {parent}, where {free:,} are free: "
            f"free some, or name another folder"
        )
    own = Path(tempfile.mkdtemp(prefix="meanmax-scratch-", dir=parent))
    try:
        yield ScratchSpace(own)
    finally:
        shutil.rmtree(own, ignore_errors=True)


def reserve(descriptor: int, size: int, where: Path) -> None:
    r"""Allocates a file's bytes, so that writing to its mapping cannot run out of disk, which
    would kill the process.
    """
    try:
        if size > 0 and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.ftruncate(descriptor, size)
    except OSError as error:
        raise BatchingError(
            f"no room for {size:,} bytes at {where} ({error.strerror}): free some, or name another "
            f"folder"
        ) from error
