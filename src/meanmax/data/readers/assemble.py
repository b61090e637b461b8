r"""Builds the data set from the columns that a reader found, and checks it as a whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
import scipy.sparse
import torch

from meanmax.data.dataset import Dataset, Split
from meanmax.data.files import DataError
from meanmax.data.matrices import DEGREE_NAMES, canonical_edges, one_hot_degrees
from meanmax.data.readers.problems import Diagnostics
from meanmax.data.splits import NUM_FOLDS
from meanmax.graph import SparseFeatures
from meanmax.names import TASKS, Level

PER_CLASS = 20
SPARSE = 0.1
r"""Features of which at most this share is not zero are stored sparse, whatever the file does."""
WIDE = 64  # columns from which that pays
_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
GAPS = ("nan", "NaN", "NAN", "NA", "N/A", "n/a", "<NA>")  # Na is sodium


@dataclass(eq=False)
class LabelColumns:
    r"""The labels of all nodes, or of all graphs, as in :class:`Dataset`, and the names of classes
    or labels.
    """

    y: np.ndarray
    names: tuple[str, ...] = ()
    negative: bool = False  # whether numbers below 0 were read as no label

    @classmethod
    def none(cls, count: int) -> LabelColumns:
        r"""All of them are to be predicted."""
        return cls(np.full(count, -1, np.int64))

    @property
    def continuous(self) -> bool:
        r"""Whether they are a regression target."""
        return self.y.ndim == 1 and self.y.dtype.kind == "f"

    @property
    def known(self) -> np.ndarray:
        r"""Which of them have a label."""
        if self.y.dtype.kind != "f":
            return np.asarray(self.y >= 0)
        return np.asarray(~np.isnan(self.y.reshape(len(self.y), -1)).any(1))


@dataclass(eq=False)
class EdgeColumns:
    r"""Edges as the file lists them, with the diagnostics of that file."""

    diagnostics: Diagnostics
    source: np.ndarray  # node numbers, int64, [num_edges]
    target: np.ndarray
    weight: np.ndarray | None = None  # finite and >= 0, float32
    line: Callable[[int], int | None] = lambda edge: None  # None in files without lines
    says_directed: bool = False  # whether the file itself calls its edges directed


@dataclass(eq=False)
class GraphRows:
    r"""Graphs that have labels of their own, as the file lists them, with its diagnostics."""

    diagnostics: Diagnostics
    labels: LabelColumns
    ids: np.ndarray | None = None  # strings; numbered if None
    split: np.ndarray | None = None  # as in NodeColumns
    line: Callable[[int], int | None] = lambda graph: None
    first: int = 0  # the number of the first graph in messages, if they have no identifiers
    level: ClassVar[Level] = "graph"

    @property
    def count(self) -> int:
        r"""The number of graphs."""
        return len(self.labels.y)

    def name(self, graph: int) -> str:
        r"""A graph in messages."""
        return f"graph {graph + self.first if self.ids is None else repr(str(self.ids[graph]))}"


@dataclass(eq=False)
class NodeColumns:
    r"""Nodes as the file lists them, with the diagnostics of that file."""

    diagnostics: Diagnostics
    # ndarray or csr_array of finite features, float32, [num_nodes, num_features]; None in a
    # collection of graphs without features, whose nodes get their degrees
    x: Any
    labels: LabelColumns
    ids: np.ndarray | None = None  # strings
    split: np.ndarray | None = None  # 0 train, 1 validation, 2 test, -1 none; a row for each split
    graph_ptr: np.ndarray | None = None  # the first node of each graph; one graph if None
    feature_names: tuple[str, ...] = ()
    encoding: dict[str, Any] = field(default_factory=dict)  # as in Dataset
    graphs: GraphRows | None = None  # if they have the labels, and not the nodes
    numbers: np.ndarray | None = None  # those of the file, if it does not count them from 0
    level: ClassVar[Level] = "node"

    @property
    def count(self) -> int:
        r"""The number of nodes."""
        return len(self.labels.y)

    def names(self, nodes: np.ndarray) -> list[str]:
        r"""Nodes in messages: their identifiers, or numbers."""
        known = self.numbers if self.ids is None else self.ids
        return list(map(repr, (nodes if known is None else known[nodes]).tolist()))

    def name(self, node: int) -> str:
        r"""A node in messages."""
        return f"node {self.names(np.array([node]))[0]}"


GraphColumns: TypeAlias = tuple[NodeColumns, EdgeColumns]
Items: TypeAlias = NodeColumns | GraphRows  # what has the labels


def class_order(names: Collection[str]) -> list[str]:
    r"""Sorts names of classes: integers by value, otherwise alphabetically.

    Example:
        >>> class_order(["10", "9"]), class_order(["10", "9", "a"])
        (['9', '10'], ['10', '9', 'a'])
    """
    if all(re.fullmatch(r"[+-]?[0-9]{1,18}", name) for name in names):
        return sorted(names, key=lambda name: (int(name), name))
    return sorted(names)


def target_numbers(cells: list[str]) -> np.ndarray | None:
    r"""The cells as float32, NaN for empty ones, if all are numbers and some are not whole: a
    regression target. Otherwise :obj:`None`: they name classes.

    Example:
        >>> target_numbers(["1.5", "2", ""]), target_numbers(["1.0", "2"])
        (array([1.5, 2. , nan], dtype=float32), None)
    """
    if not all(re.fullmatch(_NUMBER, cell) for cell in cells if cell):
        return None
    numbers = np.array([float(cell or "nan") for cell in cells], np.float64)
    return as_target(numbers) if has_fractions(numbers) else None


def has_fractions(numbers: np.ndarray) -> bool:
    r"""Whether some number is not whole."""
    finite = numbers[np.isfinite(numbers)]
    return bool((np.floor(finite) != finite).any())


def as_target(numbers: np.ndarray) -> np.ndarray:
    r"""Numbers as float32, infinite where they exceed its range."""
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32)


def without_gaps(cells: list[str], diagnostics: Diagnostics) -> list[str]:
    r"""Replaces what other programs write for a missing label (:obj:`NA`, :obj:`nan`, and
    :obj:`-1` besides classes numbered from 0) by :obj:`""`, with a note.
    """
    emptied = ["" if cell in GAPS else cell for cell in cells]
    if all(re.fullmatch(r"-?[0-9]+\.0+|", cell) for cell in emptied):
        # Integers that a gap in the column turned into floats: 3.0 is class 3.
        emptied = [cell.split(".")[0] for cell in emptied]
    others = set(emptied) - {"", "-1"}
    # -1 and 1 alone are two classes: with -1 for a gap there would be one.
    if others != {"1"} and all(re.fullmatch("[0-9]+", name) for name in others):
        emptied = ["" if cell == "-1" else cell for cell in emptied]
    gaps = sorted({old for old, new in zip(cells, emptied, strict=True) if old and not new})
    if gaps:
        message = f"{' and '.join(map(repr, gaps))} as label is read as none, to be predicted"
        diagnostics.note(message, "rename the class if it is one")
    return emptied


def check_task(task: str | None) -> None:
    r"""Raises a :class:`DataError` unless this is one of :obj:`TASKS`, or :obj:`None`."""
    if task not in (None, *TASKS):
        listed = ", ".join(map(repr, TASKS))
        raise DataError(f"'task' must be one of {listed}, or None (got {task!r})")


def assemble(
    name: str,
    nodes: NodeColumns,
    edges: EdgeColumns,
    directed: bool,
    task: str | None = None,
) -> Dataset:
    r"""Sorts the edges, checks what only the whole graph shows, and raises if there are errors."""
    items: Items = nodes if nodes.graphs is None else nodes.graphs
    _note_edges(nodes, edges, directed)
    if task is not None:
        items.labels = _as_declared(items, task)
    _check_labels(items, declared=task is not None)
    splits = _splits(items)
    nodes.diagnostics.stop_on_errors()
    edge_index, weight = canonical_edges(
        edges.source, edges.target, nodes.count, edges.weight, directed=directed
    )
    x, feature_names = nodes.x, nodes.feature_names
    if x is None:
        nodes.diagnostics.check_size(4 * nodes.count * len(DEGREE_NAMES))
        x, feature_names = one_hot_degrees(edge_index.numpy(), nodes.count), DEGREE_NAMES
        message = f"nodes have no features: their degrees are used, in {len(DEGREE_NAMES)} columns"
        nodes.diagnostics.note(message, f"the last is 1 for {len(DEGREE_NAMES) - 1} and more")
    elif not scipy.sparse.issparse(x) and _is_mostly_zero(x):
        x = scipy.sparse.csr_array(x)
    ptr = np.array([0, nodes.count]) if nodes.graph_ptr is None else nodes.graph_ptr
    way = "directed as listed" if directed else "undirected, each edge both ways"
    source = "own graph" if nodes.graphs is None else "graphs"
    return Dataset(
        name=name,
        x=SparseFeatures.from_scipy(x) if scipy.sparse.issparse(x) else torch.from_numpy(x),
        y=torch.from_numpy(items.labels.y),
        edge_index=edge_index,
        edge_weight=weight,
        class_names=items.labels.names,
        node_ids=nodes.ids,
        graph_ptr=torch.from_numpy(ptr.astype(np.int64)),
        split=splits[0] if splits else None,
        splits=splits if len(splits) > 1 else (),
        feature_names=feature_names,
        encoding=nodes.encoding,
        level=items.level,
        graph_ids=None if nodes.graphs is None else nodes.graphs.ids,
        notes=(
            f"{source} from {nodes.diagnostics.file}",
            f"edges {way}, repeated ones merged",
            *map(str, nodes.diagnostics.in_order()),  # no errors: notes only
        ),
    )


def _is_mostly_zero(x: np.ndarray) -> bool:
    r"""Whether products with these features are faster if they are sparse: bags of words."""
    return x.shape[1] >= WIDE and int(np.count_nonzero(x)) <= SPARSE * x.size


def _note_edges(nodes: NodeColumns, edges: EdgeColumns, directed: bool) -> None:
    note, source, target = edges.diagnostics.note, edges.source, edges.target
    if edges.says_directed and not directed:
        advice = "pass directed=True, or --directed to the command, to keep the directions"
        note("calls its edges directed, and they are read as undirected", advice)

    def note_some(which: np.ndarray, thing: str, what: str, advice: str) -> None:
        if which.size:
            note(f"{_count(which.size, thing)} {what}", advice, edges.line(int(which.min())))

    loops = np.flatnonzero(source == target)
    note_some(loops, "self-loop", "kept", "remove them if they mean nothing")
    code = target * nodes.count + source
    order = np.argsort(code, kind="stable")
    repeated = order[1:][np.diff(code[order]) == 0]
    advice = "sum the weights yourself if repeats should count"
    note_some(repeated, "repeated edge", "merged", advice)
    if edges.weight is not None and not directed:
        code = np.maximum(source, target) * nodes.count + np.minimum(source, target)
        order = np.argsort(code, kind="stable")
        differ = (np.diff(code[order]) == 0) & (np.diff(edges.weight[order]) != 0)
        advice = "the largest counts, in both directions"
        note_some(order[1:][differ], "edge", "listed again with another weight", advice)
    if nodes.graph_ptr is not None and not source.size:
        note("has no edges: its graphs are sets of nodes", "supply edges if they have some")
        return
    touched = np.zeros(nodes.count, bool)
    touched[source[source != target]] = touched[target[source != target]] = True
    alone = np.flatnonzero(~touched)
    if alone.size:
        shown = ", ".join(nodes.names(alone[:5])) + (", …" if alone.size > 5 else "")
        message = f"{_count(alone.size, 'node')} without edges ({shown})"
        nodes.diagnostics.note(message, "they learn from their own features only")


def _as_declared(items: Items, task: str) -> LabelColumns:
    r"""The labels as a task reads them: whole numbers may be classes or a regression target."""
    labels, add = items.labels, items.diagnostics.error
    if task == "classification":
        if labels.continuous:
            advice = "write classes as whole numbers or names, or use task='regression'"
            add(
                "some labels are not whole numbers, and task='classification' needs classes", advice
            )
        return labels
    if labels.continuous:
        return labels
    if labels.y.ndim > 1 or not all(re.fullmatch(_NUMBER, name) for name in labels.names):
        advice = f"write one number for each {items.level}, or use task='classification'"
        add("the labels are not numbers, and task='regression' needs them", advice)
        return labels
    if labels.negative:
        advice = "write NaN for no target; save targets below 0 as text"
        add("labels below 0 are read as none, also with task='regression'", advice)
    numbers = np.array([*map(float, labels.names), np.nan])
    return LabelColumns(as_target(numbers)[labels.y])  # -1 is the last one


def _check_labels(items: Items, *, declared: bool) -> None:
    diagnostics, y, known = items.diagnostics, items.labels.y, items.labels.known
    if not known.any():
        advice = "this is enough to predict with a trained model, not to train one"
        diagnostics.note(f"no {items.level} has a label", advice)
        return
    lacks_folds = items.level == "graph" and items.split is None and known.sum() < NUM_FOLDS
    if lacks_folds:
        _note_few_graphs(items)
    if items.labels.continuous:
        _check_target(items, declared=declared)
        return
    if y.ndim > 1:
        if y.shape[1] > 1 and (y[known].sum(1) == 1).all():
            advice = "if they are classes, write one column 'label'"
            diagnostics.note(f"every {items.level} has exactly one of the labels", advice)
        return
    counts = np.bincount(y[known], minlength=len(items.labels.names))
    if np.count_nonzero(counts) == 1:
        name = items.labels.names[int(counts.argmax())]
        advice = f"label {items.level}s of at least two classes"
        diagnostics.error(f"all labels are the one class {name!r}", advice)
    total = int(counts.sum())
    if counts.max() == 1 and total > 1:  # Gephi and others call the displayed name a label
        add = diagnostics.error if total > PER_CLASS else diagnostics.note
        message = f"each of {total:,} labels occurs at one {items.level} only, "
        message += "like a name and not a class"
        add(message, "if it is what a program displays, rename it, and call the class 'label'")
    if items.split is None and not lacks_folds:
        _note_small_classes(items, counts)


def _note_few_graphs(items: Items) -> None:
    count = int(items.labels.known.sum())
    message = (
        f"{_count(count, 'graph')} with a label, too few for the {NUM_FOLDS} folds of the default "
    )
    advice = "label more, or name the parts in a file: --split file:PATH"
    items.diagnostics.note(message + "split", "use --split random" if count >= 5 else advice)


def _note_small_classes(items: Items, counts: np.ndarray) -> None:
    most, takes = PER_CLASS, f"trains on {PER_CLASS} of each class"
    if items.level == "graph":
        most, takes = NUM_FOLDS - 1, f"has {NUM_FOLDS} folds, and some of them lack a small class"
    small = np.flatnonzero(counts <= most)
    if small.size:
        some = [f"{items.labels.names[number]!r}: {counts[number]}" for number in small[:5]]
        shown = ", ".join(some) + (", …" if small.size > 5 else "")
        verb = "class has" if small.size == 1 else "classes have"
        message = f"{small.size:,} {verb} {most} or fewer labelled {items.level}s ({shown})"
        advice = f"the default split {takes}: choose another with --split, or supply your own"
        items.diagnostics.note(message, advice)


def _check_target(items: Items, *, declared: bool) -> None:
    y, known = items.labels.y, items.labels.known
    what = "some labels are not whole numbers: they are read as a regression target, not classes"
    if not declared:
        items.diagnostics.note(what, "if they are classes, write whole numbers or names")
    items.diagnostics.each(
        np.flatnonzero(np.isinf(y)),
        lambda item: f"the target of {items.name(item)} is not finite in 32 bits",
        "correct it, or leave it empty",
    )
    if np.unique(y[known]).size == 1:
        message = f"all targets are the one number {y[known][0]:g}"
        items.diagnostics.error(message, "supply at least two different ones")


def _splits(items: Items) -> tuple[Split, ...]:
    if items.split is None:
        return ()
    rows, known = np.atleast_2d(items.split), items.labels.known
    unlabelled = int(np.count_nonzero((rows >= 0).any(0) & ~known))
    if unlabelled:
        message = f"{_count(unlabelled, items.level)} of the split without label"
        items.diagnostics.note(message, "left out of the split, to be predicted")
    if len(rows) == 1:
        return (_split(items, rows[0], "the split", "own"),)
    every = enumerate(rows)
    return tuple(_split(items, row, f"split {k}", f"own, row {k}") for k, row in every)


def _split(items: Items, row: np.ndarray, what: str, name: str) -> Split:
    diagnostics, known = items.diagnostics, items.labels.known
    used = np.where(known, row, -1)
    train, val, test = (torch.from_numpy(np.flatnonzero(used == part)) for part in range(3))
    if not train.numel() and known.any():
        message = f"{what} trains on no labelled {items.level}"
        diagnostics.error(message, "mark some of them 'train'")
    elif not val.numel():
        advice = "mark some 'val': models are selected on them"
        diagnostics.note(f"{what} has no validation {items.level}s", advice)
    if isinstance(items, NodeColumns) and items.graph_ptr is not None and items.graph_ptr.size > 2:
        graph = np.repeat(np.arange(items.graph_ptr.size - 1), np.diff(items.graph_ptr))
        pairs = np.unique(np.stack([graph, used])[:, used >= 0], axis=1)
        divided = np.flatnonzero(np.bincount(pairs[0]) > 1)
        if divided.size:
            message = f"{what} divides {_count(divided.size, 'graph')} (the first is number "
            message += f"{divided[0] + 1}), so that its parts see each other"
            diagnostics.note(message, "put all nodes of a graph in one part")
    return Split(train, val, test, name)


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
