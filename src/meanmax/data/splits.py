r"""Splits into training, validation and test nodes: the paper's schemes, drawn from a seed. Where
whole graphs have the labels, they stand in the place of nodes.

Every node gets a random 64-bit key from the seed, in the canonical order of nodes, and a scheme
takes the nodes with the smallest keys. So a seed gives the same split for every method and every
source of the data; the stream of PCG64 does not change between versions of numpy.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from meanmax.data.dataset import Dataset, Split
from meanmax.data.files import DataError, read_npz, refusing
from meanmax.names import SPLIT_SCHEMES

_PARTS = ("train", "val", "test")
CITATION_VAL, CITATION_TEST = 500, 1000
NUM_FOLDS = 10
PART_OF_WORD = {
    **dict.fromkeys(("", "-1"), -1),
    **dict.fromkeys(("train", "training", "0"), 0),
    **dict.fromkeys(("val", "valid", "validation", "1"), 1),
    **dict.fromkeys(("test", "testing", "2"), 2),
}
r"""The part of a split for each word in files, in lower case; -1 for none."""


def make_split(
    dataset: Dataset, scheme: str | None = None, seed: int = 0, *, pool: Tensor | None = None
) -> Split:
    r"""Splits the labelled nodes, or the labelled graphs of a collection. Those without label are
    in no part.

    Example:
        >>> from meanmax.data import load
        >>> make_split(load("karate"), "balanced", seed=3)
        Split(balanced, seed 3: 8 train, 8 val, 18 test)

    Args:
        dataset (Dataset): The data.
        scheme (str, optional): A key of :obj:`SPLIT_SCHEMES`, or :obj:`file:` and a path. If
            :obj:`None`, the data set's own scheme; else :obj:`inductive` for several graphs, so
            that a split that came with them must keep each whole; else the split that came with
            the data; :obj:`folds` for labels of graphs, :obj:`balanced` for classes, and
            :obj:`random` for several labels per node and for a regression target.
            (default: :obj:`None`)
        seed (int): The seed, or the number of one of several given splits, or the row of a split
            file. Seeds 0 to 9 of :obj:`folds` are the folds of one cross-validation, 10 to 19 those
            of the next. (default: 0)
        pool (Tensor, optional): The nodes of :func:`development_pool`: training and validation
            nodes are drawn from them, and test nodes from all others. (default: :obj:`None`)
    """
    _check(dataset, seed)
    wanted = default_scheme(dataset) if scheme is None else scheme
    if pool is not None:
        _check_pooled(wanted)
        index = np.asarray(pool)
        if index.dtype.kind not in "iu" or index.ndim != 1 or not index.size:
            raise DataError(
                f"'pool' must be the {dataset.level} numbers that 'development_pool' returns"
            )
        if index.min() < 0 or index.max() >= dataset.num_items:
            raise DataError(
                f"'pool' must hold {dataset.level}s from 0 to "
                f"{dataset.num_items - 1} (got {index.min()} to {index.max()})"
            )
        inside = np.zeros(dataset.num_items, bool)
        inside[index] = True
        parts = _POOLED[wanted](dataset, int(seed), inside)
        return checked_split(dataset, parts[:3], f"{wanted}, pool, seed {int(seed)}")
    if wanted.startswith("file:"):
        return read_split_file(dataset, wanted.removeprefix("file:"), int(seed))
    if wanted not in _DRAW and wanted not in _POOLED:
        raise DataError(f"'scheme' must be one of {', '.join(SPLIT_SCHEMES)} (got {wanted!r})")
    if wanted in _POOLED:
        drawn: Split | list[np.ndarray] = _POOLED[wanted](dataset, int(seed), None)[:3]
    else:
        drawn = _DRAW[wanted](dataset, int(seed))
    if isinstance(drawn, Split):
        return drawn
    return checked_split(dataset, drawn, f"{wanted}, seed {int(seed)}")


def is_random(dataset: Dataset, scheme: str | None) -> bool:
    r"""Whether a scheme (by default the one that fits) draws nodes at random, so that it can draw
    them from a development pool.
    """
    return (default_scheme(dataset) if scheme is None else scheme) in _POOLED


def development_pool(dataset: Dataset, scheme: str | None = None, seed: int = 0) -> Tensor:
    r"""Draws the nodes that training and validation nodes of all splits come from, so that no test
    node of one split has been used to choose settings on another; see the argument :obj:`pool` of
    :func:`make_split`.

    The pool holds half of each class (of all labelled nodes if there are several labels per node
    or a regression target), and at least the training and validation nodes that the scheme takes.
    At least one node of each class is left to test.

    Example:
        >>> from meanmax.data import load
        >>> club = load("karate")
        >>> pool = development_pool(club)
        >>> make_split(club, seed=3, pool=pool)
        Split(balanced, pool, seed 3: 8 train, 8 val, 18 test)

    Args:
        dataset (Dataset): The data.
        scheme (str, optional): :obj:`citation`, :obj:`amazon`, :obj:`balanced` or :obj:`random`.
            (default: the one that fits)
        seed (int): The seed of the pool, which has nothing to do with those of splits. (default: 0)
    """
    _check(dataset, seed)
    wanted = default_scheme(dataset) if scheme is None else scheme
    _check_pooled(wanted)
    nodes = _shuffled(dataset, (int(seed), 1))
    if dataset.task != "multiclass":
        if wanted != "random":
            _check_classes(dataset)
        return torch.from_numpy(np.sort(nodes[: nodes.size // 2]))
    label, inside = dataset.y.numpy()[nodes], np.zeros(nodes.size, bool)
    spare, train = inside.copy(), 0
    for number, name in enumerate(dataset.class_names):
        own = np.flatnonzero(label == number)
        if own.size < 3 and (own.size or wanted != "random"):
            raise DataError(
                f"class '{name}' of '{dataset.name}' has {own.size} labelled "
                f"{dataset.level}{'' if own.size == 1 else 's'}, and a development pool needs "
                f"three of each class, to train, validate and test; label more, or merge classes"
            )
        sizes = (0, 0) if wanted == "random" else _class_counts(dataset, name, own.size, wanted)
        half = max(own.size // 2, sum(sizes))
        inside[own[:half]], spare[own[half:-1]] = True, True  # the last one is left to test
        train += sizes[0]
    if wanted == "citation":  # validation nodes are of any class
        missing = max(0, train + CITATION_VAL - np.count_nonzero(inside))
        inside[np.flatnonzero(spare)[:missing]] = True
    return torch.from_numpy(np.sort(nodes[inside]))


def _check(dataset: Dataset, seed: int) -> None:
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise DataError(f"'seed' must be a whole number from 0 on (got {seed!r})")
    if not bool(dataset.labelled.any()):
        raise DataError(
            f"no {dataset.level} of '{dataset.name}' has a label: label some to learn from"
        )


def _check_pooled(scheme: str) -> None:
    if scheme not in _POOLED:
        raise DataError(
            f"'scheme' must be one of {', '.join(_POOLED)} with a development pool (got {scheme!r})"
        )


def _check_classes(dataset: Dataset) -> None:
    if dataset.task == "multilabel":
        raise DataError(
            f"'{dataset.name}' has several labels per {dataset.level}: use 'random' or 'folds'"
        )
    if dataset.task == "regression":
        raise DataError(
            f"the target of '{dataset.name}' is a number, not a class: use 'random' or 'folds'"
        )


def default_scheme(dataset: Dataset) -> str:
    r"""The scheme that fits a data set best."""
    if dataset.scheme is not None:
        return dataset.scheme
    if dataset.num_graphs > 1 and dataset.level == "node":
        return "inductive"  # a given split is taken, if it keeps graphs whole
    if dataset.split is not None:
        return "given"
    if dataset.level == "graph":
        return "folds"
    return "balanced" if dataset.task == "multiclass" else "random"


def checked_split(dataset: Dataset, parts: Sequence[np.ndarray], name: str) -> Split:
    r"""Sorted, disjoint sets of nodes, without those that have no label."""
    for part, nodes in zip(_PARTS, parts, strict=True):
        if nodes.ndim != 1 or nodes.dtype.kind not in "iu":
            raise DataError(f"'{part}' of split '{name}' must be a list of {dataset.level} numbers")
        if nodes.size and (nodes.min() < 0 or nodes.max() >= dataset.num_items):
            raise DataError(
                f"'{part}' of split '{name}' must hold {dataset.level}s from 0 to "
                f"{dataset.num_items - 1} (got {nodes.min()} to {nodes.max()})"
            )
    together = np.concatenate([nodes.astype(np.int64) for nodes in parts])
    values, counts = np.unique(together, return_counts=True)
    if (counts > 1).any():
        twice = int(values[counts > 1][0])
        raise DataError(
            f"split '{name}' must name each {dataset.level} once ({dataset.level} {twice} occurs "
            f"twice)"
        )
    labelled = dataset.labelled.numpy()
    kept = [np.sort(nodes[labelled[nodes]]).astype(np.int64) for nodes in parts]
    if kept[0].size == 0:
        raise DataError(f"split '{name}' has no labelled {dataset.level} to train on")
    train, val, test = map(torch.from_numpy, kept)
    return Split(train, val, test, name)


def node_keys(size: int, seed: int | tuple[int, ...]) -> np.ndarray:
    r"""A random key for each of :obj:`size` items, uint64."""
    return np.asarray(np.random.PCG64(seed).random_raw(size))


# Schemes that can draw from a development pool take which nodes are in it, or None without one.
def _citation(dataset: Dataset, seed: int, inside: np.ndarray | None) -> list[np.ndarray]:
    train, _, rest, unused = _take_by_class(dataset, seed, inside, scheme="citation")
    if inside is not None:
        if unused.size < CITATION_VAL or rest.size < CITATION_TEST:
            raise DataError(
                f"scheme 'citation' needs {CITATION_VAL} labelled nodes of the pool besides the "
                f"training nodes and {CITATION_TEST} outside it (got {unused.size} and {rest.size} "
                f"in '{dataset.name}'); use 'balanced'"
            )
        return [train, unused[:CITATION_VAL], rest[:CITATION_TEST]]
    needed = CITATION_VAL + CITATION_TEST
    if rest.size < needed:
        raise DataError(
            f"scheme 'citation' needs {needed} labelled nodes besides the training nodes "
            f"(got {rest.size} in '{dataset.name}'); use 'balanced'"
        )
    return [train, rest[:CITATION_VAL], rest[CITATION_VAL:needed]]


def _random(dataset: Dataset, seed: int, inside: np.ndarray | None) -> list[np.ndarray]:
    nodes = _shuffled(dataset, seed)
    if nodes.size < 5:
        raise DataError(f"scheme 'random' needs 5 labelled {dataset.level}s (got {nodes.size})")
    if inside is None:
        return np.split(nodes, [nodes.size * 6 // 10, nodes.size * 8 // 10])
    pool = nodes[inside[nodes]]
    return [*np.split(pool, [pool.size * 3 // 4]), nodes[~inside[nodes]]]


def _folds(dataset: Dataset, seed: int) -> list[np.ndarray]:
    """A fold to test, the next one to validate, and the others to train; classes are dealt out one
    after the other, so that each has its share in every fold."""
    repetition, fold = divmod(seed, NUM_FOLDS)
    items = _shuffled(dataset, repetition)
    if items.size < NUM_FOLDS:
        raise DataError(
            f"scheme 'folds' needs {NUM_FOLDS} labelled {dataset.level}s (got {items.size} in "
            f"'{dataset.name}'); use 'random'"
        )
    if dataset.task == "multiclass":
        items = items[np.argsort(dataset.y.numpy()[items], kind="stable")]
    own = np.arange(items.size) % NUM_FOLDS
    test, val = own == fold, own == (fold + 1) % NUM_FOLDS
    return [items[~(test | val)], items[val], items[test]]


def _inductive(dataset: Dataset, seed: int) -> Split | list[np.ndarray]:
    if dataset.level == "graph":
        raise DataError(
            f"the labels of '{dataset.name}' are those of whole graphs, which every scheme keeps: "
            f"use 'folds', 'random' or 'balanced'"
        )
    graph, count = dataset.graph_id.numpy(), dataset.num_graphs
    if dataset.split is not None:
        given = _given(dataset, seed)
        parts = [np.unique(graph[part.numpy()]) for part in (given.train, given.val, given.test)]
        divided = np.flatnonzero(np.bincount(np.concatenate(parts)) > 1)
        if divided.size:
            raise DataError(
                "scheme 'inductive' needs whole graphs, but the split that came with "
                f"'{dataset.name}' divides {divided.size} (the first: graph {divided[0]}, counted "
                "from 0): models would be tested on graphs that they learned from. Put each graph "
                "into one part, or use the scheme 'given' if that is meant"
            )
        return given
    if count < 3:
        raise DataError(f"scheme 'inductive' needs 3 graphs or more (got {count})")
    order = np.argsort(node_keys(count, seed), kind="stable")
    held = max(1, count // 10)
    role = np.zeros(count, np.int64)
    role[order[:held]], role[order[held : 2 * held]] = 1, 2
    return [np.flatnonzero(role[graph] == number) for number in range(3)]


def _public(dataset: Dataset, seed: int) -> Split:
    if dataset.split is None or dataset.split.name != "public":
        raise DataError(f"'{dataset.name}' has no public split; only cora, citeseer, pubmed do")
    return dataset.split


def _given(dataset: Dataset, seed: int) -> Split:
    if dataset.split is None:
        raise DataError(f"'{dataset.name}' came without a split; use {', '.join(SPLIT_SCHEMES)}")
    if dataset.splits and seed >= len(dataset.splits):
        raise DataError(
            f"'{dataset.name}' came with {len(dataset.splits)} splits, seeds 0 to "
            f"{len(dataset.splits) - 1} (got seed {seed})"
        )
    return dataset.splits[seed] if dataset.splits else dataset.split


def _shuffled(dataset: Dataset, seed: int | tuple[int, ...]) -> np.ndarray:
    order = np.argsort(node_keys(dataset.num_items, seed), kind="stable")
    return np.asarray(order[dataset.labelled.numpy()[order]])


def _take_by_class(
    dataset: Dataset, seed: int, inside: np.ndarray | None, *, scheme: str
) -> list[np.ndarray]:
    """Training and validation nodes of each class, the others, and those of the pool not used."""
    _check_classes(dataset)
    nodes = _shuffled(dataset, seed)
    label = dataset.y.numpy()[nodes]
    pooled = np.ones(nodes.size, bool) if inside is None else inside[nodes]
    part = np.where(pooled & (inside is not None), 3, 2)
    for number, name in enumerate(dataset.class_names):
        of_class = label == number
        first, second = _class_counts(dataset, name, int(of_class.sum()), scheme)
        own = np.flatnonzero(of_class & pooled)
        if own.size < first + second:
            raise DataError(
                f"'pool' has {own.size} {dataset.level}s of class '{name}', too few for {first} to "
                f"train and {second} to validate; draw it with 'development_pool' for scheme "
                f"'{scheme}'"
            )
        part[own[:first]], part[own[first : first + second]] = 0, 1
    return [nodes[part == number] for number in range(4)]


def _class_counts(dataset: Dataset, name: str, size: int, scheme: str) -> tuple[int, int]:
    """How many nodes of a class of this size train and validate; one more is needed to test."""
    train, val = 20, 0 if scheme == "citation" else 30
    most = max(1, size * 3 // 10) if scheme == "balanced" else max(train, val)
    first, second = min(train, most), min(val, most)
    if size < first + second + 1:
        needed = f"{first} to train" + (f" and {second} to validate" if second else "")
        balanced = "'balanced' (3 per class) or " if size >= 3 else ""
        raise DataError(
            f"class '{name}' of '{dataset.name}' has {size} labelled "
            f"{dataset.level}{'' if size == 1 else 's'}, too few for {needed} and one to test; "
            f"label more, merge classes, or use the scheme {balanced}'random'"
        )
    return first, second


_POOLED: dict[str, Callable[[Dataset, int, np.ndarray | None], list[np.ndarray]]] = {
    "citation": _citation,
    "amazon": partial(_take_by_class, scheme="amazon"),
    "balanced": partial(_take_by_class, scheme="balanced"),
    "random": _random,
}
_DRAW: dict[str, Callable[[Dataset, int], Split | list[np.ndarray]]] = {
    "folds": _folds,
    "inductive": _inductive,
    "public": _public,
    "given": _given,
}


def read_split_file(dataset: Dataset, path: str, seed: int) -> Split:
    r"""Reads a split from a file.

    An :obj:`.npz` file holds node numbers or masks under :obj:`train`, :obj:`val`, :obj:`test`,
    possibly with the name of the data set before them (:obj:`cora_train`) or :obj:`_mask` after
    them. Of arrays with two dimensions, row :obj:`seed` is taken, or the column of masks that have
    a row for each node. A :obj:`.csv` file, with commas, semicolons or tabs, has the columns
    :obj:`id` and :obj:`split` (train, val or test); nodes that it does not name, or whose split is
    empty, are in no part.
    """
    file = Path(path).expanduser()
    if not file.is_file():
        raise DataError(f"there is no split file '{file}'")
    with refusing(str(file), "give an npz with train, val and test, or a csv with id and split"):
        content = file.read_bytes()
        if file.suffix == ".npz":
            parts = _parts_of_npz(dataset, content, file.name, seed)
            return checked_split(dataset, parts, f"{file.name}, row {seed}")
        return checked_split(dataset, _parts_of_csv(dataset, content, file.name), file.name)


def _parts_of_npz(dataset: Dataset, content: bytes, what: str, seed: int) -> list[np.ndarray]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        present = {name.removesuffix(".npy") for name in archive.namelist()}
    forms = ("{}", f"{dataset.name}_{{}}", "{}_mask", f"{dataset.name}_{{}}_mask")
    for form in forms:
        keys = tuple(form.format(part) for part in _PARTS)
        if present.issuperset(keys):
            arrays = read_npz(content, keys, what)
            return [_items(dataset, a, f"{what}: {key}", seed) for key, a in arrays.items()]
    wanted = " or ".join(form.format("train") for form in forms)
    raise DataError(f"'{what}' must hold {wanted} (and val, test); it holds {sorted(present)[:12]}")


def _items(dataset: Dataset, array: np.ndarray, what: str, seed: int) -> np.ndarray:
    """The numbers themselves, or those of a mask; PyG writes several masks as columns."""
    size = dataset.num_items
    is_mask = array.dtype.kind == "b" or what.endswith("_mask")
    if array.ndim == 2:
        line, rows = "row", array
        if is_mask and array.shape[1] != size and array.shape[0] == size:
            line, rows = "column", array.T
        if seed >= rows.shape[0]:
            raise DataError(f"'{what}' has {rows.shape[0]} splits, no {line} {seed}")
        array = rows[seed]
    fits = array.shape == (size,) and array.dtype.kind in "biuf" and np.isin(array, (0, 1)).all()
    if is_mask and not fits:
        raise DataError(
            f"'{what}' must hold masks of {size} {dataset.level}s, true or false for each"
        )
    # As numbers, this many zeros and ones would repeat one.
    return np.flatnonzero(array) if is_mask or (fits and size > 2) else array


def _parts_of_csv(dataset: Dataset, content: bytes, what: str) -> list[np.ndarray]:
    text = content.decode("utf-8-sig")
    separator = max(",;\t", key=text.partition("\n")[0].count)
    rows = csv.DictReader(io.StringIO(text), strict=True, delimiter=separator)
    names = [name.strip().lower() for name in rows.fieldnames or ()]
    if not {"id", "split"}.issubset(names):
        raise DataError(f"'{what}' must have the columns id and split (got {rows.fieldnames})")
    rows.fieldnames = names
    ids = range(dataset.num_items) if dataset.item_ids is None else dataset.item_ids
    number_of = {str(name): number for number, name in enumerate(ids)}
    parts: list[list[int]] = [[], [], []]
    for row in rows:
        name, word = (row["id"] or "").strip(), (row["split"] or "").strip().lower()
        line = f"line {rows.line_num} of '{what}'"
        if name not in number_of:
            raise DataError(f"{line}: there is no {dataset.level} '{name}'")
        if word not in PART_OF_WORD:
            raise DataError(f"{line}: 'split' must be train, val or test (got {word!r})")
        if PART_OF_WORD[word] >= 0:
            parts[PART_OF_WORD[word]].append(number_of[name])
    return [np.array(part, np.int64) for part in parts]
