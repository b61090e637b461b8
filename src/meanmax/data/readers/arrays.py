r"""Checks of features, labels and edges that come as arrays."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from meanmax.data.files import Progress, report
from meanmax.data.readers.assemble import Edges, Labels, Nodes, Parts
from meanmax.data.readers.columns import class_order, without_gaps
from meanmax.data.readers.problems import Diagnostics
from meanmax.data.readers.tables import check_size, contents

LARGEST = 2**31 - 1


class Arrays:
    r"""The arrays of one file, by name, and where its problems go.

    Args:
        file (str): The name of the file.
        arrays (dict): numpy arrays without objects.
        findings (Diagnostics): Where problems go.
    """

    def __init__(self, file: str, arrays: dict[str, np.ndarray], findings: Diagnostics) -> None:
        self.file, self.arrays, self.findings = file, arrays, findings

    def fail(self, message: str, advice: str) -> Any:
        r"""Ends with an error on this file."""
        self.findings.fail(self.file, None, message, advice)

    def get(self, name: str, kinds: str, dims: tuple[int, ...]) -> np.ndarray:
        r"""An array of one of the :obj:`kinds` of numpy types and numbers of dimensions."""
        array = self.arrays[name]
        if array.ndim not in dims or array.dtype.kind not in kinds:
            wanted = {"iu": "integers", "iufb": "numbers", "iub": "integers or truth values"}
            shape = " or ".join(str(dim) for dim in dims)
            self.fail(
                f"{name!r} must hold {wanted.get(kinds, 'numbers or text')} in {shape} dimension(s)"
                f" (got {array.dtype}, {list(array.shape)})",
                "save it in that shape",
            )
        return array

    def integers(self, name: str, dims: tuple[int, ...] = (1,)) -> np.ndarray:
        r"""An array of integers as int64."""
        array = self.get(name, "iu", dims)
        if array.size and (int(array.max()) > LARGEST or int(array.min()) < -LARGEST):
            self.fail(f"{name!r} holds numbers beyond {LARGEST:,}", "number nodes from 0")
        return array.astype(np.int64)

    def features(self, name: str) -> np.ndarray:
        r"""A finite matrix as float32."""
        array = self.get(name, "iufb", (2,))
        if array.shape[1] == 0:
            self.fail(f"{name!r} has no columns", "supply features of the nodes")
        return self.finite(name, array)

    def finite(self, name: str, array: np.ndarray) -> np.ndarray:
        r"""Numbers as float32, each finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            single: np.ndarray = np.ascontiguousarray(array, dtype=np.float32)
        wrong = np.argwhere(~np.isfinite(single))
        self.findings.each(
            self.file,
            range(len(wrong)),
            lambda _: None,
            lambda row: f"{name!r} is not finite in 32 bits at {wrong[row].tolist()}",
            "replace NaN and infinite entries",
        )
        return single

    def weights(self, name: str, count: int) -> np.ndarray:
        r"""One finite number >= 0 for each of :obj:`count` edges."""
        array = self.get(name, "iufb", (1,))
        if array.size != count:
            self.fail(f"{name!r} has {array.size} entries for {count} edges", "save one per edge")
        weight = self.finite(name, array)
        negative = np.flatnonzero(weight < 0)
        self.findings.each(
            self.file,
            negative,
            lambda _: None,
            lambda row: f"{name!r} is negative at edge {row} (got {weight[row]:g})",
            "weights must be >= 0",
        )
        return weight

    def ends(self, name: str, pairs: np.ndarray, num_nodes: int) -> None:
        r"""Reports edges, :obj:`[m, 2]`, whose ends are not nodes."""
        wrong = np.flatnonzero(((pairs < 0) | (pairs >= num_nodes)).any(1))
        self.findings.each(
            self.file,
            wrong,
            lambda _: None,
            lambda row: (
                f"{name!r}: edge {row} joins {pairs[row].tolist()}, "
                f"and nodes are 0 to {num_nodes - 1}"
            ),
            "correct the edge, or supply features of all nodes",
        )
        self.findings.stop_on_errors()

    def labels(self, name: str, num_nodes: int, names: list[str] | None = None) -> Labels:
        r"""Classes (integers with negative ones for none, or text with empty for none), or a
        matrix of 0 and 1 with rows of NaN for none. No such array: nothing is labelled.
        """
        if name not in self.arrays:
            return Labels(np.full(num_nodes, -1, np.int64), ())
        array = self.get(name, "iufbU", (1, 2))
        if array.shape[0] != num_nodes:
            self.fail(f"{name!r} has {array.shape[0]} rows for {num_nodes} nodes",
                      "save one row for each node, -1 where there is no label")  # fmt: skip
        if array.ndim == 2 and array.shape[1] == 1 and array.dtype.kind in "iu":
            array = array[:, 0]  # PyG's graphs often carry y as a column
        if array.ndim == 2:
            return self._several(name, array, names)
        if array.dtype.kind == "U":
            return self._by_name(np.char.strip(array))
        return self._classes(name, array, names)

    def _by_name(self, array: np.ndarray) -> Labels:
        different, index = np.unique(array, return_inverse=True)
        cells = without_gaps([str(cell) for cell in different], self.file, self.findings)
        names = class_order(set(cells) - {""})
        number = {name: position for position, name in enumerate(names)}
        codes = np.array([number.get(cell, -1) for cell in cells], np.int64)
        return Labels(codes[index], tuple(names))

    def _classes(self, name: str, array: np.ndarray, names: list[str] | None) -> Labels:
        if array.dtype.kind == "f":
            array = np.where(np.isnan(array), -1.0, array)
            if not (np.isfinite(array) & (np.floor(array) == array)).all():
                self.fail(f"{name!r} must be whole numbers", "number the classes from 0")
        if array.size and not -LARGEST <= float(array.min()) <= float(array.max()) <= LARGEST:
            self.fail(f"{name!r} holds numbers beyond {LARGEST:,}", "number the classes from 0")
        array = array.astype(np.int64)
        values, y = np.unique(array, return_inverse=True)
        none = int(np.count_nonzero(values < 0))
        known = [int(value) for value in values[none:]]
        if names is not None and known and known[-1] < len(names):
            return Labels(np.where(array < 0, -1, array), tuple(names))
        return Labels(np.maximum(y - none, -1).astype(np.int64), tuple(map(str, known)))

    def _several(self, name: str, array: np.ndarray, names: list[str] | None) -> Labels:
        if array.dtype.kind == "U" or array.shape[1] == 0:
            self.fail(f"{name!r} must be a column of classes or a matrix of 0 and 1", "save it so")
        with np.errstate(over="ignore", invalid="ignore"):
            y = np.array(array, np.float32, order="C")
        empty = np.isnan(y).all(1)
        wrong = np.argwhere((y != 0) & (y != 1) & ~empty.reshape(-1, 1))
        self.findings.each(
            self.file,
            range(len(wrong)),
            lambda _: None,
            lambda row: (
                f"{name!r} must be 0 or 1 (got {y[tuple(wrong[row])]:g} at {wrong[row].tolist()})"
            ),
            "write 1 where a node has the label, and NaN in all of a row without labels",
        )
        count = y.shape[1]
        if names is None or len(names) != count:
            names = [str(number) for number in range(count)]
        return Labels(y, tuple(names))

    def split(self, name: str, num_nodes: int) -> np.ndarray | None:
        r"""0 train, 1 validation, 2 test, negative for none; or nothing."""
        if name not in self.arrays:
            return None
        split = self.integers(name)
        if split.size != num_nodes or (split.size and split.max() > 2):
            self.fail(f"{name!r} must hold 0 (train), 1 (val), 2 (test) or -1 for each node",
                      "save it so")  # fmt: skip
        codes: np.ndarray = np.maximum(split, -1)
        return codes

    def masks(self, num_nodes: int) -> np.ndarray | None:
        r"""The split by :obj:`train_mask`, :obj:`val_mask` and :obj:`test_mask`, if they exist."""
        split = np.full(num_nodes, -1, np.int64)
        names = [f"{part}_mask" for part in ("train", "val", "test")]
        if not any(name in self.arrays for name in names):
            return None
        for part, name in enumerate(names):
            if name not in self.arrays:
                continue
            if self.arrays[name].ndim == 2:
                self.fail(f"{name!r} holds several splits (got {list(self.arrays[name].shape)})",
                          f"save one of them, such as {name}[:, 0]")  # fmt: skip
            mask = self.get(name, "iub", (1,))
            if mask.size != num_nodes or (mask.size and not np.isin(mask, (0, 1)).all()):
                self.fail(f"{name!r} must say true or false for each of {num_nodes} nodes",
                          "save one split as vectors of truth values")  # fmt: skip
            both = np.flatnonzero((split >= 0) & mask.astype(bool))
            self._overlap(name, both, split, names)
            split[mask.astype(bool)] = part
        return split

    def _overlap(self, name: str, both: np.ndarray, split: np.ndarray, names: list[str]) -> None:
        self.findings.each(
            self.file,
            both,
            lambda _: None,
            lambda row: f"node {row} is in {name!r} and in {names[split[row]]!r}",
            "keep each node in one part of the split",
        )

    def ids(self, name: str, num_nodes: int) -> np.ndarray | None:
        r"""Identifiers of the nodes, each once, if they were saved."""
        if name not in self.arrays:
            return None
        ids = self.get(name, "iuU", (1,)).astype(str)
        if ids.size != num_nodes or np.unique(ids).size != ids.size:
            self.fail(f"{name!r} must hold a different identifier for each of {num_nodes} nodes",
                      "correct or remove it")  # fmt: skip
        return ids


BENCHMARK = ("adj_data", "adj_indices", "adj_indptr", "adj_shape")
SPARSE = ("attr_data", "attr_indices", "attr_indptr", "attr_shape")
OTHERS = (
    *("attr_matrix", "labels", "class_names", "node_names", "node_ids", "split", "weight"),
    *("edges", "features", "graph_id", "train_mask", "val_mask", "test_mask"),
)
_ADVICE = "save plain arrays with numpy.savez"


def read_npz(path: Path, findings: Diagnostics, progress: Progress | None) -> Parts:
    r"""Reads the keys it knows and no others; pickled objects are refused, never loaded.

    Args:
        path (Path): The file.
        findings (Diagnostics): Where problems go.
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


def _load(path: Path, findings: Diagnostics, progress: Progress | None) -> dict[str, np.ndarray]:
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


def _load_array(name: str, data: bytes, file: str, findings: Diagnostics) -> np.ndarray:
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
