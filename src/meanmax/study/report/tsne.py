r"""Embeddings in the plane, computed once for each run and kept beside it."""

from __future__ import annotations

import hashlib
import json
import zipfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from sklearn.metrics import silhouette_score

from meanmax.data.files import replacing

COORDINATES, SILHOUETTE = "coordinates", "silhouette"
JUDGED = 20_000
r"""So many nodes at most are compared with one another for the silhouette score."""


@dataclass(frozen=True)
class Layout:
    r"""How t-SNE is computed; equal settings give pictures that may be compared.

    Args:
        perplexity (float): About how many neighbours each point keeps close; a third of the points
            if there are fewer than three times as many.
        iterations (int): Steps of gradient descent.
        components (int): Principal components that the embedding is reduced to first.
        seed (int): The seed.
    """

    perplexity: float = 30.0
    iterations: int = 750
    components: int = 50
    seed: int = 0

    def file_of(self, folder: Path, key: str) -> Path:
        r"""Where the coordinates of a run are kept.

        Args:
            folder (Path): The folder of derived results of a store.
            key (str): The run.
        """
        text = json.dumps(asdict(self), sort_keys=True)
        return folder / f"tsne-{key}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.npz"


def coordinates(embedding: np.ndarray, layout: Layout | None = None) -> np.ndarray:
    r"""Places the rows of an embedding in the plane by `t-SNE
    <https://www.jmlr.org/papers/v9/vandermaaten08a.html>`_, float32, :obj:`[num_nodes, 2]`.

    It starts from the first two principal components, so that similar embeddings get similar
    pictures.

    Args:
        embedding (ndarray): :obj:`[num_nodes, channels]`, finite; four nodes or more.
        layout (Layout, optional): How. (default: :obj:`Layout()`)
    """
    layout = layout or Layout()
    x = np.asarray(embedding, np.float32)
    if x.ndim != 2 or len(x) < 4 or not np.isfinite(x).all():
        raise ValueError(
            f"t-SNE wants a finite embedding of 4 nodes or more (got shape {x.shape}): use that "
            f"of a run that ended well"
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


def kept(folder: Path | None, key: str, layout: Layout | None = None) -> np.ndarray | None:
    r"""The coordinates of a run if they were computed before, else :obj:`None`.

    Args:
        folder (Path, optional): The folder of derived results; :obj:`None` if there is none.
        key (str): The run.
        layout (Layout, optional): How. (default: :obj:`Layout()`)
    """
    return None if folder is None else _read((layout or Layout()).file_of(folder, key), COORDINATES)


def placed(
    folder: Path | None, key: str, embedding: np.ndarray, layout: Layout | None = None
) -> np.ndarray:
    r"""The coordinates of a run, from the folder or computed now and kept there.

    Args:
        folder (Path, optional): The folder of derived results; :obj:`None` to keep nothing.
        key (str): The run.
        embedding (ndarray): Its embedding.
        layout (Layout, optional): How. (default: :obj:`Layout()`)
    """
    layout = layout or Layout()
    found = kept(folder, key, layout)
    if found is not None and found.shape == (len(embedding), 2):
        return found
    found = coordinates(embedding, layout)
    if folder is not None:
        _keep(layout.file_of(folder, key), found, COORDINATES)
    return found


def judged(
    folder: Path | None, key: str, embedding: np.ndarray | None, classes: np.ndarray
) -> float:
    r"""The :func:`silhouette` of a run, from the folder or computed now and kept there.

    Args:
        folder (Path, optional): The folder of derived results; :obj:`None` to keep nothing.
        key (str): The run.
        embedding (ndarray, optional): Its embedding; :obj:`None` for NaN if nothing is kept.
        classes (ndarray): The class of each node.
    """
    marked = hashlib.sha256(np.ascontiguousarray(classes, np.int64).tobytes()).hexdigest()[:8]
    path = None if folder is None else folder / f"silhouette-{key}-{marked}.npz"
    found = None if path is None else _read(path, SILHOUETTE)
    if found is not None and found.shape == ():
        return float(found)
    if embedding is None:
        return float("nan")
    score = silhouette(embedding, classes)
    if path is not None:
        _keep(path, np.float64(score), SILHOUETTE)
    return score


def silhouette(embedding: np.ndarray, classes: np.ndarray, *, seed: int = 0) -> float:
    r"""How compact the classes lie in the embedding itself, from -1 to 1: the mean over nodes of
    :math:`(b - a) / \max(a, b)` with the mean distance :math:`a` to the own class and :math:`b` to
    the nearest other. NaN unless there are two classes and a class of two nodes.

    Args:
        embedding (ndarray): :obj:`[num_nodes, channels]`.
        classes (ndarray): The class of each node; those below 0 are left out.
        seed (int, optional): Of the sample that is taken of more than 20,000 nodes.
            (default: :obj:`0`)
    """
    named = classes >= 0
    x, y = np.asarray(embedding[named], np.float32), classes[named]
    if len(y) > JUDGED:
        chosen = np.random.default_rng(seed).choice(len(y), JUDGED, replace=False)
        x, y = x[chosen], y[chosen]
    if not 2 <= len(np.unique(y)) < len(y):
        return float("nan")
    return float(silhouette_score(x, y))


def _read(path: Path, name: str) -> np.ndarray | None:
    try:
        with np.load(path, allow_pickle=False) as file:
            found: np.ndarray = file[name]
            return found
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile):
        return None  # not there, or damaged: it can be computed anew


def _keep(path: Path, array: np.ndarray | np.float64, name: str) -> None:
    r"""A store that cannot be written to gives its pictures all the same, only later."""
    with suppress(OSError), replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **{name: array})  # type: ignore[arg-type]
