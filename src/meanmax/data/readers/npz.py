r"""numpy archives: gnn-benchmark's keys, or edges and arrays of several graphs."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from meanmax.data.readers.arrays import (LARGEST, Arrays)
from meanmax.data.readers.contents import (check_size, contents)
from meanmax.data.readers.parts import (Edges, Nodes, Parts)
from meanmax.data.readers.problems import Findings
from meanmax.data.progress import (Progress, report)

BENCHMARK = ("adj_data", "adj_indices", "adj_indptr", "adj_shape")
SPARSE = ("attr_data", "attr_indices", "attr_indptr", "attr_shape")
OTHERS = (
    *("attr_matrix", "labels", "class_names", "node_names", "node_ids", "split", "weight"),
    *("edges", "features", "graph_id", "train_mask", "val_mask", "test_mask"),
)
_ADVICE = "save plain arrays with numpy.savez"


def read_npz(path: Path, findings: Findings, progress: Progress | None) -> Parts:
    r"""Reads the keys it knows and no others; pickled objects are refused, never loaded.

    Args:
        path (Path): The file.
        findings (Findings): Where problems go.
        progress (callable, optional): Told the arrays read.
    """
    arrays = Arrays(path.name, _load(path, findings, progress), findings)
    keys = arrays.arrays.keys()
    if keys >= set(BENCHMARK):
        nodes, edges = _read_benchmark(arrays)
    elif keys >= {"edges", "features"}:
        nodes, edges = _read_several(arrays)
    else:
        arrays.fail(
            f"has neither {', '.join(BENCHMARK)} nor 'edges' and 'features' "
            f"(of known keys it has {sorted(keys)})",
            "save one of the two sets of arrays",
        )
    return Parts(path.stem, nodes, edges)


def _load(path: Path, findings: Findings, progress: Progress | None) -> dict[str, np.ndarray]:
    data = contents(path, findings, progress)
    known = (*BENCHMARK, *SPARSE, *OTHERS)
    arrays: dict[str, np.ndarray] = {}
    with findings.parsing(path.name, ".npz file", _ADVICE):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {entry.filename: entry for entry in archive.infolist()}
            wanted = [name for name in known if f"{name}.npy" in members]
            sizes = [members[f"{name}.npy"].file_size for name in wanted]
            check_size(path.name, sum(sizes), findings)
            for number, name in enumerate(wanted, start=1):
                with archive.open(f"{name}.npy") as stream:
                    arrays[name] = _load_array(name, stream.read(), path.name, findings)
                report(progress, f"unpacking {path.name}", number, len(wanted))
    return arrays


def _load_array(name: str, data: bytes, file: str, findings: Findings) -> np.ndarray:
    try:
        array = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    except ValueError as error:
        if "pickle" not in str(error):
            raise
        message = f"{name!r} holds pickled Python objects, which are refused as unsafe"
        findings.fail(file, None, message, "save it as numbers or as an array of strings")
    return np.array(array, array.dtype.newbyteorder("="), order="C")


def _read_benchmark(arrays: Arrays) -> tuple[Nodes, Edges]:
    adjacency = _csr(arrays, BENCHMARK)
    count = adjacency.shape[0]
    if adjacency.shape[0] != adjacency.shape[1]:
        arrays.fail(f"'adj_shape' must be square (got {list(adjacency.shape)})", _ADVICE)
    if "attr_matrix" in arrays.arrays:
        x: Any = arrays.features("attr_matrix")
    elif arrays.arrays.keys() >= set(SPARSE):
        x = _csr(arrays, SPARSE)
    else:
        arrays.fail("has neither 'attr_matrix' nor 'attr_data' and its companions: no features",
                    "save features of the nodes")  # fmt: skip
    if x.shape[0] != count:
        arrays.fail(f"has features of {x.shape[0]} nodes in a graph of {count}", _ADVICE)
    nodes = _nodes(arrays, x)
    entries = adjacency.tocoo()
    source, target = entries.row.astype(np.int64), entries.col.astype(np.int64)
    weight = arrays.weights("adj_data", source.size)
    weighted = bool((weight != 1).any())
    return nodes, Edges(arrays.file, source, target, weight if weighted else None)


def _csr(arrays: Arrays, names: tuple[str, ...]) -> Any:
    """Checked here: scipy trusts its index arrays, and wrong ones lead its C code astray."""
    data = arrays.finite(names[0], arrays.get(names[0], "iufb", (1,)))
    indices, indptr, shape = (arrays.integers(name) for name in names[1:])
    if shape.size != 2 or shape.min(initial=1) < 1 or shape[0] != indptr.size - 1:
        arrays.fail(f"{names[3]!r} does not fit {names[2]!r}", _ADVICE)
    if indptr[0] != 0 or indptr[-1] != indices.size or (np.diff(indptr) < 0).any():
        arrays.fail(f"{names[2]!r} must rise from 0 to the number of entries", _ADVICE)
    if data.size != indices.size or not _within(indices, int(shape[1])):
        arrays.fail(f"{names[1]!r} must name one column of {shape[1]} for each entry", _ADVICE)
    arrays.findings.stop_on_errors()
    return scipy.sparse.csr_array((data, indices, indptr), tuple(shape.tolist()))


def _within(indices: np.ndarray, end: int) -> bool:
    return not indices.size or (0 <= int(indices.min()) and int(indices.max()) < end <= LARGEST)


def _read_several(arrays: Arrays) -> tuple[Nodes, Edges]:
    x = arrays.features("features")
    pairs = arrays.integers("edges", (2,))
    if pairs.shape[1] != 2:
        arrays.fail(f"'edges' must have two columns (got {list(pairs.shape)})",
                    "save a row of source and target for each edge")  # fmt: skip
    arrays.ends("edges", pairs, x.shape[0])
    weight = arrays.weights("weight", len(pairs)) if "weight" in arrays.arrays else None
    nodes = _nodes(arrays, x)
    if "graph_id" in arrays.arrays:
        nodes.graph_ptr = _graph_ptr(arrays, pairs, nodes.count)
    source, target = np.ascontiguousarray(pairs.T)
    return nodes, Edges(arrays.file, source, target, weight)


def _nodes(arrays: Arrays, x: Any) -> Nodes:
    count = int(x.shape[0])
    if not count:
        arrays.fail("has no nodes", "save at least one row of features")
    names = None
    if "class_names" in arrays.arrays:
        names = [str(name) for name in arrays.get("class_names", "iuU", (1,))]
    labels = arrays.labels("labels", count, names)
    ids = arrays.ids("node_ids" if "node_ids" in arrays.arrays else "node_names", count)
    split = arrays.split("split", count)
    return Nodes(arrays.file, x, labels, ids, arrays.masks(count) if split is None else split)


def _graph_ptr(arrays: Arrays, pairs: np.ndarray, count: int) -> np.ndarray:
    graph = arrays.integers("graph_id")
    if graph.size != count or (np.diff(graph) < 0).any():
        arrays.fail("'graph_id' must hold a number for each node, rising from graph to graph",
                    "sort nodes by graph")  # fmt: skip
    across = np.flatnonzero(graph[pairs[:, 0]] != graph[pairs[:, 1]])
    arrays.findings.each(
        arrays.file,
        across,
        lambda _: None,
        lambda row: f"edge {row} joins nodes of two graphs ({pairs[row].tolist()})",
        "give all nodes of a graph the same 'graph_id'",
    )
    starts = np.flatnonzero(np.diff(graph, prepend=graph[0] - 1))
    return np.append(starts, count)
