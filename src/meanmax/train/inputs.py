r"""Checks and conversions of what users pass to an estimator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset
from torch_geometric.data import Batch, Data
from torch_geometric.data import Dataset as PyGDataset

from meanmax.data.dataset import Dataset
from meanmax.data.readers.arrays import names_of_edges, one_graph
from meanmax.graph import Graph, SparseFeatures
from meanmax.names import Level
from meanmax.nn.linear import Features
from meanmax.train.problem import LabeledNodes


class Given(NamedTuple):
    r"""What one object holds; a part of the split that it lacks is :obj:`None`."""

    graph: Any
    x: Any
    y: Any
    train: Any
    val: Any
    test: Any
    class_names: tuple[str, ...] | None


def unpacked(data: Any, level: Level = "node") -> Given | None:
    r"""The graph, features, labels and split (the first, if there are several) of a
    :class:`~meanmax.data.Dataset`, of PyG's :obj:`Data`, or of PyG's data set of one graph; at the
    level of graphs, of a list of PyG's :obj:`Data`, of their :obj:`Batch` or of PyG's data set.
    :obj:`None` for anything else.
    """
    if isinstance(data, Dataset):
        if data.level != level:
            own = data.level.capitalize()
            raise ValueError(
                f"'{data.name}' has labels of {data.level}s: use {own}Classifier or {own}Regressor"
            )
        split = data.split
        parts = (None,) * 3 if split is None else (split.train, split.val, split.test)
        train, val, test = (None if nodes is None or not len(nodes) else nodes for nodes in parts)
        names = class_names_of(data.class_names, data.y.dim())
        return Given(data.graph(), data.x, data.y, train, val, test, names or None)
    if level == "graph":
        return _collected(data)
    if isinstance(data, list | tuple) and data and all(isinstance(one, Data) for one in data):
        raise ValueError(
            "this is a list of graphs: use GraphClassifier or GraphRegressor for labels of graphs, "
            "or PyG's Batch.from_data_list(...) for labels of their nodes"
        )
    if not isinstance(data, Data | PyGDataset):
        return None
    data, _ = one_graph(data)
    masks = (getattr(data, f"{part}_mask", None) for part in ("train", "val", "test"))
    train, val, test = (m[:, 0] if m is not None and m.dim() == 2 else m for m in masks)
    return Given(data, data.x, data.y, train, val, test, None)


def _collected(data: Any) -> Given | None:
    r"""What a collection of PyG's graphs holds; :obj:`None` for anything else."""
    y: Any = None
    if isinstance(data, Batch):
        batch, y = data, data.y
    elif isinstance(data, Data):
        raise ValueError("this is one graph: give a list of them, or their Batch")
    elif isinstance(data, TorchDataset | Iterator) or _is_list(data):
        items: Any = data
        many = isinstance(data, TorchDataset)  # which may not be iterable
        graphs = [items[number] for number in range(len(items))] if many else list(items)
        if not all(isinstance(one, Data) for one in graphs):
            return None
        if not graphs:
            raise ValueError("the collection holds no graph")
        batch, y = Batch.from_data_list(_same_attributes(graphs)), _labels_of(graphs)
    else:
        return None
    graph = Graph.from_data(batch)
    if y is not None and len(y) != graph.num_graphs:
        raise ValueError(
            f"'y' must have one label, or one row of labels, for each of {graph.num_graphs} graphs "
            f"(got {len(y)} in all): give several labels of one graph as a row, [1, num_labels], "
            f"such as y[None, :], and use NodeClassifier for labels of nodes"
        )
    return Given(graph, batch.x, y, None, None, None, None)


def _is_list(data: Any) -> bool:
    return isinstance(data, Sequence) and not isinstance(data, str)


def _same_attributes(graphs: Sequence[Data]) -> list[Data]:
    r"""The graphs with what is learned from alone: features, edges and their weights. If none has
    an :obj:`edge_index`, they are sets of nodes.
    """
    for name, things in (("edge_index", "edges"), ("edge_weight", "weights")):
        has = [getattr(one, name, None) is not None for one in graphs]
        if any(has) and not all(has):
            raise ValueError(
                f"graph {has.index(False)} has no {name!r} and others have: give all or none of "
                f"them {things}"
            )
    weighted, no_edges = graphs[0].get("edge_weight") is not None, torch.zeros(2, 0).long()
    first = None if graphs[0].x is None else tuple(graphs[0].x.shape[1:])
    found = []
    for number, one in enumerate(graphs):
        if one.x is None:
            raise ValueError(
                f"graph {number} has no features 'x': give all graphs some, or use "
                f"meanmax.data.load(graphs), which gives graphs without features their degrees"
            )
        if tuple(one.x.shape[1:]) != first:
            raise ValueError(
                f"graph {number} has features of shape {list(one.x.shape)} and graph 0 of "
                f"{list(graphs[0].x.shape)}: give the nodes of all graphs equally many"
            )
        if one.edge_index is None and (odd := names_of_edges(one.to_dict())):
            raise ValueError(
                f"graph {number} has no 'edge_index', but {', '.join(odd)}: convert it"
            )
        ends = no_edges if one.edge_index is None else one.edge_index
        own = Data(x=one.x, edge_index=ends, num_nodes=one.num_nodes)
        if weighted:
            own.edge_weight = one.edge_weight
        found.append(own)
    return found


def _labels_of(graphs: Sequence[Data]) -> Any:
    r"""The labels of graphs in a tensor, or in a list where some are missing or are text;
    :obj:`None` if there are none. Missing rows of several labels are NaN.
    """
    given = [one.y for one in graphs]
    if all(y is None for y in given):
        return None
    several = [y for y in given if isinstance(y, Tensor) and y.numel() > 1]
    if several:
        none = torch.full(several[0].shape, torch.nan)
        given = [none if y is None else y for y in given]
    if all(isinstance(y, Tensor) for y in given):
        return torch.cat([y.view(1) if y.dim() == 0 else y for y in given])
    plain = [y.item() if isinstance(y, Tensor) and y.numel() == 1 else y for y in given]
    if wrong := [n for n, y in enumerate(plain) if isinstance(y, Tensor)]:
        raise ValueError(
            f"graph {wrong[0]} has several labels and others have one: give all graphs as many"
        )
    return np.array(plain, object)


def completed(
    graph: Any,
    x: Any,
    y: Any,
    train: Any = None,
    val: Any = None,
    test: Any = None,
    *,
    level: Level = "node",
) -> Given:
    r"""The arguments, with what is not given taken from the first one if it holds everything; a
    collection may have its labels beside it.
    """
    whole = x is None and (y is None or level == "graph")
    found = unpacked(graph, level) if whole else None
    if found is None:
        return Given(graph, x, y, train, val, test, None)
    if y is not None:
        found = found._replace(y=y, class_names=None)
    if level == "graph" and bool((empty := found.graph.dst_ptr.diff() == 0).any()):
        raise ValueError(f"graph {int(empty.nonzero()[0])} has no nodes: leave it out")
    if train is not None or val is not None:
        found = found._replace(train=found.train if train is None else train, val=val)
    return found if test is None else found._replace(test=test)


def needed(nodes: Any, name: str) -> Any:
    r"""The nodes, if there are any; raises a :class:`ValueError` otherwise."""
    if nodes is None:
        raise ValueError(f"the data hold no '{name}': pass {name}=, a mask or a list of numbers")
    return nodes


@dataclass(frozen=True, eq=False)
class Targets:
    r"""Labels of all nodes, or graphs."""

    values: np.ndarray  # [num_nodes] of any type, or 0/1, [num_nodes, num_labels]
    missing: np.ndarray  # which nodes have no label, bool, [num_nodes]
    classes: np.ndarray  # of training nodes, sorted, or all named ones; the numbers of labels
    measured: bool = False  # whether the values are numbers to predict, not classes
    level: Level = "node"  # what has the labels

    def nodes(self, index: Tensor, name: str) -> LabeledNodes:
        r"""The targets of some nodes; raises an error unless all have a known label."""
        where = index.numpy()
        check_present(self.missing[where], name, self.level, measured=self.measured)
        chosen = self.values[where]
        if self.measured:
            return LabeledNodes(index, torch.from_numpy(chosen))
        if self.values.ndim == 2:
            return LabeledNodes(index, torch.from_numpy(chosen.astype(np.float32)))
        position = np.searchsorted(self.classes, chosen).clip(max=len(self.classes) - 1)
        unknown = self.classes[position] != chosen
        if unknown.any():
            raise ValueError(
                f"'{name}' holds {self.level}s with labels that no training {self.level} has "
                f"({_examples(chosen[unknown])}); the classes are {_examples(self.classes)}"
            )
        return LabeledNodes(index, torch.from_numpy(position.astype(np.int64)))


def class_names_of(names: Sequence[str], dim: int) -> tuple[str, ...]:
    r"""The names of classes (1 dimension of :obj:`y`) or labels (2); a single label of 0 and 1
    becomes two classes.

    Example:
        >>> class_names_of(["spam"], 2)
        ('not spam', 'spam')
    """
    return (f"not {names[0]}", names[0]) if dim == 2 and len(names) == 1 else tuple(names)


def as_targets(
    y: Any,
    train: Tensor,
    num_nodes: int,
    class_names: Sequence[str] | None = None,
    *,
    level: Level = "node",
) -> Targets:
    r"""Checks labels; the arguments are those of :meth:`meanmax.NodeClassifier.fit`. Negative
    numbers, NaN and :obj:`None` stand for a missing label, and a single column for one label.
    """
    values, missing = as_labels(y, num_nodes)
    check_present(missing[train.numpy()], "train_mask", level)
    own = values[train.numpy()]
    if class_names is not None:
        _check_names(own, class_names)
    if values.ndim == 2:
        return Targets(values, missing, np.arange(values.shape[1]), level=level)
    classes = np.unique(own)
    if len(classes) < 2:
        only = classes[0] if class_names is None else class_names[int(classes[0])]
        raise ValueError(
            f"the training labels have one class only ({only}): there is nothing to classify"
        )
    if class_names is not None:
        classes = np.arange(len(class_names))
    return Targets(values, missing, classes, level=level)


def as_numbers(y: Any, num_nodes: int, *, level: Level = "node") -> Targets:
    r"""Numbers to predict, float64; NaN and :obj:`None` stand for a missing one. A single column
    becomes a vector.
    """
    _check_given(y)
    try:
        given = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
        values = given.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"'y' must hold numbers ({error})") from None
    if values.shape not in ((num_nodes,), (num_nodes, 1)):
        raise ValueError(f"'y' must be [{num_nodes}] (got {list(values.shape)})")
    values = values.reshape(-1)
    if np.isinf(values).any():
        raise ValueError(
            f"'y' has {int(np.isinf(values).sum())} infinite values: replace them by NaN, which "
            f"stands for a missing one"
        )
    return Targets(values, np.isnan(values), np.zeros(0, np.int64), measured=True, level=level)


def as_labels(y: Any, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Labels in an array that can be sorted, and which of them are missing."""
    _check_given(y)
    values = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
    if values.ndim not in (1, 2) or len(values) != num_nodes:
        raise ValueError(
            f"'y' must be [{num_nodes}] or [{num_nodes}, num_labels] (got {list(values.shape)})"
        )
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim == 2:
        numbers = values.astype(np.float64)
        missing = np.asarray((np.isnan(numbers) | (numbers < 0)).any(axis=1))
        wrong = ~np.isin(numbers[~missing], (0, 1))
        if wrong.any():
            raise ValueError(
                f"'y' must be 0 or 1 for every label (got {_examples(numbers[~missing][wrong])})"
            )
        return numbers, missing
    if values.dtype == object:
        return _objects(values)
    if np.issubdtype(values.dtype, np.floating):
        missing = np.isnan(values) | (values < 0)
        whole = np.where(missing, -1, values)
        present = values[~np.isnan(values)]
        if not (np.isfinite(whole).all() and (present == np.round(present)).all()):
            raise ValueError(
                "'y' must hold classes, not measurements (got numbers that are not whole): use "
                "a regressor to predict numbers"
            )
        return whole.astype(np.int64), missing
    if np.issubdtype(values.dtype, np.signedinteger):
        return values, values < 0
    return values, np.zeros(num_nodes, bool)


def _check_given(y: Any) -> None:
    if y is None:
        raise ValueError("there are no labels: pass y, or set data.y")


def check_present(
    missing: np.ndarray, name: str, level: Level = "node", *, measured: bool = False
) -> None:
    r"""Raises a :class:`ValueError` if some nodes, or graphs, have no label, or no number."""
    kind = "number (NaN or None)" if measured else "label (negative, NaN or None stand for none)"
    if missing.any():
        raise ValueError(
            f"'{name}' holds {int(missing.sum())} {level}s without a {kind}: leave them out of it"
        )


def _check_names(values: np.ndarray, class_names: Sequence[str]) -> None:
    count = len(class_names)
    if isinstance(class_names, str) or len(set(class_names)) < count:
        raise ValueError(f"'class_names' must be different names (got {class_names!r})")
    if values.ndim == 2:
        fits, found = values.shape[1] == count, f"{values.shape[1]} labels"
    else:
        fits = values.dtype.kind in "iub" and (values.size == 0 or int(values.max()) < count)
        found = f"classes {_examples(values)}"
    if not fits:
        raise ValueError(
            f"'class_names' has {count} names, but 'y' holds {found}: give a name for each label, "
            f"or for each class from 0 on"
        )


def _objects(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
    found = np.unique(values)
    return ", ".join(map(str, found[:5])) + (", …" if len(found) > 5 else "")


def as_graph(graph: Any, num_nodes: int) -> Graph:
    r"""A graph from a :class:`~meanmax.Graph`, an :obj:`edge_index`, PyG's :obj:`Data`, a scipy
    matrix or a networkx graph.
    """
    if isinstance(graph, Graph):
        found = graph
        if not graph.is_local:
            raise ValueError(
                "'graph' is one process's part of a graph, but 'fit' does not share gradients with "
                "other processes: use meanmax.scale.fit_parts"
            )
    elif isinstance(graph, Data):
        found = Graph.from_data(graph)
    elif scipy.sparse.issparse(graph):
        found = Graph.from_scipy(graph)
    elif isinstance(graph, Tensor | np.ndarray | list | tuple):
        found = Graph.from_edge_index(graph, num_nodes)
    elif hasattr(graph, "nodes") and hasattr(graph, "edges"):
        found = Graph.from_networkx(graph)
    else:
        raise ValueError(
            f"'graph' must be a meanmax.Graph, an edge_index, PyG Data, a scipy sparse matrix or a "
            f"networkx graph (got {type(graph).__name__})"
        )
    if found.num_nodes != num_nodes:
        raise ValueError(
            f"'x' has {num_nodes} rows, but the graph has {found.num_nodes} nodes: give one row of "
            f"features for each node"
        )
    return found


def as_features(x: Any) -> Features:
    r"""Features from a tensor, an array, a data frame, or anything sparse; all must be finite."""
    if x is None:
        raise ValueError(
            "'x' is None, but nodes need features; where there are none, their degrees can serve, "
            "or torch.eye(num_nodes) for one graph"
        )
    if isinstance(x, SparseFeatures):
        found: Features = x
    elif scipy.sparse.issparse(x):
        found = SparseFeatures.from_scipy(x)
    elif isinstance(x, Tensor) and x.layout != torch.strided:
        found = SparseFeatures.from_torch(x, torch.float32)
    else:
        try:
            found = x.detach() if isinstance(x, Tensor) else torch.from_numpy(np.array(x))
            if found.is_complex() or found.is_quantized:
                raise TypeError(f"got {found.dtype}")
            found = found.to(torch.get_default_dtype())
        except (TypeError, ValueError) as error:
            raise ValueError(f"'x' must hold numbers ({error})") from None
    if len(found.shape) != 2 or 0 in found.shape:
        raise ValueError(
            f"'x' must be [num_nodes, num_features] and not empty (got {list(found.shape)})"
        )
    dense = isinstance(found, Tensor)
    wrong = ~torch.isfinite(found if isinstance(found, Tensor) else found.value)
    if bool(wrong.any()):
        where = f", first in row {int(wrong.any(dim=1).nonzero()[0])}" if dense else ""
        raise ValueError(
            f"'x' has {int(wrong.sum())} values that are NaN or infinite{where}: replace them, for "
            f"instance by the feature's mean"
        )
    return found


def as_index(mask: Any, count: int, name: str, level: Level = "node") -> Tensor:
    r"""Indices of nodes or graphs from a mask or from indices; not empty, none twice."""
    given = mask.detach().cpu() if isinstance(mask, Tensor) else torch.from_numpy(np.array(mask))
    if given.dim() != 1:
        raise ValueError(f"'{name}' must be a mask or a list of {level}s (got {list(given.shape)})")
    if given.dtype == torch.bool:
        if given.numel() != count:
            raise ValueError(
                f"'{name}' is a mask of {given.numel()} {level}s, but there are {count}"
            )
        index = given.nonzero().view(-1)
    elif given.is_floating_point() or given.is_complex():
        raise ValueError(f"'{name}' must be a bool mask or integer indices (got {given.dtype})")
    elif given.numel() == count > 2 and bool(((given == 0) | (given == 1)).all()):
        raise ValueError(
            f"'{name}' looks like a mask of zeros and ones, which would be read as the {level}s 0 "
            f"and 1: pass it as bool, for instance {name}.astype(bool)"
        )
    else:
        index = torch.unique(given.long())
        if index.numel() and not 0 <= int(index[0]) <= int(index[-1]) < count:
            raise ValueError(
                f"'{name}' must hold {level}s from 0 to {count - 1} "
                f"(got {int(index[0])} to {int(index[-1])})"
            )
    if index.numel() == 0:
        raise ValueError(f"'{name}' selects no {level}")
    return index
