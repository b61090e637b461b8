r"""One entrance to all formats of a person's own graph."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path

from meanmax.data.dataset import Dataset
from meanmax.data.files import Progress
from meanmax.data.readers.arrays import read_npz
from meanmax.data.readers.assemble import Edges, Nodes, Parts, assemble
from meanmax.data.readers.attributed import read_graphml, read_node_link
from meanmax.data.readers.columns import edge_columns, read_edges, read_nodes
from meanmax.data.readers.problems import Diagnostics, OwnDataError, Problem
from meanmax.data.readers.saved_tensors import read_saved_tensors
from meanmax.data.readers.tables import Table, check_names, read_parquet, read_rows

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")


def read_folder(folder: Path, findings: Diagnostics, progress: Progress | None) -> Parts:
    r"""Reads :obj:`edges` and :obj:`nodes`, each as csv, tsv, gzipped or parquet.

    Args:
        folder (Path): Where they lie.
        findings (Diagnostics): Where problems go.
        progress (callable, optional): Told the bytes read.
    """
    nodes_file = _find(folder, "nodes", findings)
    edges_file = _find(folder, "edges", findings)
    if nodes_file is None or edges_file is None:
        raise OwnDataError(findings.errors)
    nodes = _read_nodes(nodes_file, findings, progress)
    edges = _read_edges(edges_file, nodes, findings, progress)
    return Parts(folder.resolve().name, nodes, edges)


def _find(folder: Path, stem: str, findings: Diagnostics) -> Path | None:
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


def _read_nodes(path: Path, findings: Diagnostics, progress: Progress | None) -> Nodes:
    if path.suffix == ".parquet":
        return read_nodes(read_parquet(path, findings), findings)
    rows = read_rows(path, findings, progress)
    check_names(path.name, rows.first, findings)
    return read_nodes(rows.table(rows.first, header=True), findings)


def _read_edges(
    path: Path, nodes: Nodes, findings: Diagnostics, progress: Progress | None
) -> Edges:
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


Reader = Callable[[Path, Diagnostics, Progress | None], Parts]
READERS: dict[str, Reader] = {
    ".npz": read_npz,
    ".graphml": read_graphml,
    ".graphml.gz": read_graphml,
    ".json": read_node_link,
    ".json.gz": read_node_link,
    ".pt": read_saved_tensors,
    ".pth": read_saved_tensors,
}


def read_own(
    path: str | PathLike[str], *, directed: bool = False, progress: Progress | None = None
) -> Dataset:
    r"""Reads a graph from a folder with :obj:`edges.csv` and :obj:`nodes.csv`, or from an
    :obj:`.npz`, :obj:`.graphml`, :obj:`.json` (node-link) or :obj:`.pt` file.

    Args:
        path (str or PathLike): The folder or file.
        directed (bool, optional): If :obj:`False`, each edge is stored both ways, whatever the
            file says; repeated edges are merged either way. (default: :obj:`False`)
        progress (callable, optional): Called as :obj:`progress(what, done, total)`.

    Raises:
        OwnDataError: If there is anything to repair; it shows the first problems with their lines.
    """
    return _read(Path(path), directed, Diagnostics(), progress)


def check(
    path: str | PathLike[str], *, directed: bool = False, progress: Progress | None = None
) -> list[Problem]:
    r"""Everything that is wrong with a graph's files or worth knowing about them, errors first.

    Args:
        path (str or PathLike): The folder or file.
        directed (bool, optional): See :func:`read_own`. (default: :obj:`False`)
        progress (callable, optional): Called as :obj:`progress(what, done, total)`.
    """
    return read_and_check(path, directed=directed, progress=progress)[1]


def read_and_check(
    path: str | PathLike[str], *, directed: bool = False, progress: Progress | None = None
) -> tuple[Dataset | None, list[Problem]]:
    r"""The data set, if there are no errors, and all problems, errors first.

    Args:
        path (str or PathLike): The folder or file.
        directed (bool, optional): See :func:`read_own`. (default: :obj:`False`)
        progress (callable, optional): Called as :obj:`progress(what, done, total)`.
    """
    findings = Diagnostics()
    try:
        dataset = _read(Path(path), directed, findings, progress)
    except OwnDataError:
        dataset = None
    return dataset, findings.in_order()


def _read(path: Path, directed: bool, findings: Diagnostics, progress: Progress | None) -> Dataset:
    return assemble(_reader(path, findings)(path, findings, progress), directed, findings)


def _reader(path: Path, findings: Diagnostics) -> Reader:
    if path.is_dir():
        return read_folder
    known = ", ".join(READERS)
    if not path.exists():
        findings.fail(str(path), None, "there is no such folder or file", "check the path")
    stem, dot, ending = path.name.partition(".")
    if stem in ("edges", "nodes") and dot + ending in SUFFIXES:
        return lambda file, *rest: read_folder(file.parent, *rest)
    for suffix, reader in READERS.items():
        if path.name.lower().endswith(suffix):
            return reader
    advice = f"known are folders with edges.csv and nodes.csv, and {known}"
    findings.fail(path.name, None, "is of a kind that cannot be read", advice)
