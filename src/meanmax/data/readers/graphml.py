r"""GraphML, as networkx and other programs write it, read without any of XML's dangers."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.parsers import expat

from meanmax.data.readers.attributed import (AttributedGraph, read_attributed)
from meanmax.data.readers.contents import contents
from meanmax.data.readers.parts import Parts
from meanmax.data.readers.problems import Findings
from meanmax.data.progress import (Progress, report)


def read_graphml(path: Path, findings: Findings, progress: Progress | None) -> Parts:
    r"""Reads nodes and edges with their :obj:`<data>`; a document type is refused, because entities
    are what makes XML unsafe. Keys without a name, in which yEd keeps its drawing, are not used.

    Args:
        path (Path): The file.
        findings (Findings): Where problems go.
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

    def __init__(self, file: str, findings: Findings) -> None:
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
