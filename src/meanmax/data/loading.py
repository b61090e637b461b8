r"""One function that loads every data set, and the small ones of scikit-learn and PyG."""

from __future__ import annotations

import os
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.spatial.distance import cdist
from torch import Tensor

from meanmax.data.benchmarks.amazon import read_amazon
from meanmax.data.benchmarks.citation import read_citation
from meanmax.data.benchmarks.digits_graphs import digits_graphs
from meanmax.data.benchmarks.ppi import read_ppi
from meanmax.data.benchmarks.reach import reach_from_options
from meanmax.data.benchmarks.sbm import sbm_from_options
from meanmax.data.benchmarks.sets import sets_from_options
from meanmax.data.dataset import Dataset
from meanmax.data.fetch.catalog import CATALOG, is_name, unknown_name
from meanmax.data.fetch.sources import contents, locate_collection
from meanmax.data.files import DataError, Progress
from meanmax.data.matrices import standardise, undirected
from meanmax.data.readers import read_object, read_own
from meanmax.data.readers.features import Impute, OneHot
from meanmax.unpacking import max_unpacked as unpacking

if TYPE_CHECKING:
    from torch_geometric.data import Data, InMemoryDataset

_READERS = {
    **dict.fromkeys(("cora", "citeseer", "pubmed"), read_citation),
    **dict.fromkeys(("photo", "computers"), read_amazon),
    **dict.fromkeys(("ppi", "ppi-go"), read_ppi),
}
_GENERATORS = {"sbm": sbm_from_options, "sets": sets_from_options, "reach": reach_from_options}
NEIGHBOURS = 10


def load(
    name_or_path: str | PathLike[str] | Data | InMemoryDataset | list[Data],
    *,
    data_dir: str | PathLike[str] | None = None,
    download: bool = True,
    directed: bool = False,
    one_hot: OneHot = (),
    impute: Impute = None,
    task: str | None = None,
    max_unpacked: int | str | None = None,
    progress: Progress | None = None,
) -> Dataset:
    r"""Loads a data set of the catalogue by its name, or your own graph, or graphs, by the path.

    Example:
        >>> dataset = load("karate")
        >>> dataset.num_nodes, dataset.num_classes
        (34, 4)
        >>> load("sbm:nodes=100,edges=300,seed=1").edge_index.shape
        torch.Size([2, 600])

    Args:
        name_or_path (str, PathLike or Data): A name of :obj:`CATALOG`; :obj:`sbm:`, :obj:`sets:` or
            :obj:`reach:` with options of :func:`~meanmax.data.benchmarks.sbm.sbm`,
            :func:`~meanmax.data.benchmarks.sets.sets` or
            :func:`~meanmax.data.benchmarks.reach.reach`; the file or folder of your own graph, or
            of a collection of graphs; or PyG's :obj:`Data`, a list of them, or an
            :obj:`InMemoryDataset`. Text that is a name is never taken for a path: write
            :obj:`./cora` for a folder of that name.
        data_dir (str or PathLike, optional): A folder to search first, and to write downloads to.
            (default: :obj:`None`)
        download (bool, optional): Whether missing files may be downloaded.
            (default: :obj:`True`)
        directed (bool, optional): Whether the edges of your own graph keep their direction;
            otherwise each is stored both ways. (default: :obj:`False`)
        one_hot (sequence or mapping, optional): Columns of categories in the table of your own
            nodes. Each becomes a feature of 0 and 1 for each of its categories, sorted, or for
            those that a mapping names. (default: none)
        impute (str or mapping, optional): What missing features of your own nodes are filled with:
            the :obj:`"mean"` or :obj:`"median"` of the other values in the column, over all nodes;
            :obj:`"zero"`; or the value of each column by its name. The attribute
            :obj:`Dataset.encoding` holds the mappings, so that
            :obj:`load(other, **dataset.encoding)` has the same features. (default: :obj:`None`)
        task (str, optional): What the labels of your own graph are: :obj:`"classification"` or
            :obj:`"regression"`, which makes whole numbers a target. If :obj:`None`, numbers that
            are not all whole are a target, and everything else names classes.
            (default: :obj:`None`)
        max_unpacked (int or str, optional): The bytes that compressed files may unpack to, or a
            text such as :obj:`"4G"`. (default: 64 times their size plus 256 MiB)
        progress (callable, optional): Called with a name, bytes done and bytes in total.
            (default: :obj:`None`)
    """
    own: dict[str, Any] = {"directed": directed, "one_hot": one_hot, "impute": impute, "task": task}
    with unpacking(max_unpacked):
        return _load(name_or_path, data_dir, download, progress, **own)


def _load(
    name_or_path: Any,
    data_dir: str | PathLike[str] | None,
    download: bool,
    progress: Progress | None,
    *,
    directed: bool,
    **encoding: Any,
) -> Dataset:
    if not isinstance(name_or_path, str | PathLike):
        return read_object(name_or_path, directed=directed, **encoding)
    name = os.fspath(name_or_path)
    kind, _, options = name.partition(":")
    if not isinstance(name_or_path, str) or not is_name(name):
        like_path = os.path.exists(name) or {os.sep, "/"} & set(name) or os.path.splitext(name)[1]
        if isinstance(name_or_path, str) and not like_path:
            raise DataError(unknown_name(name))
        return read_own(name_or_path, directed=directed, progress=progress, **encoding)
    if directed:
        raise DataError(
            f"'directed' is for graphs of your own; the directions of '{kind}' are known"
        )
    if encoding["task"] is not None:
        raise DataError(f"'task' is for graphs of your own; that of '{kind}' is known")
    if name in CATALOG and CATALOG[name].collection:
        place = locate_collection(name, data_dir)
        return _read_collection(name, place, progress, **encoding)
    if encoding["one_hot"] or encoding["impute"] is not None:
        raise DataError(
            f"'one_hot' and 'impute' are for graphs of your own; '{kind}' has numbers only, and "
            f"all of them"
        )
    if kind in _GENERATORS:
        return _GENERATORS[kind](options)
    if CATALOG[name].kind == "embedded":
        special = {"karate": karate, "digits-graphs": digits_graphs}
        return special[name]() if name in special else from_sklearn(name)
    files = contents(name, data_dir=data_dir, download=download, progress=progress)
    return _READERS[name](name, files)


def _read_collection(name: str, path: Path, progress: Progress | None, **encoding: Any) -> Dataset:
    dataset = read_own(path, progress=progress, **encoding)
    return replace(dataset, name=name, notes=(f"read from {path}", *dataset.notes[1:]))


def nearest_neighbours(points: np.ndarray, k: int, metric: str) -> Tensor:
    r"""Joins each point and its :obj:`k` nearest neighbours, undirected. Distances are compared to
    ten digits; ties go to the lower index.
    """
    distance = cdist(points, points, metric).round(10)
    np.fill_diagonal(distance, np.inf)
    nearest = distance.argsort(axis=1, kind="stable")[:, :k]
    source = np.arange(len(points)).repeat(nearest.shape[1])
    return undirected(source, nearest.ravel(), len(points))


def from_sklearn(name: str) -> Dataset:
    r"""A table of scikit-learn: features are standardised over all nodes, neighbours are found by
    the cosine of the pixels (digits) or the distance of standardised features (wine, cancer).
    """
    from sklearn import datasets

    table = getattr(datasets, f"load_{'breast_cancer' if name == 'cancer' else name}")()
    x = standardise(table.data)
    near = (table.data, NEIGHBOURS, "cosine") if name == "digits" else (x, NEIGHBOURS, "euclidean")
    return Dataset(
        name,
        torch.from_numpy(x),
        torch.from_numpy(table.target.astype(np.int64)),
        nearest_neighbours(*near),
        class_names=tuple(str(label) for label in table.target_names),
        notes=(
            f"{NEIGHBOURS} nearest neighbours, undirected.",
            "Features standardised over all nodes.",
        ),
    )


def karate() -> Dataset:
    r"""Zachary's karate club with the four communities and one-hot features of PyG."""
    from torch_geometric.datasets import KarateClub

    club = KarateClub()[0]
    source, target = club.edge_index.numpy()
    return Dataset(
        "karate",
        club.x.to(torch.float32),
        club.y.to(torch.int64),
        undirected(source, target, club.num_nodes),
        class_names=tuple(f"community {number}" for number in range(4)),
        notes=("Features are one-hot: each member is a feature.",),
    )
