r"""Features of nodes, in memory or on disk, read by ranges of rows or by rows that are named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from meanmax.scale.edges import (Array, Edges, RowBlock)
from meanmax.graph import (Graph, SparseFeatures)
from meanmax.nn.linear import Features
from meanmax.train.scaling import Scaling


class Rows(Protocol):
    r"""A row of features for each node."""

    @property
    def shape(self) -> tuple[int, int]:
        r"""Nodes and features."""

    @property
    def is_sparse(self) -> bool:
        r"""Whether rows come as :class:`~meanmax.SparseFeatures`."""

    def read(self, first: int, last: int) -> Features:
        r"""The rows from :obj:`first` to before :obj:`last`, copied."""

    def gather(self, nodes: Array) -> Features:
        r"""The rows of some nodes, int64, in their order, copied."""


@dataclass(frozen=True, eq=False)
class DenseRows:
    r"""Dense rows.

    Args:
        array (ndarray): :obj:`[num_nodes, num_features]`, floating-point; may be mapped from a
            file.
    """

    array: Array
    is_sparse = False

    @property
    def shape(self) -> tuple[int, int]:
        r"""Nodes and features."""
        return self.array.shape[0], self.array.shape[1]

    def read(self, first: int, last: int) -> Tensor:
        r"""The rows from :obj:`first` to before :obj:`last`, copied."""
        return torch.from_numpy(np.array(self.array[first:last]))

    def gather(self, nodes: Array) -> Tensor:
        r"""The rows of some nodes, copied."""
        return torch.from_numpy(np.take(np.asarray(self.array), nodes, axis=0))


@dataclass(frozen=True, eq=False)
class SparseRows:
    r"""Sparse rows.

    Args:
        entries (Edges): From features to nodes, with the stored values as weights.
        num_features (int): The number of features.
    """

    entries: Edges
    num_features: int
    is_sparse = True

    @property
    def shape(self) -> tuple[int, int]:
        r"""Nodes and features."""
        return self.entries.num_nodes, self.num_features

    def read(self, first: int, last: int) -> SparseFeatures:
        r"""The rows from :obj:`first` to before :obj:`last`, copied."""
        return self._features(self.entries.rows(first, last))

    def gather(self, nodes: Array) -> SparseFeatures:
        r"""The rows of some nodes, copied."""
        return self._features(self.entries.chosen(nodes))

    def _features(self, block: RowBlock) -> SparseFeatures:
        assert block.weight is not None
        pointer, column = torch.from_numpy(block.pointer), torch.from_numpy(block.column)
        graph = Graph.from_csr(pointer, column, num_src=self.num_features)
        return SparseFeatures(graph, torch.from_numpy(block.weight))


@dataclass(frozen=True, eq=False)
class ScaledRows:
    r"""Rows that are brought to a scale as they are read.

    Args:
        rows (Rows): What is read.
        scaling (Scaling): The scale.
    """

    rows: Rows
    scaling: Scaling

    @property
    def shape(self) -> tuple[int, int]:
        r"""Nodes and features."""
        return self.rows.shape

    @property
    def is_sparse(self) -> bool:
        r"""Whether rows come as :class:`~meanmax.SparseFeatures`."""
        return self.scaling.sparse

    def read(self, first: int, last: int) -> Features:
        r"""The rows from :obj:`first` to before :obj:`last`, scaled."""
        return self.scaling(self.rows.read(first, last))

    def gather(self, nodes: Array) -> Features:
        r"""The rows of some nodes, scaled."""
        return self.scaling(self.rows.gather(nodes))


def rows_of(x: Features) -> Rows:
    r"""Features in memory as rows, without copying them."""
    if isinstance(x, Tensor):
        return DenseRows(x.detach().numpy())
    graph, value = x.graph, x.value.detach().float().numpy()
    entries = Edges(graph.rowptr.numpy(), graph.col.numpy(), value)
    return SparseRows(entries, x.size(1))
