r"""Graphs whose nodes and edges have attributes: GraphML and node-link JSON.

networkx reads both formats, too, but its graphs have no lines to report problems on. It stops at
the first value that does not fit its declared type, and adds a node for an unknown end of an edge.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn, TypeAlias
from xml.parsers import expat

import numpy as np

from meanmax.data.files import Progress, report
from meanmax.data.readers.assemble import GraphColumns
from meanmax.data.readers.columns import IDS, WEIGHTS, as_keys, read_edges, read_nodes, role
from meanmax.data.readers.features import FeatureOptions
from meanmax.data.readers.problems import Diagnostics
from meanmax.data.readers.tables import LARGE, Table, pa

# The attributes of all nodes or edges, id or ends among them; and their lines, if the file has any.
Items: TypeAlias = tuple[list[dict[str, Any]], list[int]]
CELL_BYTES = 32
_GRAPHML_ADVICE = "write it again, for example with networkx.write_graphml"
_JSON_ADVICE = "write it with json.dump(networkx.node_link_data(graph), file)"


def _table(items: Items, names: dict[str, str], item: str, diagnostics: Diagnostics) -> Table:
    """The attributes `names`, renamed, as columns of text: one column may hold 1, 1.5 and "" in
    different rows."""
    rows, lines = items
    # Every node might have its own attribute, and most cells be empty.
    diagnostics.check_size(CELL_BYTES * len(rows) * len(names))
    columns = {
        new: pa.array([_cell(row.get(old)) for row in rows], LARGE) for old, new in names.items()
    }
    return Table(diagnostics, columns, (lambda: np.array(lines)) if lines else None, item)


def _cell(value: Any) -> str:
    # JSON can hold half of a surrogate pair, which is no character.
    return "" if value is None else str(value).encode("utf-8", "replace").decode()


def _read_items(
    nodes: Items, edges: Items, directed: bool, diagnostics: Diagnostics, options: FeatureOptions
) -> GraphColumns:
    """Attributes of an edge other than its weight are ignored: programs add ids and colours."""
    if not nodes[0]:
        diagnostics.fail("has no nodes", "write a node for each node")
    names = dict.fromkeys(name for row in nodes[0] for name in row)
    # The identifier is the format's own.
    names = {name: None for name in names if name == "id" or name.lower() not in IDS}
    filled = {name for row in nodes[0] for name in row if row[name] not in ("", None)}
    empty = [name for name in names if name not in filled and role(name) == "feature"]
    if empty:  # yEd writes a description and an address of every node
        shown = ", ".join(map(repr, empty[:8]))
        diagnostics.note(f"{shown} of all nodes empty, not used", "fill in what matters")
    used = {name: name for name in names if name not in empty}
    node_columns = read_nodes(_table(nodes, used, "node", diagnostics), options)
    names = dict.fromkeys(name for row in edges[0] for name in row)
    weight = next((name for name in names if name.lower() in WEIGHTS), None)
    used = {"source": "source", "target": "target"} | ({weight: "weight"} if weight else {})
    edge_columns = read_edges(_table(edges, used, "edge", diagnostics), as_keys(node_columns))
    edge_columns.says_directed = directed
    return node_columns, edge_columns


def read_graphml(
    path: Path, diagnostics: Diagnostics, progress: Progress | None, options: FeatureOptions
) -> GraphColumns:
    r"""Reads nodes and edges with their :obj:`<data>`. A document type is refused, because entities
    make XML unsafe. Keys without a name, which yEd uses for its drawing, are ignored.
    """
    data = diagnostics.read(path, progress)
    parser = _GraphMLParser(diagnostics)
    with diagnostics.parsing("GraphML file", _GRAPHML_ADVICE):
        parser.parser.Parse(data, True)
    report(progress, f"parsing {path.name}", len(data), len(data))
    if parser.graphs != 1:
        diagnostics.fail(f"must hold one graph (got {parser.graphs})", _GRAPHML_ADVICE)
    if parser.nameless:
        keys = ", ".join(sorted(parser.nameless)[:8])
        message = f"data of keys without attr.name ({keys}) are not used"
        diagnostics.note(message, "give the key a name if they matter")
    items = parser.items["node"], parser.items["edge"]
    return _read_items(*items, parser.directed, diagnostics, options)


class _GraphMLParser:
    """Handlers for expat. They keep the open nodes and edges, and the text of an attribute."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        self.items: dict[str, Items] = {"node": ([], []), "edge": ([], [])}
        self.graphs, self.directed = 0, False
        self.names: dict[str, str] = {}
        self.nameless: set[str] = set()
        self.defaults: dict[tuple[str, str], str] = {}  # by kind of item and name
        self.open: list[dict[str, Any]] = []
        self.key: tuple[str, str] | None = None  # of the open <key>: kind of item and name
        self.data: str | None = None
        self.text: list[str] = []
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.text.append
        self.parser.StartDoctypeDeclHandler = self.refuse
        self.parser.EntityDeclHandler = self.refuse

    def refuse(self, *declaration: object) -> NoReturn:
        """Entities can expand a few lines to gigabytes, or name other files."""
        message = "holds a document type or entity, which is refused as unsafe"
        line = self.parser.CurrentLineNumber
        self.diagnostics.fail(message, "remove the <!DOCTYPE …> declaration", line)

    def start(self, element: str, attributes: dict[str, str]) -> None:
        tag, line = element.split(" ")[-1], self.parser.CurrentLineNumber
        self.text.clear()
        if tag == "graph":
            self.graphs += 1
            self.directed |= attributes.get("edgedefault") == "directed"
        elif tag == "key":
            key, name = attributes.get("id", ""), attributes.get("attr.name")
            if name is None:
                self.nameless.add(key)
            else:
                self.names[key] = name
                self.key = attributes.get("for", "all"), name
        elif tag in self.items:
            fields = ("id",) if tag == "node" else ("source", "target")
            self.open.append({name: attributes.get(name, "") for name in fields})
            rows, lines = self.items[tag]
            rows.append(self.open[-1])
            lines.append(line)
        elif tag == "hyperedge":
            self.diagnostics.fail("holds a hyperedge", "write edges of two nodes", line)
        elif tag == "data":
            key = attributes.get("key", "")
            self.data = None if key in self.nameless else self.names.get(key, key)

    def end(self, element: str) -> None:
        tag = element.split(" ")[-1]
        text = "".join(self.text).strip()
        if tag == "data" and self.data is not None:
            if self.open:
                self.open[-1].setdefault(self.data, text)
            self.data = None
        elif tag == "default" and self.key is not None:
            self.defaults[self.key] = text
        elif tag == "key":
            self.key = None
        elif tag in self.items:
            row = self.open.pop()
            for (kind, name), value in self.defaults.items():
                if kind in (tag, "all"):
                    row.setdefault(name, value)
        self.text.clear()


def read_node_link(
    path: Path, diagnostics: Diagnostics, progress: Progress | None, options: FeatureOptions
) -> GraphColumns:
    r"""Reads :obj:`{"nodes": [{"id": …, …}], "edges": [{"source": …, "target": …}]}`; older
    versions of networkx write :obj:`links` for :obj:`edges`.
    """
    data = diagnostics.read(path, progress)
    try:
        content = json.loads(data)
    except json.JSONDecodeError as error:
        diagnostics.fail(f"is not JSON ({error.msg})", _JSON_ADVICE, error.lineno)
    except (ValueError, RecursionError) as error:
        diagnostics.fail(f"is not readable JSON ({str(error)[:100]})", _JSON_ADVICE)
    report(progress, f"parsing {path.name}", len(data), len(data))
    if not isinstance(content, dict):
        diagnostics.fail(f"holds a {type(content).__name__}, not a graph", _JSON_ADVICE)
    items: list[Items] = []
    edges_key = "edges" if "edges" in content else "links"
    for key, wrong_in in (("nodes", _wrong_node), (edges_key, _wrong_edge)):
        rows = content.get(key)
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            diagnostics.fail(f"has no list of objects {key!r}", _JSON_ADVICE)
        wrong = [problem for n, row in enumerate(rows, 1) for problem in wrong_in(n, row)]
        advice = "write one number or text per attribute"
        diagnostics.each(wrong, str, advice)
        items.append((rows, []))
    diagnostics.stop_on_errors()
    nodes, edges = items
    return _read_items(nodes, edges, content.get("directed") is True, diagnostics, options)


def _wrong_node(number: int, row: dict[str, Any]) -> list[str]:
    """Nested values would be taken for text."""
    wrong = [] if "id" in row else [f"node {number} has no 'id'"]
    nested = (name for name in row if isinstance(row[name], list | dict))
    return wrong + [f"node {number}: {name[:40]!r} holds several values" for name in nested]


def _wrong_edge(number: int, row: dict[str, Any]) -> list[str]:
    ends = ("source", "target")
    wrong = [f"edge {number} has no {name!r}" for name in ends if name not in row]
    nested = (name for name in ends if isinstance(row.get(name), list | dict))
    return wrong + [f"edge {number}: {name!r} is no identifier" for name in nested]
