r"""Small drawings of some graphs of a collection, as a reader of the page wants to see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from meanmax.data import Dataset

SHOWN = 8  # drawings, at most
LARGEST = 80  # nodes of a drawing, at most
COLOURS = 8  # of nodes


@dataclass(frozen=True)
class Drawing:
    r"""A graph in a square of 100 by 100."""

    label: str  # its class, or its number to predict
    lines: tuple[tuple[float, float, float, float], ...]  # from x, y to x, y
    dots: tuple[tuple[float, float, int], ...]  # x, y and the number of a colour


def example_graphs(dataset: Dataset) -> list[Drawing]:
    r"""Graphs of a collection, in turn of each class: of those that are small enough, the ones
    whose size is closest to the median of their class. Nodes are coloured by their largest feature,
    and stand where the features :obj:`row` and :obj:`column` say, if there are these.

    Example:
        >>> from meanmax.data import load
        >>> drawn = example_graphs(load("digits-graphs"))
        >>> [one.label for one in drawn]
        ['0', '1', '2', '3', '4', '5', '6', '7']
    """
    if dataset.level != "graph":
        return []
    sizes, known = dataset.graph_ptr.diff().numpy(), dataset.labelled.numpy()
    classes = dataset.y.numpy() if dataset.task == "multiclass" else np.zeros(len(sizes), np.int64)
    ordered = []
    for number in np.unique(classes[known]):
        own = np.flatnonzero(known & (classes == number) & (sizes > 1) & (sizes <= LARGEST))
        far = np.abs(sizes[own] - np.median(sizes[own])) if own.size else own
        ordered.append(own[np.argsort(far, kind="stable")][:SHOWN])
    turns = [own[turn] for turn in range(SHOWN) for own in ordered if turn < len(own)]
    return [_drawing(dataset, int(graph)) for graph in sorted(turns[:SHOWN], key=_by(dataset))]


def _by(dataset: Dataset) -> Any:
    return lambda graph: (float(dataset.y[graph].reshape(-1)[0]), graph)


def _drawing(dataset: Dataset, graph: int) -> Drawing:
    from meanmax.nn.linear import as_dense

    first, end = dataset.graph_ptr[graph : graph + 2].tolist()
    source, target = dataset.edge_index.numpy()
    inside = (source >= first) & (source < end) & (source < target)
    pairs = np.stack([source[inside], target[inside]], axis=1) - first
    x = as_dense(dataset.x)[first:end].numpy()
    names = list(dataset.feature_names)
    if {"row", "column"} <= set(names):
        points, colours = x[:, [names.index("column"), names.index("row")]], np.zeros(len(x))
    else:
        points, colours = _spread(len(x), pairs), x.argmax(axis=1) % COLOURS
    low, width = points.min(axis=0), np.ptp(points, axis=0)
    points = 6 + 88 * (points - low) / np.where(width > 0, width, 1.0)
    points = points.round(1)
    return Drawing(
        _label(dataset, graph),
        tuple((*points[a], *points[b]) for a, b in pairs.tolist()),
        tuple((*point, int(colour)) for point, colour in zip(points, colours, strict=True)),
    )


def _spread(count: int, pairs: np.ndarray) -> np.ndarray:
    import networkx

    drawn = networkx.Graph()
    drawn.add_nodes_from(range(count))
    drawn.add_edges_from(pairs.tolist())
    places = networkx.spring_layout(drawn, seed=0, iterations=100)
    return np.array([places[node] for node in range(count)])


def _label(dataset: Dataset, graph: int) -> str:
    if dataset.task == "multiclass":
        return dataset.class_names[int(dataset.y[graph])]
    if dataset.task == "regression":
        return f"{float(dataset.y[graph]):.3g}"
    held = [name for name, has in zip(dataset.class_names, dataset.y[graph], strict=True) if has]
    return ", ".join(held) or "none"
