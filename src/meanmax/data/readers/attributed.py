r"""Graphs whose nodes and edges carry attributes, as networkx keeps them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from meanmax.data.readers.contents import check_size
from meanmax.data.readers.edges import (WEIGHTS, read_edges)
from meanmax.data.readers.nodes import (IDS, read_nodes, role)
from meanmax.data.readers.parts import Parts
from meanmax.data.readers.problems import Findings
from meanmax.data.readers.table import (LARGE, Table)

CELL_BYTES = 32


@dataclass
class AttributedGraph:
    r"""Rows of nodes (with :obj:`id`) and of edges (with :obj:`source` and :obj:`target`), and the
    lines they begin on, if the format has lines.
    """

    nodes: list[dict[str, Any]] = field(default_factory=list)
    edges: list[dict[str, Any]] = field(default_factory=list)
    node_lines: list[int] = field(default_factory=list)
    edge_lines: list[int] = field(default_factory=list)
    directed: bool = False


def read_attributed(path: Path, graph: AttributedGraph, findings: Findings) -> Parts:
    r"""Turns rows into the columns of :func:`read_nodes` and :func:`read_edges`. Attributes of an
    edge other than its weight are left alone, as programs add ids and colours of their own.

    Args:
        path (Path): The file.
        graph (AttributedGraph): What it holds.
        findings (Findings): Where problems go.
    """
    if not graph.nodes:
        findings.fail(path.name, None, "has no nodes", "write a node for each node")
    names = dict.fromkeys(name for row in graph.nodes for name in row)
    extra = [name for name in names if name != "id" and name.lower() in IDS]
    for name in extra:  # the identifier is the format's own
        names.pop(name)
    _leave_out_empty(path.name, graph, names, findings)
    nodes = read_nodes(
        Table(
            path.name,
            _columns(path.name, graph.nodes, list(names), findings),
            _lines(graph.node_lines),
            "node",
        ),
        findings,
    )
    assert nodes.ids is not None
    names = dict.fromkeys(name for row in graph.edges for name in row)
    ends = ["source", "target"]
    weight = next((name for name in names if name.lower() in WEIGHTS), None)
    columns = _columns(path.name, graph.edges, ends + ([weight] if weight else []), findings)
    if weight:
        columns["weight"] = columns.pop(weight)
    edges = read_edges(
        Table(path.name, columns, _lines(graph.edge_lines), "edge"), nodes.ids, findings
    )
    edges.says_directed = graph.directed
    return Parts(path.name.split(".")[0], nodes, edges)


def _leave_out_empty(
    file: str, graph: AttributedGraph, names: dict[str, None], findings: Findings
) -> None:
    """Programs such as yEd write a description and an address of every node, mostly empty."""
    filled = {name for row in graph.nodes for name in row if row[name] not in ("", None)}
    empty = [name for name in names if name not in filled and role(name) == "feature"]
    for name in empty:
        names.pop(name)
    if empty:
        shown = ", ".join(map(repr, empty[:8]))
        findings.note(file, None, f"{shown} of all nodes empty, not used", "fill in what matters")


def _columns(
    file: str, rows: list[dict[str, Any]], names: list[str], findings: Findings
) -> dict[str, Any]:
    """As text: one column may hold 1, 1.5 and "" in different rows."""
    # Every node might have an attribute that no other has, and most cells be empty.
    check_size(file, CELL_BYTES * len(rows) * len(names), findings)
    return {name: pa.array([_cell(row.get(name)) for row in rows], LARGE) for name in names}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    # A lone half of a surrogate pair, which JSON can hold, is no character.
    return str(value).encode("utf-8", "replace").decode()


def _lines(lines: list[int]) -> Callable[[], np.ndarray] | None:
    return (lambda: np.array(lines, np.int64)) if lines else None
