r"""Labels of nodes as numbers that a loss takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from meanmax.train.nodes import Nodes


@dataclass(frozen=True, eq=False)
class Targets:
    r"""Labels of all nodes.

    Args:
        values (ndarray): :obj:`[num_nodes]` of any type, or 0/1, :obj:`[num_nodes, num_labels]`.
        missing (ndarray): Which nodes have no label, bool, :obj:`[num_nodes]`.
        classes (ndarray): The classes that occur among training nodes, sorted, or all that have a
            name; for several labels their numbers.
    """

    values: np.ndarray
    missing: np.ndarray
    classes: np.ndarray

    @property
    def multilabel(self) -> bool:
        r"""Whether a node has several labels."""
        return self.values.ndim == 2

    def nodes(self, index: Tensor, name: str) -> Nodes:
        r"""The targets of some nodes; an error unless all have a known label."""
        where = index.numpy()
        check_present(self.missing[where], name)
        chosen = self.values[where]
        if self.multilabel:
            return Nodes(index, torch.from_numpy(chosen.astype(np.float32)))
        position = np.searchsorted(self.classes, chosen).clip(max=len(self.classes) - 1)
        unknown = self.classes[position] != chosen
        if unknown.any():
            raise ValueError(
                f"'{name}' holds nodes with labels that no training node has "
                f"({_examples(chosen[unknown])}); the classes are {_examples(self.classes)}"
            )
        return Nodes(index, torch.from_numpy(position.astype(np.int64)))


def names_told_apart(names: Sequence[str], columns: int) -> tuple[str, ...]:
    r"""The names of what a classifier tells apart; a single label of 0 and 1 is two classes.

    Example:
        >>> names_told_apart(["spam"], 2)
        ('not spam', 'spam')

    Args:
        names (sequence): The names of classes, or of labels.
        columns (int): The dimensions of :obj:`y`: 1 for classes, 2 for labels.
    """
    if columns == 2 and len(names) == 1:
        return (f"not {names[0]}", names[0])
    return tuple(names)


def as_targets(
    y: Any, train: Tensor, num_nodes: int, class_names: Sequence[str] | None = None
) -> Targets:
    r"""Checks labels.

    Args:
        y (array-like): One label of any type for each node, or 0/1 in a column for each of several
            labels; a single column is one label. Negative numbers, NaN and :obj:`None` mean that
            there is none.
        train (Tensor): The training nodes, which need labels.
        num_nodes (int): The number of nodes.
        class_names (sequence, optional): The names of classes that are numbered from 0, or of the
            labels; a class counts even if no training node has it. (default: :obj:`None`)
    """
    values, missing = as_labels(y, num_nodes)
    check_present(missing[train.numpy()], "train_mask")
    if class_names is not None:
        _check_names(values[train.numpy()], class_names)
    if values.ndim == 2:
        return Targets(values, missing, np.arange(values.shape[1]))
    classes = np.unique(values[train.numpy()])
    if len(classes) < 2:
        raise ValueError(
            f"training nodes have one class only ({_examples(classes)}): there is nothing to tell "
            f"apart"
        )
    if class_names is not None:
        classes = np.arange(len(class_names))
    return Targets(values, missing, classes)


def as_labels(y: Any, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Labels in an array that can be sorted, and which of them are missing."""
    values = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
    if values.ndim not in (1, 2) or len(values) != num_nodes:
        raise ValueError(
            f"'y' must be [{num_nodes}] or [{num_nodes}, num_labels] (got {list(values.shape)})"
        )
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim == 2:
        return _several(values)
    if values.dtype == object:
        return _objects(values)
    if np.issubdtype(values.dtype, np.floating):
        missing = np.isnan(values) | (values < 0)
        whole = np.where(missing, -1, values)
        if not (np.isfinite(whole).all() and (whole == np.round(whole)).all()):
            raise ValueError(
                "'y' must hold classes, not measurements (got numbers that are not whole)"
            )
        return whole.astype(np.int64), missing
    if np.issubdtype(values.dtype, np.signedinteger):
        return values, values < 0
    return values, np.zeros(num_nodes, bool)


def check_present(missing: np.ndarray, name: str) -> None:
    r"""A :class:`ValueError` if some of the nodes have no label."""
    if missing.any():
        raise ValueError(
            f"'{name}' holds {int(missing.sum())} nodes without a label (negative, NaN or None "
            f"stand for none): leave them out of it"
        )


def _check_names(values: np.ndarray, class_names: Sequence[str]) -> None:
    r"""Names must be different, and as many as the labels of training nodes ask for."""
    count = len(class_names)
    if isinstance(class_names, str) or len(set(class_names)) < count:
        raise ValueError(f"'class_names' must be different names (got {class_names!r})")
    if values.ndim == 2:
        fits = values.shape[1] == count
        found = f"{values.shape[1]} labels"
    else:
        numbered = values.dtype.kind in "iub"
        fits = numbered and (values.size == 0 or int(values.max()) < count)
        found = f"classes {_examples(values)}"
    if not fits:
        raise ValueError(
            f"'class_names' has {count} names, but 'y' holds {found}: give a name for each label, "
            f"or for each class from 0 on"
        )


def _several(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    numbers = values.astype(np.float64)
    missing = np.asarray((np.isnan(numbers) | (numbers < 0)).any(axis=1))
    wrong = ~np.isin(numbers[~missing], (0, 1))
    if wrong.any():
        raise ValueError(
            f"'y' must be 0 or 1 for every label (got {_examples(numbers[~missing][wrong])})"
        )
    return numbers, missing


def _objects(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Python objects: text, or whatever numpy makes of those that are there."""
    missing = np.array([value is None or value != value for value in values], bool)
    present = values[~missing].tolist()
    kinds = {type(value) for value in present}
    if len(kinds) > 1:
        raise ValueError(
            f"'y' mixes {', '.join(sorted(kind.__name__ for kind in kinds))}: give all labels as "
            f"one type"
        )
    plain = np.array(present) if present else np.zeros(0, np.int64)
    filled = np.full(len(values), plain[0] if present else -1, plain.dtype)
    filled[~missing] = plain
    if not np.issubdtype(plain.dtype, np.number):
        return filled, missing
    inner, more = as_labels(filled, len(filled))
    return inner, missing | more


def _examples(values: np.ndarray) -> str:
    shown = [str(value) for value in np.unique(values)[:5]]
    return ", ".join(shown) + (", …" if len(np.unique(values)) > 5 else "")
