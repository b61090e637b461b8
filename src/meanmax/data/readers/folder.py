r"""A folder with a table of edges and a table of nodes."""

from __future__ import annotations

from pathlib import Path

from meanmax.data.readers.tables import read_rows
from meanmax.data.readers.edges import (edge_columns, read_edges)
from meanmax.data.readers.nodes import read_nodes
from meanmax.data.readers.parquet import read_parquet
from meanmax.data.readers.parts import (Edges, Nodes, Parts)
from meanmax.data.readers.problems import (Findings, OwnDataError)
from meanmax.data.readers.table import (Table, check_names)
from meanmax.data.progress import Progress

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")


def read_folder(folder: Path, findings: Findings, progress: Progress | None) -> Parts:
    r"""Reads :obj:`edges` and :obj:`nodes`, each as csv, tsv, gzipped or parquet.

    Args:
        folder (Path): Where they lie.
        findings (Findings): Where problems go.
        progress (callable, optional): Told the bytes read.
    """
    nodes_file = _find(folder, "nodes", findings)
    edges_file = _find(folder, "edges", findings)
    if nodes_file is None or edges_file is None:
        raise OwnDataError(findings.errors)
    nodes = _read_nodes(nodes_file, findings, progress)
    edges = _read_edges(edges_file, nodes, findings, progress)
    return Parts(folder.resolve().name, nodes, edges)


def _find(folder: Path, stem: str, findings: Findings) -> Path | None:
    found = [
        folder / (stem + suffix) for suffix in SUFFIXES if (folder / (stem + suffix)).is_file()
    ]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(path.name for path in found)
        findings.error(folder.name, None, f"holds {names}", "keep one of them")
        return None
    columns = {
        "nodes": "a row for each node: id, features, label (a graph without features or labels "
        "cannot be learned from)",
        "edges": "a row for each edge: source, target",
    }[stem]
    message = f"the folder holds no {stem}.csv (nor {', '.join(SUFFIXES[1:])})"
    findings.error(folder.name, None, message, f"add one with {columns}")
    return None


def _read_nodes(path: Path, findings: Findings, progress: Progress | None) -> Nodes:
    if path.suffix == ".parquet":
        return read_nodes(read_parquet(path, findings), findings)
    rows = read_rows(path, findings, progress)
    check_names(path.name, rows.first, findings)
    return read_nodes(rows.table(rows.first, header=True), findings)


def _read_edges(path: Path, nodes: Nodes, findings: Findings, progress: Progress | None) -> Edges:
    assert nodes.ids is not None
    if path.suffix == ".parquet":
        table = read_parquet(path, findings)
        names, header = edge_columns(list(table.columns), path.name, findings)
        table = Table(path.name, dict(zip(names, table.columns.values(), strict=True)))
        return read_edges(table, nodes.ids, findings)
    rows = read_rows(path, findings, progress)
    names, header = edge_columns(rows.first, path.name, findings)
    check_names(path.name, names, findings)
    return read_edges(rows.table(names, header), nodes.ids, findings, named=header)
