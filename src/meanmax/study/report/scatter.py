r"""Embeddings in the plane as points that can be asked for their node."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from meanmax.data import Dataset, fingerprint, load, statistics
from meanmax.data.fetch.catalog import CATALOG
from meanmax.data.files import DataError
from meanmax.study.report.evidence import Arrays
from meanmax.study.report.lines import Group, colour
from meanmax.study.report.tsne import Layout, judged, kept, placed
from meanmax.study.runs.row import Row


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


POINTS = 3000
r"""At most so many nodes of a panel are on the page."""

ALL_POINTS = 100_000
r"""At most so many points are in all panels of the page together, or it grows too heavy."""

PANELS = 8
r"""At most so many methods have one."""

FEW_PANELS = 4
r"""Fewer methods than these have no more points each."""

LOOKS = 24
r"""So many classes have a colour and a shape for themselves."""

SCALE = 1000
r"""Coordinates are whole numbers up to this."""


def scatter(
    group: Group, arrays: Arrays, known: KnownNodes, *, groups: int = 1, compute: bool = False
) -> dict[str, Any] | None:
    r"""Panels for the first of the splits on which most aggregators have coordinates.

    Args:
        group (Group): The runs.
        arrays (Arrays): Their artefacts.
        known (KnownNodes): Classes and names of nodes.
        groups (int, optional): How many groups share the points of the page.
            (default: :obj:`1`)
        compute (bool, optional): Whether t-SNE is computed where it was not before.
            (default: :obj:`False`)
    """
    rows = _best_split(group, arrays, compute)
    shown = [
        (row, found)
        for row in rows[:PANELS]
        if (found := _coordinates(row, arrays, compute)) is not None
    ]
    if not shown:
        return None
    nodes = known.of(group.data, group.data_hash)
    number = max(len(xy) for _, xy in shown)
    if nodes is not None and len(nodes.classes) != number:
        nodes = None  # runs on graphs of their own embed the test graphs alone
    chosen = _sample(
        number, min(POINTS, ALL_POINTS // (max(FEW_PANELS, len(shown)) * max(1, groups)))
    )
    return {
        "split": shown[0][0].split_seed,
        "nodes": number,
        "shown": len(chosen),
        "left_out": [row.aggr for row in rows[PANELS:]],
        "alike": nodes is not None and len(nodes.class_names) > LOOKS,
        "number": chosen.tolist(),
        **_names(nodes, chosen),
        "panels": [
            {
                **_panel(row, xy, chosen, arrays, group),
                "silhouette": _compactness(row, nodes, arrays, compute),
            }
            for row, xy in shown
            if len(xy) == number
        ],
    }


def with_points(groups: Sequence[Group], arrays: Arrays, *, compute: bool = False) -> int:
    r"""How many groups have panels, among which the points of the page are shared.

    Args:
        groups (sequence): All groups of the page.
        arrays (Arrays): Their artefacts.
        compute (bool, optional): As in :func:`scatter`. (default: :obj:`False`)
    """
    return sum(bool(_best_split(group, arrays, compute)) for group in groups)


def _best_split(group: Group, arrays: Arrays, compute: bool) -> list[Row]:
    rows = [row for aggr in group.aggrs for row in group.of(aggr) if row.status == "ok"]
    folder = arrays.evidence.derived
    if folder is None:
        return []
    ready = Counter(row.split_seed for row in rows if _ready(row, folder, arrays, compute))
    split = min(ready, key=lambda seed: (-ready[seed], seed), default=None)
    return [row for row in rows if row.split_seed == split]


def _ready(row: Row, folder: Path, arrays: Arrays, compute: bool) -> bool:
    if Layout().file_of(folder, row.key).exists():
        return True
    return compute and arrays.has(row.key)


def _coordinates(row: Row, arrays: Arrays, compute: bool) -> np.ndarray | None:
    folder = arrays.evidence.derived
    found = kept(folder, row.key)
    if found is not None or not compute:
        return found
    embedding = arrays.array(row.key, "embedding")
    if embedding is None or len(embedding) < 4 or not np.isfinite(embedding).all():
        return None
    return placed(folder, row.key, embedding)


def _compactness(row: Row, nodes: Nodes | None, arrays: Arrays, compute: bool) -> float | None:
    r"""The silhouette score of the classes in the embedding itself, if it is known."""
    if nodes is None:
        return None
    embedding = arrays.array(row.key, "embedding") if compute else None
    score = judged(arrays.evidence.derived, row.key, embedding, nodes.classes)
    return score if math.isfinite(score) else None


def _sample(number: int, most: int) -> np.ndarray:
    if number <= most:
        return np.arange(number)
    drawn: np.ndarray = np.random.default_rng(0).choice(number, most, replace=False)
    return np.sort(drawn)


def _names(nodes: Nodes | None, chosen: np.ndarray) -> dict[str, Any]:
    if nodes is None:
        return {"ids": None, "classes": None, "class_names": []}
    single = bool((nodes.classes >= 0).any())  # nodes with several labels have no class
    return {
        "ids": None if nodes.ids is None else [str(name) for name in nodes.ids[chosen]],
        "classes": [int(number) for number in nodes.classes[chosen]] if single else None,
        "class_names": [str(name) for name in nodes.class_names],
    }


def _panel(
    row: Row, xy: np.ndarray, chosen: np.ndarray, arrays: Arrays, group: Group
) -> dict[str, Any]:
    low, high = xy.min(axis=0), xy.max(axis=0)
    size = float((high - low).max()) or 1.0  # one scale for both axes: distances keep their meaning
    middle = (low + high) / 2
    points = ((xy[chosen] - middle) / size + 0.5) * SCALE
    found = arrays.array(row.key, "prediction")
    classes = found is not None and found.ndim == 1 and len(found) == len(xy)
    return {
        "aggr": row.aggr,
        "colour": colour(row.aggr, group.aggrs),
        "score": row.metrics.get("test_score"),
        "x": points[:, 0].round().astype(int).tolist(),
        "y": points[:, 1].round().astype(int).tolist(),
        "predicted": found[chosen].astype(int).tolist() if classes and found is not None else None,
    }
