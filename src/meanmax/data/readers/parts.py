r"""What every reader takes out of its format, before it becomes a data set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

NO_SPLIT, TRAIN, VAL, TEST = -1, 0, 1, 2


def no_line(row: int) -> int | None:
    r"""For files without lines."""
    return None


@dataclass(eq=False)
class Labels:
    r"""The labels of all nodes.

    Args:
        y (ndarray): Classes, int64, :obj:`[num_nodes]`, -1 for none; or 0/1 for several labels,
            float32, :obj:`[num_nodes, num_labels]`, NaN in rows without labels.
        names (tuple): The names of classes, or of labels.
    """

    y: np.ndarray
    names: tuple[str, ...]

    @property
    def known(self) -> np.ndarray:
        r"""Which nodes have a label."""
        known: np.ndarray = self.y >= 0 if self.y.ndim == 1 else ~np.isnan(self.y).any(1)
        return known


@dataclass(eq=False)
class Edges:
    r"""Edges as they stand in the file.

    Args:
        file (str): The name of the file.
        source (ndarray): Numbers of nodes, int64, :obj:`[num_edges]`.
        target (ndarray): Likewise.
        weight (ndarray, optional): Finite and >= 0, float32, :obj:`[num_edges]`.
        line (callable): The line of an edge.
        says_directed (bool): Whether the file itself calls its edges directed.
    """

    file: str
    source: np.ndarray
    target: np.ndarray
    weight: np.ndarray | None = None
    line: Callable[[int], int | None] = no_line
    says_directed: bool = False


@dataclass(eq=False)
class Nodes:
    r"""Nodes as they stand in the file.

    Args:
        file (str): The name of the file.
        x (ndarray or csr_array): Finite features, float32, :obj:`[num_nodes, num_features]`.
        labels (Labels): Their labels.
        ids (ndarray, optional): Identifiers, strings.
        split (ndarray, optional): 0 train, 1 validation, 2 test, -1 none, :obj:`[num_nodes]`.
        graph_ptr (ndarray, optional): The first node of each graph; one graph if :obj:`None`.
    """

    file: str
    x: Any
    labels: Labels
    ids: np.ndarray | None = None
    split: np.ndarray | None = None
    graph_ptr: np.ndarray | None = None

    @property
    def count(self) -> int:
        r"""How many there are."""
        return int(self.x.shape[0])


@dataclass(eq=False)
class Parts:
    r"""A graph out of a person's file.

    Args:
        name (str): What the data set is called.
        nodes (Nodes): Its nodes.
        edges (Edges): Its edges.
    """

    name: str
    nodes: Nodes
    edges: Edges
