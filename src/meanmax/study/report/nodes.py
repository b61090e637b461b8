r"""What the nodes of a data set are called, for pictures of single nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from meanmax.data import (Dataset, fingerprint, load, statistics)
from meanmax.data.fetch.catalog import CATALOG
from meanmax.data.errors import DataError


@dataclass(frozen=True, eq=False)
class Nodes:
    r"""Classes and names of nodes.

    Args:
        class_names (tuple): The names of classes.
        classes (ndarray): The class of each node, below 0 for none.
        ids (ndarray, optional): The names of nodes; :obj:`None` if they are just numbered.
        counts (str): The size of the data set in words.
    """

    class_names: tuple[str, ...]
    classes: np.ndarray
    ids: np.ndarray | None
    counts: str

    @classmethod
    def of(cls, dataset: Dataset) -> Nodes:
        r"""The nodes of a data set; with several labels for a node, without classes."""
        several = dataset.task == "multilabel"
        classes = np.full(dataset.num_nodes, -1) if several else dataset.y.numpy()
        counted = statistics(dataset)
        told = (
            f"{counted.nodes:,} nodes, {counted.edges:,} edges, {counted.features:,} features, "
            f"{counted.classes:,} {'labels' if several else 'classes'}"
        )
        return cls(dataset.class_names, classes, dataset.node_ids, told)


class KnownNodes:
    r"""Nodes by the name and fingerprint of their data: of data sets that are at hand, and of
    named ones whose files are on disk. Nothing is downloaded.

    Args:
        datasets (iterable): Data sets that are loaded already.
        data_dir (Path, optional): Where to look for named ones first.
    """

    def __init__(self, datasets: Iterable[Dataset] = (), data_dir: Path | None = None) -> None:
        self._known: dict[str, Nodes | None] = {
            fingerprint(dataset)[:20]: Nodes.of(dataset) for dataset in datasets
        }
        self._data_dir = data_dir

    def at_hand(self, data_hash: str) -> Nodes | None:
        r"""Those of data sets that need no loading."""
        return self._known.get(data_hash)

    def of(self, data: str, data_hash: str) -> Nodes | None:
        r"""The nodes, or :obj:`None` if the data are not here or are others of that name."""
        if data_hash not in self._known:
            found = self._loaded(data)
            right = found is not None and fingerprint(found)[:20] == data_hash
            self._known[data_hash] = Nodes.of(found) if found is not None and right else None
        return self._known[data_hash]

    def _loaded(self, data: str) -> Dataset | None:
        entry = CATALOG.get(data)
        if entry is None or (entry.files and entry.located(self._data_dir) is None):
            return None
        try:
            return load(data, data_dir=self._data_dir)
        except (DataError, OSError):
            return None  # the page is about runs: it can do without
