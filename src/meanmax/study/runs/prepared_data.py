r"""Data sets that are parsed and fingerprinted once, where runs are planned, and handed to workers.

A run in the planning process gets the data set itself. Other processes on the machine read a copy
from a temporary folder. A worker that does not find the copy, on another machine, loads the data
from their source and checks their fingerprint.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # commands that only print tables do not wait for torch
    from meanmax.data import Dataset
    from meanmax.graph import Graph
    from meanmax.study.runs.plan import DataRef
    from meanmax.study.runs.row import RunSpec

KEPT = 8  # data sets per process

_loaded: dict[DataRef, tuple[Dataset, Graph, str]] = {}


def keep_loaded(ref: DataRef, dataset: Dataset, data_hash: str) -> None:
    r"""Keeps a loaded data set for the runs of this process, and for copies."""
    _loaded.pop(ref, None)
    while len(_loaded) >= KEPT:
        del _loaded[next(iter(_loaded))]
    _loaded[ref] = dataset, dataset.graph(), data_hash


def load_prepared(ref: DataRef, spec: RunSpec) -> tuple[Dataset, Graph]:
    r"""The data of a run and their graph; raises a :class:`ValueError` unless they are those that
    the run was planned with.
    """
    if ref not in _loaded or _loaded[ref][2] != spec.data_hash:
        if ref.copy is not None and Path(ref.copy).exists():
            keep_loaded(ref, *_read(Path(ref.copy)))
        else:
            from meanmax.data import fingerprint, load

            own = {name: getattr(ref, name) for name in ("directed", "one_hot", "impute", "task")}
            dataset = load(ref.source, data_dir=ref.data_dir, **own)
            keep_loaded(ref, dataset, fingerprint(dataset)[:20])
    dataset, graph, data_hash = _loaded[ref]
    if data_hash != spec.data_hash:
        raise ValueError(f"'{spec.data}' is not what was planned with: the data have changed since")
    return dataset, graph


class DataCopies:
    r"""Copies of loaded data sets for other processes; see :func:`data_copies`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._paths: dict[DataRef, str] = {}

    def reference(self, ref: DataRef) -> DataRef:
        r"""The reference with the path of its copy, which is written at first use."""
        if ref in _loaded and ref not in self._paths:
            path = self._folder / f"{len(self._paths)}.pt"
            dataset, _, data_hash = _loaded[ref]
            _write(dataset, data_hash, path)
            self._paths[ref] = str(path)
        return dataclasses.replace(ref, copy=self._paths[ref]) if ref in self._paths else ref


@contextmanager
def data_copies() -> Iterator[DataCopies]:
    r"""A temporary folder of copies, removed at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="meanmax-") as folder:
        yield DataCopies(Path(folder))


_SAME = ("y", "edge_index", "edge_weight", "graph_ptr", "name", "level")


def _write(dataset: Dataset, data_hash: str, path: Path) -> None:
    import torch

    facts: dict[str, Any] = {name: getattr(dataset, name) for name in _SAME}
    facts |= {"class_names": list(dataset.class_names), "data_hash": data_hash, "x": dataset.x}
    if not isinstance(dataset.x, torch.Tensor):
        graph = dataset.x.graph
        facts["x"] = (graph.rowptr, graph.col, dataset.x.value, graph.num_src)
    torch.save(facts, path)


def _read(path: Path) -> tuple[Dataset, str]:
    import torch

    from meanmax.data import Dataset
    from meanmax.graph import Graph, SparseFeatures

    facts = torch.load(path, weights_only=True, mmap=True)
    x, data_hash = facts.pop("x"), facts.pop("data_hash")
    if not isinstance(x, torch.Tensor):
        rowptr, col, value, num_src = x
        x = SparseFeatures(Graph.from_csr(rowptr, col, num_src=num_src, copy=False), value)
    facts["class_names"] = tuple(facts["class_names"])
    return Dataset(**facts, x=x), data_hash
