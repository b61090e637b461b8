r"""Readers of a user's own graph: tables, arrays and files of other programs."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from meanmax.data.dataset import Dataset
from meanmax.data.fetch.catalog import tu_folder
from meanmax.data.files import Progress
from meanmax.data.readers.arrays import (
    graphs_of,
    load_tensors,
    one_graph,
    read_npz,
    read_tensors,
    tensors_of,
)
from meanmax.data.readers.assemble import EdgeColumns, GraphColumns, assemble, check_task
from meanmax.data.readers.collection import as_collection
from meanmax.data.readers.features import FeatureOptions, Impute, OneHot
from meanmax.data.readers.graph_list import read_list
from meanmax.data.readers.problems import DataProblem, Diagnostics, OwnDataError
from meanmax.data.readers.tu import read_tu

__all__ = ["DataProblem", "OwnDataError", "check", "read_and_check", "read_object", "read_own"]

TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
FILES = (".zip", ".npz", ".graphml", ".graphml.gz", ".json", ".json.gz", ".pt", ".pth")


def read_own(
    path: str | PathLike[str],
    *,
    directed: bool = False,
    one_hot: OneHot = (),
    impute: Impute = None,
    task: str | None = None,
    progress: Progress | None = None,
) -> Dataset:
    r"""Reads a graph from a folder with :obj:`edges.csv` and :obj:`nodes.csv`, or from an
    :obj:`.npz`, :obj:`.graphml`, :obj:`.json` (node-link) or :obj:`.pt` file; and a collection of
    graphs from a folder or :obj:`.zip` file in the text format of the TU datasets.

    Args:
        path (str or PathLike): The folder or file.
        directed (bool, optional): If :obj:`False`, each edge is stored both ways, whatever the
            file says; repeated edges are merged either way. (default: :obj:`False`)
        one_hot (sequence or mapping, optional): See :func:`meanmax.data.load`. (default: none)
        impute (str or mapping, optional): See :func:`meanmax.data.load`. (default: :obj:`None`)
        task (str, optional): See :func:`meanmax.data.load`. (default: :obj:`None`)
        progress (callable, optional): Called as :obj:`progress(what, done, total)`.

    Raises:
        OwnDataError: If there is anything to fix; it shows the first problems with their lines.
    """
    options = FeatureOptions.of(one_hot, impute)
    return _read(Path(path), directed, task, options, Diagnostics(str(path)), progress)


def read_object(
    data: Any,
    *,
    directed: bool = False,
    one_hot: OneHot = (),
    impute: Impute = None,
    task: str | None = None,
) -> Dataset:
    r"""Reads a PyG :obj:`Data`, a list of them, or a PyG data set, as :func:`read_own` reads
    files.
    """
    check_task(task)
    diagnostics, options = Diagnostics(type(data).__name__), FeatureOptions.of(one_hot, impute)
    graphs, name = graphs_of(data)
    if graphs is not None:
        columns = read_list(list(map(tensors_of, graphs)), diagnostics, options)
    else:
        graph, name = one_graph(data)
        columns = read_tensors(tensors_of(graph), diagnostics, options)
    return assemble(name, *columns, directed, task)


def check(path: str | PathLike[str], **options: Any) -> list[DataProblem]:
    r"""All problems of a graph's files, errors first. See :func:`read_own` for the options."""
    return read_and_check(path, **options)[1]


def read_and_check(
    path: str | PathLike[str],
    *,
    directed: bool = False,
    one_hot: OneHot = (),
    impute: Impute = None,
    task: str | None = None,
    progress: Progress | None = None,
) -> tuple[Dataset | None, list[DataProblem]]:
    r"""The data set, if there are no errors, and the result of :func:`check`."""
    diagnostics, options = Diagnostics(str(path)), FeatureOptions.of(one_hot, impute)
    try:
        dataset = _read(Path(path), directed, task, options, diagnostics, progress)
    except OwnDataError:
        dataset = None
    return dataset, diagnostics.in_order()


def _read(
    path: Path,
    directed: bool,
    task: str | None,
    options: FeatureOptions,
    diagnostics: Diagnostics,
    progress: Progress | None,
) -> Dataset:
    check_task(task)
    if not path.exists():
        diagnostics.fail("there is no such folder or file", "check the path")
    stem, dot, ending = path.name.partition(".")
    if not path.is_dir() and stem in ("edges", "nodes", "graphs") and dot + ending in TABLES:
        path = path.parent
    diagnostics = diagnostics.of(path.name)
    suffix = next((known for known in FILES if path.name.lower().endswith(known)), "")
    if suffix == ".zip" or (path.is_dir() and tu_folder(path)):
        name, columns = read_tu(path, diagnostics, progress, options)
        return assemble(name, *columns, directed, task)
    if path.is_dir():
        columns = _read_folder(path, diagnostics, progress, options)
        return assemble(path.resolve().name, *columns, directed, task)
    if suffix == ".npz":
        columns = read_npz(path, diagnostics, progress, options)
        return assemble(path.stem, *columns, directed, task)
    if suffix in (".pt", ".pth"):
        saved = load_tensors(path, diagnostics, progress)
        read_saved = read_list if isinstance(saved, list) else read_tensors
        return assemble(path.stem, *read_saved(saved, diagnostics, options), directed, task)
    if suffix:
        from meanmax.data.readers.attributed import read_graphml, read_node_link  # needs pyarrow

        reader = read_graphml if suffix.startswith(".graphml") else read_node_link
        return assemble(stem, *reader(path, diagnostics, progress, options), directed, task)
    advice = f"known are folders with edges.csv and nodes.csv, and {', '.join(FILES)}"
    diagnostics.fail("is of a kind that cannot be read", advice)


def _read_folder(
    folder: Path, diagnostics: Diagnostics, progress: Progress | None, options: FeatureOptions
) -> GraphColumns:
    from meanmax.data.readers import columns  # needs pyarrow
    from meanmax.data.readers.tables import Table, read_table

    found = {"graphs": _find(folder, "graphs", diagnostics, needed=False)}
    found["nodes"] = _find(folder, "nodes", diagnostics)
    found["edges"] = _find(folder, "edges", diagnostics, needed=not found["graphs"])
    diagnostics.stop_on_errors()

    def read(stem: str) -> Table:
        (path,) = found[stem]
        file = diagnostics.of(path.name)
        if stem == "edges":
            return read_table(path, file, progress, lambda first: columns.edge_columns(first, file))
        return read_table(path, file, progress, lambda first: (first, True))

    if not found["graphs"]:
        nodes = columns.read_nodes(read("nodes"), options)
        return nodes, columns.read_edges(read("edges"), columns.as_keys(nodes))
    graphs = columns.read_graphs(read("graphs"))
    table, edges_table = read("nodes"), read("edges") if found["edges"] else None
    in_graphs = edges_table is None or columns.graph_column(edges_table) is not None
    nodes, graph, keys = columns.read_nodes_of_graphs(
        table, options, graphs, in_graphs=in_graphs, has_edges=edges_table is not None
    )
    if edges_table is None:
        none = np.zeros(0, np.int64)
        edges = EdgeColumns(diagnostics, none, none)
    else:
        edges = columns.read_edges(edges_table, keys, graphs)
    return as_collection(nodes, edges, graph, graphs)


def _find(folder: Path, stem: str, diagnostics: Diagnostics, *, needed: bool = True) -> list[Path]:
    """The tables of this name; several are recorded as an error, and so is none that is needed."""
    found = [path for suffix in TABLES if (path := folder / (stem + suffix)).is_file()]
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        diagnostics.error(f"holds {names}", "keep one of them")
    elif not found and needed:
        columns = {
            "nodes": "a row for each node: id, features, label (a graph without features or "
            "labels cannot be learned from)",
            "edges": "a row for each edge: source, target",
        }[stem]
        message = f"the folder holds no {stem}.csv (nor {', '.join(TABLES[1:])})"
        diagnostics.error(message, f"add one with {columns}")
    return found
