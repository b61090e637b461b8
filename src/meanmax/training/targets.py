r"""Labels of nodes as numbers that a loss takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from meanmax.training.loop import Nodes


@dataclass(frozen=True, eq=False)
class Targets:
    r"""Labels of all nodes.

    Args:
        values (ndarray): :obj:`[num_nodes]` of any type, or 0/1, :obj:`[num_nodes, num_labels]`.
        classes (ndarray): The classes that occur among training nodes, sorted; for several labels
            their numbers.
    """

    values: np.ndarray
    classes: np.ndarray

    @property
    def multilabel(self) -> bool:
        r"""Whether a node has several labels."""
        return self.values.ndim == 2

    def nodes(self, index: Tensor, name: str) -> Nodes:
        r"""The targets of some nodes; an error unless all have a known label."""
        chosen = self.values[index.numpy()]
        if self.multilabel:
            if not np.isin(chosen, (0, 1)).all():
                raise ValueError(
                    f"'y' must be 0 or 1 for every label of the nodes in '{name}' (got "
                    f"{_examples(chosen[~np.isin(chosen, (0, 1))])}); leave nodes without labels "
                    f"out of it"
                )
            return Nodes(index, torch.from_numpy(chosen.astype(np.float32)))
        position = np.searchsorted(self.classes, chosen).clip(max=len(self.classes) - 1)
        unknown = self.classes[position] != chosen
        if unknown.any():
            raise ValueError(
                f"'{name}' holds nodes with labels that no training node has "
                f"({_examples(chosen[unknown])}); the classes are {_examples(self.classes)}"
            )
        return Nodes(index, torch.from_numpy(position.astype(np.int64)))


def as_targets(y: Any, train: Tensor, num_nodes: int) -> Targets:
    r"""Checks labels.

    Args:
        y (array-like): One label of any type for each node, or 0/1 in a column for each of several
            labels. Negative numbers and NaN mean that there is none.
        train (Tensor): The training nodes, which need labels.
        num_nodes (int): The number of nodes.
    """
    values = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
    if values.ndim not in (1, 2) or len(values) != num_nodes:
        raise ValueError(
            f"'y' must be [{num_nodes}] or [{num_nodes}, num_labels] (got {list(values.shape)})"
        )
    if values.ndim == 2:
        return Targets(values, np.arange(values.shape[1]))
    values = _as_labels(values)
    chosen = values[train.numpy()]
    if np.issubdtype(chosen.dtype, np.number) and (missing := int((chosen < 0).sum())):
        raise ValueError(
            f"'train_mask' holds {missing} nodes with a negative label, which stands for none: "
            f"leave them out of it"
        )
    classes = np.unique(chosen)
    if len(classes) < 2:
        raise ValueError(
            f"training nodes have one class only ({_examples(classes)}): there is nothing to tell "
            f"apart"
        )
    return Targets(values, classes)


def _as_labels(values: np.ndarray) -> np.ndarray:
    r"""Whole numbers where they are whole, with -1 for NaN; strings otherwise."""
    if np.issubdtype(values.dtype, np.floating):
        whole = np.where(np.isnan(values), -1, values)
        if not (np.isfinite(whole).all() and (whole == np.round(whole)).all()):
            raise ValueError(
                "'y' must hold classes, not measurements (got numbers that are not whole)"
            )
        return whole.astype(np.int64)
    return values if np.issubdtype(values.dtype, np.number) else values.astype(str)


def _examples(values: np.ndarray) -> str:
    shown = [str(value) for value in np.unique(values)[:5]]
    return ", ".join(shown) + (", …" if len(np.unique(values)) > 5 else "")
