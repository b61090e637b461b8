r"""A data set: one graph or several, with features and labels."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from meanmax.data.files import DataError
from meanmax.graph import Graph, SparseFeatures
from meanmax.graph.checks import Normalize, SelfLoops


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    r"""Disjoint sets of nodes, each sorted, int64.

    Args:
        train (Tensor): Nodes whose labels are learned from.
        val (Tensor): Nodes on which models are selected.
        test (Tensor): Nodes that results are reported on.
        name (str): The scheme and seed, as rows of results show it.
    """

    train: Tensor
    val: Tensor
    test: Tensor
    name: str

    def __repr__(self) -> str:
        sizes = f"{self.train.numel()} train, {self.val.numel()} val, {self.test.numel()} test"
        return f"Split({self.name}: {sizes})"


UNLABELLED = -1


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    r"""Features, labels and edges of one graph or of several, checked and in a canonical order.

    Example:
        >>> from meanmax.data import load
        >>> load("karate")
        Dataset(karate: 34 nodes, 156 stored edges, 34 features, 4 classes)

    Args:
        name (str): What it is called in tables.
        x (Tensor or SparseFeatures): Features, :obj:`[num_nodes, num_features]`, float32.
        y (Tensor): One class per node, int64, :obj:`[num_nodes]`, with -1 for a node without
            label; or 0/1 for each of several labels, float32, :obj:`[num_nodes, num_labels]`,
            with NaN in the rows of nodes without labels.
        edge_index (Tensor): Sources and targets, int64, :obj:`[2, num_edges]`; an undirected edge
            is stored both ways.
        edge_weight (Tensor, optional): Finite weights >= 0, float32, :obj:`[num_edges]`.
        class_names (tuple): The names of classes, or of labels.
        node_ids (ndarray, optional): The user's identifiers, as strings; :obj:`None` if nodes are
            just numbered.
        graph_ptr (Tensor): The first node of each graph, int64, :obj:`[num_graphs + 1]`.
            (default: one graph of all nodes)
        split (Split, optional): The split that came with the data.
        notes (tuple): Sentences on source, licence and what was done to the data.
        scheme (str, optional): The scheme of :func:`meanmax.data.splits.make_split` that results
            on these data use; :obj:`None` to take what fits. (default: :obj:`None`)
    """

    name: str
    x: Tensor | SparseFeatures
    y: Tensor
    edge_index: Tensor
    edge_weight: Tensor | None = None
    class_names: tuple[str, ...] = ()
    node_ids: np.ndarray | None = None
    graph_ptr: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    split: Split | None = None
    notes: tuple[str, ...] = ()
    scheme: str | None = None

    def __post_init__(self) -> None:
        r"""Fills in the pointer of a single graph and checks that the sizes agree."""
        if self.graph_ptr.numel() == 0:
            object.__setattr__(self, "graph_ptr", torch.tensor([0, self.num_nodes]))
        got = {
            "y": (self.y.size(0) if self.y.dim() else -1, self.num_nodes),
            "graph_ptr": (int(self.graph_ptr[-1]), self.num_nodes),
            "edge_index": (self.edge_index.size(0), 2),
        }
        if self.edge_weight is not None:
            got["edge_weight"] = (self.edge_weight.size(0), self.edge_index.size(1))
        if self.node_ids is not None:
            got["node_ids"] = (len(self.node_ids), self.num_nodes)
        for argument, (size, wanted) in got.items():
            if size != wanted:
                raise DataError(
                    f"'{argument}' of data set '{self.name}' does not fit {self.num_nodes} nodes "
                    f"and {self.edge_index.size(-1)} edges (got {size}, expected {wanted})"
                )

    @property
    def num_nodes(self) -> int:
        r"""Nodes of all graphs."""
        return self.x.size(0)

    @property
    def num_features(self) -> int:
        r"""Channels of :obj:`x`."""
        return self.x.size(1)

    @property
    def num_graphs(self) -> int:
        r"""How many graphs there are."""
        return self.graph_ptr.numel() - 1

    @property
    def num_classes(self) -> int:
        r"""Classes, or labels."""
        return len(self.class_names)

    @property
    def task(self) -> Literal["multiclass", "multilabel"]:
        r"""What :obj:`y` is."""
        return "multiclass" if self.y.dim() == 1 else "multilabel"

    @cached_property
    def labelled(self) -> Tensor:
        r"""Which nodes have a label, bool, :obj:`[num_nodes]`."""
        if self.y.dim() == 1:
            return self.y >= 0
        return ~self.y.isnan().any(dim=1)

    @property
    def graph_id(self) -> Tensor:
        r"""The graph of each node, int64, :obj:`[num_nodes]`."""
        return torch.arange(self.num_graphs).repeat_interleave(self.graph_ptr.diff())

    def graph(self, normalize: Normalize | None = None, self_loops: SelfLoops = False) -> Graph:
        r"""The graph, or the batch of all graphs, for layers.

        Args:
            normalize (str, optional): See :meth:`meanmax.Graph.from_edge_index`.
            self_loops (bool or str, optional): See :meth:`meanmax.Graph.from_edge_index`.
        """
        batch = self.graph_id if self.num_graphs > 1 else None
        return Graph.from_edge_index(
            self.edge_index, self.num_nodes, self.edge_weight, normalize, self_loops, batch=batch
        )

    def __repr__(self) -> str:
        graphs = f"{self.num_graphs} graphs, " if self.num_graphs > 1 else ""
        weights = "" if self.edge_weight is None else " with weights"
        classes = "classes" if self.task == "multiclass" else "labels"
        split = "" if self.split is None else f", split '{self.split.name}'"
        return (
            f"Dataset({self.name}: {graphs}{self.num_nodes} nodes, {self.edge_index.size(1)} "
            f"stored edges{weights}, {self.num_features} features, {self.num_classes} {classes}"
            f"{split})"
        )


def fingerprint(dataset: Dataset) -> str:
    r"""The sha256 of everything a model sees: edges in the order of target and source, weights,
    features, labels and where each graph begins. Names, notes and splits do not count.

    Two sources of one data set have the same fingerprint exactly if their prepared data are the
    same, node for node. How they are stored does not count: weights that are all 1 are as none, and
    features of which at most half are not zero are hashed as sparse, the others as dense.

    Args:
        dataset (Dataset): Any data set.
    """
    digest = hashlib.sha256(b"meanmax data 1\n")
    for name, array in _parts(dataset).items():
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        digest.update(f"{name} {little.dtype.str} {little.shape}\n".encode())
        digest.update(little.data if little.size else b"")
    return digest.hexdigest()


def _parts(dataset: Dataset) -> dict[str, np.ndarray]:
    source, target = dataset.edge_index.numpy()
    order = _edge_order(source, target)
    parts = {"source": source[order], "target": target[order]}
    if dataset.edge_weight is not None and not bool((dataset.edge_weight == 1).all()):
        parts["weight"] = dataset.edge_weight.numpy()[order]
    parts |= _features(dataset.x)
    y = dataset.y if dataset.y.dim() == 1 else dataset.y.nan_to_num(-1.0).to(torch.int8)
    return parts | {"y": y.numpy(), "graphs": dataset.graph_ptr.numpy()}


def _features(x: Tensor | SparseFeatures) -> dict[str, np.ndarray]:
    value = x.value if isinstance(x, SparseFeatures) else x
    if 2 * int(value.count_nonzero()) > x.size(0) * x.size(1):
        dense = x.to_dense() if isinstance(x, SparseFeatures) else x
        return {"x": dense.numpy() + np.float32(0)}  # -0 becomes 0
    sparse = x if isinstance(x, SparseFeatures) else SparseFeatures.from_dense(x, x.dtype)
    rows = sparse.to_scipy().copy()
    rows.eliminate_zeros()
    rows.sort_indices()
    return {
        "columns": rows.indices.astype(np.int64),
        "pointer": rows.indptr.astype(np.int64),
        "values": rows.data,
        "shape": np.array(rows.shape),
    }


def _edge_order(source: np.ndarray, target: np.ndarray) -> np.ndarray | slice:
    rising = (target[1:] > target[:-1]) | (
        (target[1:] == target[:-1]) & (source[1:] >= source[:-1])
    )
    return slice(None) if rising.all() else np.lexsort((source, target))
