r"""Embeddings in the plane, their silhouette scores, and the classes of their nodes.

Coordinates and scores are computed once for each run and cached next to the store.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from meanmax.data.files import atomic_write
from meanmax.names import Level
from meanmax.study.report.drawings import Drawing, example_graphs

if TYPE_CHECKING:
    from meanmax.data import Dataset, Statistics
    from meanmax.data.fetch.catalog import Counts

COORDINATES, SILHOUETTE = "coordinates", "silhouette"
SAMPLE = 20_000  # nodes that the silhouette score compares with one another, at most


@dataclass(frozen=True)
class Layout:
    r"""How t-SNE is computed; pictures with equal settings may be compared.

    The perplexity is about how many neighbours each point keeps close, at most a third of the
    points. The embedding is reduced to its first principal components before.
    """

    perplexity: float = 30.0
    iterations: int = 750
    components: int = 50
    seed: int = 0

    def file_of(self, folder: Path, key: str) -> Path:
        r"""The file in a store's folder of derived results that caches the coordinates of a run."""
        text = json.dumps(asdict(self), sort_keys=True)
        return folder / f"tsne-{key}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.npz"


def coordinates(embedding: np.ndarray, layout: Layout | None = None) -> np.ndarray:
    r"""Places the rows of an embedding in the plane by `t-SNE
    <https://www.jmlr.org/papers/v9/vandermaaten08a.html>`_, float32, :obj:`[num_nodes, 2]`.

    It starts from the first two principal components, so that similar embeddings get similar
    pictures. The embedding, :obj:`[num_nodes, channels]`, is finite and has four nodes or more,
    which are not all equal.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    layout = layout or Layout()
    x = np.asarray(embedding, np.float32)
    if not is_placeable(x):
        raise ValueError(
            f"t-SNE needs a finite embedding of 4 nodes or more that are not all equal (got shape "
            f"{x.shape}): use the embedding of a successful run"
        )
    if layout.components < min(x.shape):
        x = PCA(layout.components, random_state=layout.seed).fit_transform(x)
    iterations = "max_iter" if "max_iter" in TSNE().get_params() else "n_iter"  # before 1.5
    model = TSNE(
        perplexity=min(layout.perplexity, (len(x) - 1) / 3),
        init="pca" if min(x.shape) > 1 else "random",
        random_state=layout.seed,
        **{iterations: layout.iterations},
    )
    found: np.ndarray = model.fit_transform(x).astype(np.float32)
    return found


def is_placeable(embedding: np.ndarray) -> bool:
    r"""Whether :func:`coordinates` accepts an embedding: on one without variance scikit-learn's
    t-SNE ends the process.
    """
    if embedding.ndim != 2 or len(embedding) < 4 or not np.isfinite(embedding).all():
        return False
    return bool((embedding != embedding[0]).any())


def coordinates_of(
    folder: Path | None, key: str, embedding: np.ndarray | None = None, layout: Layout | None = None
) -> np.ndarray | None:
    r"""The coordinates of a run, from the cache or computed now and cached.

    Without a folder of derived results nothing is cached; without the embedding, coordinates that
    are not cached are :obj:`None`.
    """
    layout = layout or Layout()
    path = None if folder is None else layout.file_of(folder, key)
    found = _read(path, COORDINATES)
    if embedding is None or (found is not None and found.shape == (len(embedding), 2)):
        return found
    return _write(path, COORDINATES, coordinates(embedding, layout))


def silhouette_of(
    folder: Path | None, key: str, classes: np.ndarray, embedding: np.ndarray | None = None
) -> float:
    r"""The :func:`silhouette` of a run, from the cache or computed now and cached; without the
    embedding, a score that is not cached is NaN.
    """
    marked = hashlib.sha256(np.ascontiguousarray(classes, np.int64).tobytes()).hexdigest()[:8]
    path = None if folder is None else folder / f"silhouette-{key}-{marked}.npz"
    found = _read(path, SILHOUETTE)
    if found is not None and found.shape == ():
        return float(found)
    if embedding is None:
        return float("nan")
    return float(_write(path, SILHOUETTE, np.array(silhouette(embedding, classes))))


def silhouette(embedding: np.ndarray, classes: np.ndarray) -> float:
    r"""How compact the classes are in the embedding itself, from -1 to 1: the mean over nodes of
    :math:`(b - a) / \max(a, b)` with the mean distance :math:`a` to the own class and :math:`b` to
    the nearest other. NaN unless there are two classes and a class of two nodes.

    Nodes with a class below 0 are left out, and of more than 20,000 nodes a sample is taken.
    """
    from sklearn.metrics import silhouette_score

    named = classes >= 0
    x, y = np.asarray(embedding[named], np.float32), classes[named]
    if len(y) > SAMPLE:
        chosen = np.random.default_rng(0).choice(len(y), SAMPLE, replace=False)
        x, y = x[chosen], y[chosen]
    if not 2 <= len(np.unique(y)) < len(y):
        return float("nan")
    return float(silhouette_score(x, y))


def _read(path: Path | None, name: str) -> np.ndarray | None:
    r"""A cached array; :obj:`None` if the file is missing or damaged."""
    with suppress(OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile):
        if path is not None:
            with np.load(path, allow_pickle=False) as file:
                found: np.ndarray = file[name]
                return found
    return None


def _write(path: Path | None, name: str, array: np.ndarray) -> np.ndarray:
    with suppress(OSError):  # a store that is read-only gives its pictures all the same
        if path is not None:
            with atomic_write(path) as file:
                np.savez_compressed(file, **{name: array})  # type: ignore[arg-type]
    return array


class NoLabels(Exception):  # noqa: N818 - pictures can do without
    r"""The classes of a data set cannot be read; the message says why."""


@dataclass(frozen=True, eq=False)
class NodeLabels:
    r"""Classes and names of the nodes of a data set, or of the graphs of a collection, and its size
    in words.

    A class below 0 is none; :obj:`classes` is :obj:`None` if nodes have several labels or a
    number as target, and :obj:`ids` if nodes are just numbered.
    """

    class_names: tuple[str, ...]
    classes: np.ndarray | None
    ids: np.ndarray | None
    num_nodes: int  # or graphs
    size: str
    level: Level = "node"
    examples: Sequence[Drawing] = ()  # of a collection

    @classmethod
    def of(cls, dataset: Dataset) -> NodeLabels:
        r"""The labels of a loaded data set."""
        from meanmax.data import statistics

        words = {"multiclass": "classes", "multilabel": "labels", "regression": "target"}
        size = size_text(statistics(dataset), words[dataset.task])
        if dataset.level == "graph":
            size = f"{dataset.num_graphs:,} graphs, {size}"
        y = dataset.y.numpy()
        classes = y if dataset.task == "multiclass" and (y >= 0).any() else None
        names, ids, count = dataset.class_names, dataset.item_ids, dataset.num_items
        return cls(names, classes, ids, count, size, dataset.level, example_graphs(dataset))


def size_text(counts: Counts | Statistics, labels: str = "classes") -> str:
    r"""The size of a data set in words."""
    return (
        f"{counts.nodes:,} nodes, {counts.edges:,} edges, {counts.features:,} features, "
        f"{counts.classes:,} {labels}"
    )


class LabelSource:
    r"""Finds the labels of the data that runs were made on, among loaded data sets and on disk, in
    :obj:`data_dir` first. Each data set is loaded once; nothing is downloaded.
    """

    def __init__(self, datasets: Iterable[Dataset] = (), data_dir: Path | None = None) -> None:
        self.data_dir = data_dir
        self.known: dict[str, NodeLabels | NoLabels] = {}
        for dataset in datasets:
            from meanmax.data import fingerprint

            self.known[fingerprint(dataset)[:20]] = NodeLabels.of(dataset)

    def of(self, data: str, data_hash: str, source: str | None = None) -> NodeLabels:
        r"""The labels; :class:`NoLabels` if the data are missing or are not those of the runs."""
        if data_hash not in self.known:
            self.known[data_hash] = self._loaded(data, data_hash, source)
        found = self.known[data_hash]
        if isinstance(found, NoLabels):
            raise found
        return found

    def _loaded(self, data: str, data_hash: str, source: str | None) -> NodeLabels | NoLabels:
        from meanmax.data import DataError, fingerprint, load
        from meanmax.data.fetch.catalog import is_name

        why = "it is not a named data set"
        if source is not None or is_name(data):
            try:
                dataset = load(source or data, data_dir=self.data_dir, download=False)
            except (DataError, OSError) as error:
                why = str(error).splitlines()[0]
            else:
                if fingerprint(dataset)[: len(data_hash)] == data_hash:
                    return NodeLabels.of(dataset)
                return NoLabels(
                    f"the data at '{source or data}' are not those that the runs on '{data}' were "
                    f"made on: give their folder with --data-dir, or repeat the runs"
                )
        return NoLabels(
            f"the classes of '{data}' are not available: fetch the data with 'meanmax data fetch "
            f"{data}', or give --data the path of your own graph ({why})"
        )
