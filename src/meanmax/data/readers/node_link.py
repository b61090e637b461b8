r"""networkx's node-link JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from meanmax.data.readers.attributed import (AttributedGraph, read_attributed)
from meanmax.data.readers.contents import contents
from meanmax.data.readers.parts import Parts
from meanmax.data.readers.problems import Findings
from meanmax.data.progress import (Progress, report)

_ADVICE = "write it with json.dump(networkx.node_link_data(graph), file)"


def read_node_link(path: Path, findings: Findings, progress: Progress | None) -> Parts:
    r"""Reads :obj:`{"nodes": [{"id": …, …}], "edges": [{"source": …, "target": …}]}`; older
    versions of networkx say :obj:`links` for :obj:`edges`.

    Args:
        path (Path): The file.
        findings (Findings): Where problems go.
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


def _rows(file: str, content: dict[str, Any], key: str, findings: Findings) -> list[dict[str, Any]]:
    rows = content.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        findings.fail(file, None, f"has no list of objects {key!r}", _ADVICE)
    return rows


def _check_cells(
    file: str,
    rows: list[dict[str, Any]],
    item: str,
    needed: tuple[str, ...],
    findings: Findings,
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
