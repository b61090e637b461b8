r"""The data set out of its parts, and what its owner should know about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import torch

from meanmax.data.dataset import Dataset, Split
from meanmax.data.readers.problems import Diagnostics
from meanmax.graph import SparseFeatures

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


PER_CLASS = 20


def assemble(parts: Parts, directed: bool, findings: Diagnostics) -> Dataset:
    r"""Brings edges to a canonical order and checks what only the whole shows.

    Args:
        parts (Parts): What a reader found.
        directed (bool): Whether edges point one way.
        findings (Diagnostics): Where problems go; an error among them is raised here.
    """
    nodes, edges = parts.nodes, parts.edges
    _note_edges(nodes, edges, directed, findings)
    _check_labels(nodes, findings)
    split = _split(nodes, findings)
    findings.stop_on_errors()
    source, target, weight = simple_edges(edges, nodes.count, directed)
    ptr = np.array([0, nodes.count]) if nodes.graph_ptr is None else nodes.graph_ptr
    sparse = scipy.sparse.issparse(nodes.x)
    way = "directed as listed" if directed else "undirected, each edge both ways"
    return Dataset(
        name=parts.name,
        x=SparseFeatures.from_scipy(nodes.x) if sparse else torch.from_numpy(nodes.x),
        y=torch.from_numpy(nodes.labels.y),
        edge_index=torch.from_numpy(np.stack([source, target])),
        edge_weight=None if weight is None else torch.from_numpy(weight),
        class_names=nodes.labels.names,
        node_ids=nodes.ids,
        graph_ptr=torch.from_numpy(ptr.astype(np.int64)),
        split=split,
        notes=(
            f"own graph from {parts.nodes.file}",
            f"edges {way}, repeated ones merged",
            *map(str, findings.notes),
        ),
    )


def simple_edges(
    edges: Edges, num_nodes: int, directed: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    r"""Each edge once, sorted by target and source; of repeated ones the largest weight counts.

    Args:
        edges (Edges): As they stand in the file.
        num_nodes (int): The number of nodes.
        directed (bool): If not, each edge is added the other way round as well.
    """
    code = edges.target * num_nodes + edges.source
    weight = edges.weight
    if not directed:
        code = np.concatenate([code, edges.source * num_nodes + edges.target])
        weight = None if weight is None else np.concatenate([weight, weight])
    if weight is None:
        code = np.unique(code)
    else:
        order = np.argsort(code, kind="stable")
        code, start = np.unique(code[order], return_index=True)
        weight = np.maximum.reduceat(weight[order], start) if start.size else weight
    return code % max(num_nodes, 1), code // max(num_nodes, 1), weight


def _note_edges(nodes: Nodes, edges: Edges, directed: bool, findings: Diagnostics) -> None:
    if edges.says_directed and not directed:
        message = "calls its edges directed, and they are read as undirected"
        findings.note(
            edges.file,
            None,
            message,
            "pass directed=True, or --directed to the command, to keep them",
        )
    loops = np.flatnonzero(edges.source == edges.target)
    if loops.size:
        message = f"{_count(loops.size, 'self-loop')} kept"
        line = edges.line(int(loops[0]))
        findings.note(edges.file, line, message, "remove them if they mean nothing")
    _note_repeated(nodes, edges, findings)
    if edges.weight is not None and not directed:
        _note_two_weights(nodes, edges, edges.weight, findings)
    touched = np.zeros(nodes.count, bool)
    between = edges.source != edges.target
    touched[edges.source[between]] = touched[edges.target[between]] = True
    alone = np.flatnonzero(~touched)
    if alone.size:
        names = (alone if nodes.ids is None else nodes.ids[alone])[:5].tolist()
        message = f"{_count(alone.size, 'node')} without edges ({', '.join(map(repr, names))}"
        message += ", …)" if alone.size > 5 else ")"
        findings.note(nodes.file, None, message, "they learn from their own features only")


def _note_repeated(nodes: Nodes, edges: Edges, findings: Diagnostics) -> None:
    code = edges.target * nodes.count + edges.source
    order = np.argsort(code, kind="stable")
    again = order[1:][np.diff(code[order]) == 0]
    if again.size:
        message = f"{_count(again.size, 'repeated edge')} merged"
        line = edges.line(int(again.min()))
        findings.note(edges.file, line, message, "sum weights yourself if repeats should count")


def _note_two_weights(
    nodes: Nodes, edges: Edges, weight: np.ndarray, findings: Diagnostics
) -> None:
    low, high = np.minimum(edges.source, edges.target), np.maximum(edges.source, edges.target)
    code = low * nodes.count + high
    order = np.argsort(code, kind="stable")
    differ = (np.diff(code[order]) == 0) & (np.diff(weight[order]) != 0)
    if differ.any():
        message = f"{_count(int(differ.sum()), 'edge')} listed again with another weight"
        line = edges.line(int(order[1:][differ].min()))
        findings.note(edges.file, line, message, "the largest counts, in both directions")


def _check_labels(nodes: Nodes, findings: Diagnostics) -> None:
    known = nodes.labels.known
    if not known.any():
        findings.note(nodes.file, None, "no node has a label",
                      "enough to predict with a trained model, not to train one")  # fmt: skip
        return
    if nodes.labels.y.ndim > 1:
        _note_one_hot(nodes, known, findings)
        return
    counts = np.bincount(nodes.labels.y[known], minlength=len(nodes.labels.names))
    if np.count_nonzero(counts) == 1:
        name = nodes.labels.names[int(counts.argmax())]
        findings.error(nodes.file, None, f"all labels are the one class {name!r}",
                       "label nodes of at least two classes")  # fmt: skip
    if counts.max() == 1:
        _report_distinct(nodes, int(counts.sum()), findings)
    if nodes.split is None:
        _note_small_classes(nodes, counts, findings)


def _report_distinct(nodes: Nodes, count: int, findings: Diagnostics) -> None:
    """Gephi and others call the name that they display at a node its label."""
    if count > 1:
        report = findings.error if count > PER_CLASS else findings.note
        message = f"each of {count:,} labels stands at one node only, like a name and not a class"
        advice = "if it is what a program displays, rename it, and call the class 'label'"
        report(nodes.file, None, message, advice)


def _note_small_classes(nodes: Nodes, counts: np.ndarray, findings: Diagnostics) -> None:
    small = np.flatnonzero(counts <= PER_CLASS)
    if not small.size:
        return
    shown = [f"{nodes.labels.names[number]!r}: {counts[number]}" for number in small[:5]]
    verb = "class has" if small.size == 1 else "classes have"
    message = f"{small.size:,} {verb} {PER_CLASS} or fewer labelled nodes ({', '.join(shown)}"
    message += ", …)" if small.size > 5 else ")"
    advice = (
        f"the usual split trains on {PER_CLASS} of each class: a 'split' of yours may fit better"
    )
    findings.note(nodes.file, None, message, advice)


def _note_one_hot(nodes: Nodes, known: np.ndarray, findings: Diagnostics) -> None:
    if nodes.labels.y.shape[1] > 1 and (nodes.labels.y[known].sum(1) == 1).all():
        findings.note(nodes.file, None, "every node has exactly one of the labels",
                      "if they are classes, write one column 'label'")  # fmt: skip


def _split(nodes: Nodes, findings: Diagnostics) -> Split | None:
    if nodes.split is None:
        return None
    blind = np.flatnonzero((nodes.split >= 0) & ~nodes.labels.known)
    if blind.size:
        message = f"{_count(blind.size, 'node')} of the split without label"
        findings.note(nodes.file, None, message, "left out of the split, to be predicted")
    used = np.where(nodes.labels.known, nodes.split, -1)
    train, val, test = (np.flatnonzero(used == part) for part in (TRAIN, VAL, TEST))
    if not train.size and nodes.labels.known.any():
        findings.error(nodes.file, None, "the split trains on no labelled node",
                       "mark some of them 'train'")  # fmt: skip
    elif not val.size:
        findings.note(nodes.file, None, "the split has no validation nodes",
                      "mark some 'val': models are selected on them")  # fmt: skip
    _note_divided_graphs(nodes, used, findings)
    parts = [torch.from_numpy(part) for part in (train, val, test)]
    return Split(parts[0], parts[1], parts[2], name="own")


def _note_divided_graphs(nodes: Nodes, used: np.ndarray, findings: Diagnostics) -> None:
    if nodes.graph_ptr is None or nodes.graph_ptr.size < 3:
        return
    graph = np.repeat(np.arange(nodes.graph_ptr.size - 1), np.diff(nodes.graph_ptr))
    pairs = np.unique(np.stack([graph, used])[:, used >= 0], axis=1)
    divided = np.flatnonzero(np.bincount(pairs[0]) > 1)
    if divided.size:
        message = f"the split divides {_count(divided.size, 'graph')} (the first is number "
        message += f"{divided[0] + 1}), so that parts of it see each other"
        findings.note(nodes.file, None, message, "put all nodes of a graph in one part")


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
