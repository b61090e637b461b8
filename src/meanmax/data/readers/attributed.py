r"""Graphs whose nodes and edges carry attributes, as networkx keeps them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np
import pyarrow as pa

from meanmax.data.files import Progress, report
from meanmax.data.readers.assemble import Parts
from meanmax.data.readers.columns import IDS, WEIGHTS, read_edges, read_nodes, role
from meanmax.data.readers.problems import Diagnostics
from meanmax.data.readers.tables import LARGE, Table, check_size, contents

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


def read_attributed(path: Path, graph: AttributedGraph, findings: Diagnostics) -> Parts:
    r"""Turns rows into the columns of :func:`read_nodes` and :func:`read_edges`. Attributes of an
    edge other than its weight are left alone, as programs add ids and colours of their own.

    Args:
        path (Path): The file.
        graph (AttributedGraph): What it holds.
        findings (Diagnostics): Where problems go.
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
    file: str, graph: AttributedGraph, names: dict[str, None], findings: Diagnostics
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
    file: str, rows: list[dict[str, Any]], names: list[str], findings: Diagnostics
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


def read_graphml(path: Path, findings: Diagnostics, progress: Progress | None) -> Parts:
    r"""Reads nodes and edges with their :obj:`<data>`; a document type is refused, because entities
    are what makes XML unsafe. Keys without a name, in which yEd keeps its drawing, are not used.

    Args:
        path (Path): The file.
        findings (Diagnostics): Where problems go.
        progress (callable, optional): Told the bytes read.
    """
    data = contents(path, findings, progress)
    reader = _Reader(path.name, findings)
    advice = "write it anew, for example with networkx.write_graphml"
    with findings.parsing(path.name, "GraphML file", advice):
        reader.parser.Parse(data, True)
    report(progress, f"parsing {path.name}", len(data), len(data))
    if reader.graphs != 1:
        findings.fail(path.name, None, f"must hold one graph (got {reader.graphs})", advice)
    if reader.nameless:
        message = f"data of keys without attr.name ({', '.join(sorted(reader.nameless)[:8])})"
        findings.note(
            path.name, None, f"{message} are not used", "give the key a name if they matter"
        )
    return read_attributed(path, reader.graph, findings)


class _Reader:
    """Keeps the innermost node or edge, and the text of the attribute that is being read."""

    def __init__(self, file: str, findings: Diagnostics) -> None:
        self.file, self.findings = file, findings
        self.graph = AttributedGraph()
        self.graphs = 0
        self.names: dict[str, str] = {}
        self.nameless: set[str] = set()
        self.defaults: dict[tuple[str, str], str] = {}
        self.open: list[tuple[str, dict[str, Any]]] = []
        self.key: tuple[str, str] | None = None  # of a <key> that is open: domain and name
        self.data: str | None = None
        self.text: list[str] = []
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.text.append
        self.parser.StartDoctypeDeclHandler = self.refuse
        self.parser.EntityDeclHandler = self.refuse

    def refuse(self, *declaration: object) -> None:
        """Entities can blow a few lines up to gigabytes, or name other files."""
        line = self.parser.CurrentLineNumber
        message = "holds a document type or entity, which is refused as unsafe"
        self.findings.fail(self.file, line, message, "remove the <!DOCTYPE …> declaration")

    def start(self, element: str, attributes: dict[str, str]) -> None:
        tag, line = element.split(" ")[-1], self.parser.CurrentLineNumber
        self.text.clear()
        if tag == "graph":
            self.graphs += 1
            self.graph.directed |= attributes.get("edgedefault") == "directed"
        elif tag == "key":
            self._declare(attributes)
        elif tag == "node":
            row = {"id": attributes.get("id", "")}
            self.graph.nodes.append(row)
            self.graph.node_lines.append(line)
            self.open.append((tag, row))
        elif tag == "edge":
            row = {"source": attributes.get("source", ""), "target": attributes.get("target", "")}
            self.graph.edges.append(row)
            self.graph.edge_lines.append(line)
            self.open.append((tag, row))
        elif tag == "hyperedge":
            self.findings.fail(self.file, line, "holds a hyperedge", "write edges of two nodes")
        elif tag == "data":
            key = attributes.get("key", "")
            self.data = None if key in self.nameless else self.names.get(key, key)

    def _declare(self, attributes: dict[str, str]) -> None:
        key, name = attributes.get("id", ""), attributes.get("attr.name")
        if name is None:
            self.nameless.add(key)
        else:
            self.names[key] = name
            self.key = attributes.get("for", "all"), name

    def end(self, element: str) -> None:
        tag = element.split(" ")[-1]
        text = "".join(self.text).strip()
        if tag == "data" and self.data is not None:
            if self.open:
                self.open[-1][1].setdefault(self.data, text)
            self.data = None
        elif tag == "default" and self.key is not None:
            self.defaults[self.key] = text
        elif tag == "key":
            self.key = None
        elif tag in ("node", "edge"):
            self._fill_in(*self.open.pop())
        self.text.clear()

    def _fill_in(self, tag: str, row: dict[str, Any]) -> None:
        for (domain, name), value in self.defaults.items():
            if domain in (tag, "all"):
                row.setdefault(name, value)


_ADVICE = "write it with json.dump(networkx.node_link_data(graph), file)"


def read_node_link(path: Path, findings: Diagnostics, progress: Progress | None) -> Parts:
    r"""Reads :obj:`{"nodes": [{"id": …, …}], "edges": [{"source": …, "target": …}]}`; older
    versions of networkx say :obj:`links` for :obj:`edges`.

    Args:
        path (Path): The file.
        findings (Diagnostics): Where problems go.
        progress (callable, optional): Told the bytes read.
    """
    data = contents(path, findings, progress)
    try:
        content = json.loads(data)
    except json.JSONDecodeError as error:
        findings.fail(path.name, error.lineno, f"is not JSON ({error.msg})", _ADVICE)
    except (ValueError, RecursionError) as error:
        findings.fail(path.name, None, f"is not readable JSON ({str(error)[:100]})", _ADVICE)
    report(progress, f"parsing {path.name}", len(data), len(data))
    if not isinstance(content, dict):
        findings.fail(path.name, None, f"holds a {type(content).__name__}, not a graph", _ADVICE)
    edges = _rows(path.name, content, "edges" if "edges" in content else "links", findings)
    graph = AttributedGraph(
        nodes=_rows(path.name, content, "nodes", findings),
        edges=edges,
        directed=content.get("directed") is True,
    )
    _check_cells(path.name, graph.nodes, "node", ("id",), findings)
    _check_cells(path.name, graph.edges, "edge", ("source", "target"), findings)
    findings.stop_on_errors()
    return read_attributed(path, graph, findings)


def _rows(
    file: str, content: dict[str, Any], key: str, findings: Diagnostics
) -> list[dict[str, Any]]:
    rows = content.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        findings.fail(file, None, f"has no list of objects {key!r}", _ADVICE)
    return rows


def _check_cells(
    file: str,
    rows: list[dict[str, Any]],
    item: str,
    needed: tuple[str, ...],
    findings: Diagnostics,
) -> None:
    """Nested values would otherwise be taken for text."""
    wrong: list[str] = []
    for number, row in enumerate(rows, start=1):
        wrong += [f"{item} {number} has no {name!r}" for name in needed if name not in row]
        nested = (name for name in row if isinstance(row[name], list | dict))
        if item == "node":
            wrong += [f"{item} {number}: {name[:40]!r} holds several values" for name in nested]
        else:
            wrong += [f"{item} {number}: {name!r} is no identifier" for name in nested
                      if name in needed]  # fmt: skip
    advice = "write one number or text per attribute"
    findings.each(file, range(len(wrong)), lambda _: None, lambda row: wrong[row], advice)
