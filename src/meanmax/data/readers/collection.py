r"""What the readers of several graphs with labels of their own share."""

from __future__ import annotations

import numpy as np

from meanmax.data.readers.assemble import EdgeColumns, GraphColumns, GraphRows, NodeColumns


def as_collection(
    nodes: NodeColumns, edges: EdgeColumns, graph: np.ndarray, rows: GraphRows
) -> GraphColumns:
    r"""Sorts nodes by graph, given the number of the graph of each, int64, :obj:`[num_nodes]`.
    Graphs without nodes and edges between two graphs are errors.
    """
    if (graph < 0).any():  # unknown graphs, which have been reported
        nodes.diagnostics.stop_on_errors()
    sizes = np.bincount(graph, minlength=rows.count)
    rows.diagnostics.each(
        np.flatnonzero((sizes == 0) & _named_once(rows)),
        lambda number: f"{rows.name(number)} has no nodes",
        "give it a node, or remove it",
        rows.line,
    )

    def describe(edge: int) -> str:
        ends = [edges.source[edge], edges.target[edge]]
        (one, first), (other, second) = ((nodes.name(end), rows.name(graph[end])) for end in ends)
        return f"joins {one} of {first} and {other} of {second}"

    edges.diagnostics.each(
        np.flatnonzero(graph[edges.source] != graph[edges.target]),
        describe,
        "correct the edge: both ends are in one graph",
        edges.line,
    )
    nodes.diagnostics.stop_on_errors()
    order = np.argsort(graph, kind="stable")
    position = np.empty(order.size, np.int64)
    position[order] = np.arange(order.size)
    edges.source, edges.target = position[edges.source], position[edges.target]
    nodes.x = None if nodes.x is None else nodes.x[order]
    nodes.ids = None if nodes.ids is None else nodes.ids[order]
    nodes.numbers = None if nodes.numbers is None else nodes.numbers[order]
    nodes.graph_ptr = np.append(0, np.cumsum(sizes))
    nodes.graphs = rows
    return nodes, edges


def _named_once(rows: GraphRows) -> np.ndarray:
    """Not which graphs repeat an identifier or lack one, which has been reported."""
    if rows.ids is None:
        return np.ones(rows.count, bool)
    once = np.zeros(rows.count, bool)
    once[np.unique(rows.ids, return_index=True)[1]] = True
    return np.asarray(once & (rows.ids != ""))
