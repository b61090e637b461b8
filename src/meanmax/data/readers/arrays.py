r"""Graphs in arrays: :obj:`.npz` files, and :obj:`.pt` files of tensors."""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from meanmax.data.files import DataError, Progress, read_npy, report
from meanmax.data.matrices import csr_problem
from meanmax.data.readers.assemble import (
    EdgeColumns,
    GraphColumns,
    LabelColumns,
    NodeColumns,
    as_target,
    class_order,
    has_fractions,
    target_numbers,
    without_gaps,
)
from meanmax.data.readers.features import FeatureOptions
from meanmax.data.readers.problems import Diagnostics
from meanmax.unpacking import check_pickles

LARGEST = 2**31 - 1
ADJACENCY = ("adj_data", "adj_indices", "adj_indptr", "adj_shape")
SPARSE = ("attr_data", "attr_indices", "attr_indptr", "attr_shape")
MASKS = ("train_mask", "val_mask", "test_mask")
OTHERS = (
    *("attr_matrix", "labels", "class_names", "node_names", "node_ids", "split", "weight"),
    *("edges", "features", "graph_id", *MASKS),
    # of the heterophilous benchmarks
    *("node_features", "node_labels", *(f"{name}s" for name in MASKS)),
)
TENSORS = ("x", "edge_index", "edge_weight", "y", *MASKS)
_NPZ_ADVICE = "save plain arrays with numpy.savez"
_PT_ADVICE = "save it with torch.save(data, path), data holding tensors only"


class CheckedArrays:
    r"""The arrays of one file by name, none of them of objects, checked on access."""

    def __init__(
        self, arrays: dict[str, np.ndarray], diagnostics: Diagnostics, options: FeatureOptions
    ) -> None:
        self.arrays, self.diagnostics, self.fail = arrays, diagnostics, diagnostics.fail
        self.options = options
        self.encoding: dict[str, Any] = {}  # of the features, as in Dataset
        if options.one_hot:
            advice = "leave it out, or write the nodes as a table"
            self.fail("holds arrays, and 'one_hot' names columns of tables", advice)

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    def get(self, name: str, kinds: str, dims: tuple[int, ...]) -> np.ndarray:
        r"""An array of one of the :obj:`kinds` of numpy types and numbers of dimensions."""
        array = self.arrays[name]
        if array.ndim not in dims or array.dtype.kind not in kinds:
            names = {"iu": "integers", "iufb": "numbers", "iub": "integers or truth values"}
            wanted = f"{names.get(kinds, 'numbers or text')} in {' or '.join(map(str, dims))}"
            got = f"got {array.dtype}, {list(array.shape)}"
            message = f"{name!r} must hold {wanted} dimension(s) ({got})"
            self.fail(message, "save it in that shape")
        return array

    def integers(self, name: str, dims: tuple[int, ...] = (1,)) -> np.ndarray:
        r"""An array of integers as int64."""
        array = self.get(name, "iu", dims)
        if array.size and (int(array.max()) > LARGEST or int(array.min()) < -LARGEST):
            self.fail(f"{name!r} holds numbers beyond {LARGEST:,}", "number nodes from 0")
        return array.astype(np.int64)

    def finite(self, name: str, dims: tuple[int, ...] = (1,)) -> np.ndarray:
        r"""Numbers as float32; those that are not finite are reported."""
        with np.errstate(over="ignore", invalid="ignore"):
            single = np.ascontiguousarray(self.get(name, "iufb", dims), dtype=np.float32)
        self.diagnostics.each(
            np.argwhere(~np.isfinite(single)),
            lambda at: f"{name!r} is not finite in 32 bits at {at}",
            "replace NaN and infinite entries; impute='mean' (--impute mean) fills NaN in features",
        )
        return single

    def features(self, name: str) -> np.ndarray:
        r"""A finite matrix as float32; NaN are filled if that is asked for."""
        if self.options.impute is not None and self.arrays[name].dtype.kind == "f":
            self.arrays[name] = self._imputed(self.get(name, "f", (2,)))
        x = self.finite(name, (2,))
        if x.shape[1] == 0:
            self.fail(f"{name!r} has no columns", "supply features of the nodes")
        if x.shape[0] == 0:
            self.fail("has no nodes", "save at least one row of features")
        return x

    def _imputed(self, x: np.ndarray) -> np.ndarray:
        values = [self.options.value(str(number), column) for number, column in enumerate(x.T)]
        self.encoding = {
            "impute": {str(k): value for k, value in enumerate(values) if value is not None}
        }
        fill = np.array([np.nan if value is None else value for value in values])
        return np.where(np.isnan(x), fill.astype(x.dtype), x)

    def csr(self, names: tuple[str, ...]) -> Any:
        r"""A sparse matrix from its :obj:`data`, :obj:`indices`, :obj:`indptr`, :obj:`shape`."""
        data = self.finite(names[0])
        indices, indptr, shape = (self.integers(name) for name in names[1:])
        prefix = names[0].removesuffix("data")
        problem = csr_problem(data, indices, indptr, shape, prefix)
        self.diagnostics.stop_on_errors()  # entries that are not finite are reported one by one
        if problem or shape.min() < 1:
            self.fail(problem or f"'{prefix}shape' must not be empty", _NPZ_ADVICE)
        return scipy.sparse.csr_array((data, indices, indptr), tuple(shape.tolist()))

    def edges(self, name: str, pairs: np.ndarray, num_nodes: int, weights: str) -> EdgeColumns:
        r"""Edges from node numbers, :obj:`[num_edges, 2]`, and their weights, if there are any."""
        known = f"and nodes are 0 to {num_nodes - 1}"
        self.diagnostics.each(
            np.flatnonzero(((pairs < 0) | (pairs >= num_nodes)).any(1)),
            lambda row: f"{name!r}: edge {row} joins {pairs[row].tolist()}, {known}",
            "correct the edge, or supply features of all nodes",
        )
        self.diagnostics.stop_on_errors()
        edges = EdgeColumns(self.diagnostics, *np.ascontiguousarray(pairs.T))
        if weights in self:
            edges.weight = weight = self.finite(weights)
            if weight.size != len(pairs):
                message = f"{weights!r} has {weight.size} entries for {len(pairs)} edges"
                self.fail(message, "save one per edge")
            self.diagnostics.each(
                np.flatnonzero(weight < 0),
                lambda edge: f"{weights!r} is negative at edge {edge} (got {weight[edge]:g})",
                "weights must be >= 0",
            )
        return edges

    def labels(self, name: str, count: int, names: list[str] | None = None) -> LabelColumns:
        r"""Labels of :obj:`count` nodes: classes (negative numbers or empty text for none), a
        matrix of 0 and 1 (rows of NaN for none), or numbers that are not all whole, a regression
        target (NaN for none). Without the array, nothing is labelled.
        """
        if name not in self:
            return LabelColumns.none(count)
        array = self.get(name, "iufbU", (1, 2))
        if array.shape[0] != count:
            advice = "save one row for each node, -1 if it has no label"
            self.fail(f"{name!r} has {array.shape[0]} rows for {count} nodes", advice)
        column = array.ndim == 2 and array.shape[1] == 1
        if column and (
            array.dtype.kind in "iu" or (array.dtype.kind == "f" and has_fractions(array))
        ):
            array = array[:, 0]  # PyG's graphs often carry y as a column
        if array.ndim == 2:
            return self._indicators(name, array, names)
        if array.dtype.kind == "U":
            different, index = np.unique(np.char.strip(array), return_inverse=True)
            cells = without_gaps(different.tolist(), self.diagnostics)
            numbers = target_numbers(cells)
            if numbers is not None:
                return LabelColumns(numbers[index])
            order = class_order(set(cells) - {""})
            number = {name: position for position, name in enumerate(order)} | {"": -1}
            codes = np.array([number[cell] for cell in cells], np.int64)
            return LabelColumns(codes[index], tuple(order))
        return self._class_numbers(name, array, names)

    def _class_numbers(self, name: str, array: np.ndarray, names: list[str] | None) -> LabelColumns:
        if array.dtype.kind == "f":
            if has_fractions(array):
                return LabelColumns(as_target(array))
            array = np.where(np.isnan(array), -1.0, array)
            if not np.isfinite(array).all():
                self.fail(f"{name!r} must be finite numbers", "number the classes from 0")
        if array.size and not -LARGEST <= float(array.min()) <= float(array.max()) <= LARGEST:
            self.fail(f"{name!r} holds numbers beyond {LARGEST:,}", "number the classes from 0")
        array = array.astype(np.int64)
        values, y = np.unique(array, return_inverse=True)
        none = int(np.count_nonzero(values < 0))
        known = [int(value) for value in values[none:]]
        if names is not None and known and known[-1] < len(names):
            return LabelColumns(np.where(array < 0, -1, array), tuple(names))
        codes = np.maximum(y - none, -1).astype(np.int64)
        return LabelColumns(codes, tuple(map(str, known)), negative=none > 0)

    def _indicators(self, name: str, array: np.ndarray, names: list[str] | None) -> LabelColumns:
        if array.dtype.kind == "U" or array.shape[1] == 0:
            self.fail(f"{name!r} must be a column of classes or a matrix of 0 and 1", "save it so")
        with np.errstate(over="ignore", invalid="ignore"):
            y = np.array(array, np.float32, order="C")
        self.diagnostics.each(
            np.argwhere((y != 0) & (y != 1) & ~np.isnan(y).all(1, keepdims=True)),
            lambda at: f"{name!r} must be 0 or 1 (got {y[tuple(at)]:g} at {at})",
            "write 1 where a node has the label, and NaN in all of a row without labels",
        )
        if names is None or len(names) != y.shape[1]:
            names = [str(number) for number in range(y.shape[1])]
        return LabelColumns(y, tuple(names))

    def split(self, count: int) -> np.ndarray | None:
        r"""0 train, 1 validation, 2 test, -1 none for each node, in a row for each split; if there
        is a split or a mask.
        """
        if "split" in self:
            split = self.integers("split")
            if split.size != count or (split.size and split.max() > 2):
                message = "'split' must hold 0 (train), 1 (val), 2 (test) or -1 for each node"
                self.fail(message, "save it so")
            return np.asarray(np.maximum(split, -1))
        named = [name if name in self else f"{name}s" for name in MASKS]
        masks = {name: self._mask(name, count) for name in named if name in self}
        if not masks:
            return None
        size = max(map(len, masks.values()))
        for name, mask in masks.items():  # of WikiCS, for example, all splits share the test nodes
            if len(mask) not in (1, size):
                message = f"{name!r} holds {len(mask)} splits where another mask holds {size}"
                self.fail(message, "save as many of each part")
        every = [np.broadcast_to(mask, (size, count)) for mask in masks.values()]
        split = np.full((size, count), -1, np.int64)
        for name, mask in zip(masks, every, strict=True):
            split[mask] = named.index(name)

        def describe(at: tuple[int, int]) -> str:
            first, second, *_ = (name for name, mask in zip(masks, every, strict=True) if mask[*at])
            where = "" if size == 1 else f" of split {at[0]}"
            return f"node {at[1]} is in {second!r} and in {first!r}{where}"

        several = np.argwhere(np.sum(every, axis=0) > 1)
        self.diagnostics.each(several, describe, "keep each node in one part of the split")
        return split

    def _mask(self, name: str, count: int) -> np.ndarray:
        """A row for each split. PyG writes several masks as columns, others as rows."""
        mask = self.get(name, "iub", (1, 2))
        if mask.ndim == 2:
            columns, rows = mask.shape[0] == count, mask.shape[1] == count
            mask = mask.T if columns and not (rows and name.endswith("s")) else mask
        mask = np.atleast_2d(mask)
        if mask.shape[1] != count or not len(mask) or not np.isin(mask, (0, 1)).all():
            message = f"{name!r} must say true or false for each of {count} nodes"
            got = list(self.arrays[name].shape)
            self.fail(f"{message} (got {got})", "save a row, or a column, for each split")
        return mask.astype(bool)


def read_npz(
    path: Path, diagnostics: Diagnostics, progress: Progress | None, options: FeatureOptions
) -> GraphColumns:
    r"""Reads the arrays with known names, and no others; pickled objects are never loaded."""
    data = diagnostics.read(path, progress)
    found: dict[str, np.ndarray] = {}
    parsing = diagnostics.parsing(".npz file", _NPZ_ADVICE)
    with parsing, zipfile.ZipFile(io.BytesIO(data)) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
        known = [name for name in (*ADJACENCY, *SPARSE, *OTHERS) if f"{name}.npy" in sizes]
        unpacked = sum(sizes[f"{name}.npy"] for name in known)
        diagnostics.check_unpacked(unpacked, len(data))
        for number, name in enumerate(known, start=1):
            array = read_npy(archive.read(f"{name}.npy"), name)
            found[name] = np.array(array, array.dtype.newbyteorder("="), order="C")
            report(progress, f"unpacking {path.name}", number, len(known))
    arrays = CheckedArrays(found, diagnostics, options)
    if found.keys() >= set(ADJACENCY):
        return _read_matrices(arrays)
    for name in ("features", "node_features"):
        if found.keys() >= {"edges", name}:
            return _read_edge_list(arrays, name)
    has = f"of known keys it has {sorted(found)}"
    message = f"has neither {', '.join(ADJACENCY)} nor 'edges' and 'features' (or 'node_features')"
    arrays.fail(f"{message}; {has}", "save one of the two sets of arrays")


def _read_matrices(arrays: CheckedArrays) -> GraphColumns:
    adjacency = arrays.csr(ADJACENCY)
    count = adjacency.shape[0]
    if adjacency.shape != (count, count):
        arrays.fail(f"'adj_shape' must be square (got {list(adjacency.shape)})", _NPZ_ADVICE)
    if "attr_matrix" in arrays:
        x: Any = arrays.features("attr_matrix")
    elif arrays.arrays.keys() >= set(SPARSE):
        x = arrays.csr(SPARSE)
    else:
        message = "has neither 'attr_matrix' nor 'attr_data' and its companions: no features"
        arrays.fail(message, "save features of the nodes")
    if x.shape[0] != count:
        arrays.fail(f"has features of {x.shape[0]} nodes in a graph of {count}", _NPZ_ADVICE)
    entries = adjacency.tocoo()
    pairs = np.stack([entries.row, entries.col], axis=1).astype(np.int64)
    edges = arrays.edges("adj_indices", pairs, count, "adj_data")
    if edges.weight is not None and (edges.weight == 1).all():
        edges.weight = None
    return _read_nodes(arrays, x), edges


def _read_edge_list(arrays: CheckedArrays, features: str) -> GraphColumns:
    x, pairs = arrays.features(features), arrays.integers("edges", (2,))
    if pairs.shape[1] != 2:
        message = f"'edges' must have two columns (got {list(pairs.shape)})"
        arrays.fail(message, "save a row of source and target for each edge")
    edges = arrays.edges("edges", pairs, x.shape[0], "weight")
    nodes = _read_nodes(arrays, x)
    if "graph_id" in arrays:
        graph = arrays.integers("graph_id")
        if graph.size != nodes.count or (np.diff(graph) < 0).any():
            message = "'graph_id' must hold a number for each node, rising from graph to graph"
            arrays.fail(message, "sort nodes by graph")
        arrays.diagnostics.each(
            np.flatnonzero(graph[pairs[:, 0]] != graph[pairs[:, 1]]),
            lambda row: f"edge {row} joins nodes of two graphs ({pairs[row].tolist()})",
            "give all nodes of a graph the same 'graph_id'",
        )
        first = np.flatnonzero(np.diff(graph, prepend=graph[0] - 1))
        nodes.graph_ptr = np.append(first, nodes.count)
    return nodes, edges


def _read_nodes(arrays: CheckedArrays, x: Any) -> NodeColumns:
    count, names, ids = int(x.shape[0]), None, None
    if "class_names" in arrays:
        names = [str(name) for name in arrays.get("class_names", "iuU", (1,))]
    labels = arrays.labels("labels" if "labels" in arrays else "node_labels", count, names)
    name = "node_ids" if "node_ids" in arrays else "node_names"
    if name in arrays:
        ids = arrays.get(name, "iuU", (1,)).astype(str)
        if ids.size != count or np.unique(ids).size != ids.size:
            message = f"{name!r} must hold a different identifier for each of {count} nodes"
            arrays.fail(message, "correct or remove it")
    split, encoding = arrays.split(count), arrays.encoding
    return NodeColumns(arrays.diagnostics, x, labels, ids, split, encoding=encoding)


def load_tensors(path: Path, diagnostics: Diagnostics, progress: Progress | None) -> Any:
    r"""The tensors by name of a PyG :obj:`Data`, or of a dictionary; a list for a list of them.
    Nothing but tensors and PyG's own containers is ever unpickled.
    """
    data = diagnostics.read(path, progress)
    if not data.startswith(b"PK\x03\x04"):
        diagnostics.fail("is not a file of torch.save", _PT_ADVICE)
    saved = _load_safely(data, diagnostics)
    report(progress, f"unpacking {path.name}", len(data), len(data))
    return list(map(_by_name, saved)) if isinstance(saved, list) else _by_name(saved)


def tensors_of(data: Any) -> dict[str, Any]:
    r"""The tensors by name of a PyG :obj:`Data` in memory."""
    return {
        name: value.detach().cpu().contiguous() if _is_strided(value) else value
        for name, value in data.to_dict().items()
    }


def one_graph(data: Any) -> tuple[Any, str]:
    r"""The PyG :obj:`Data` itself, or the only graph of a PyG data set, and its name; raises a
    :class:`DataError` for anything else.
    """
    from torch_geometric.data import Data, Dataset

    if isinstance(data, Dataset):
        name = _name_of(data)
        if len(data) != 1:
            raise DataError(f"'{name}' holds {len(data)} graphs: pass one of them, such as data[0]")
        return data[0], name
    if isinstance(data, Data):
        return data, "data"
    raise DataError(
        f"a graph in Python must be a Data of PyTorch Geometric, or its data set of one graph "
        f"(got {type(data).__name__}): pass one graph, or the name or path of data"
    )


def graphs_of(data: Any) -> tuple[list[Any] | None, str]:
    r"""The graphs of a list of PyG's :obj:`Data`, or of a PyG data set with more or less than one
    graph, and its name; :obj:`None` for anything else.
    """
    from torch_geometric.data import Data, Dataset

    if isinstance(data, Dataset) and len(data) != 1:
        graphs, name = [data[number] for number in range(len(data))], _name_of(data)
    elif isinstance(data, list | tuple):
        graphs, name = list(data), "data"
    else:
        return None, ""
    wrong = next((graph for graph in graphs if not isinstance(graph, Data)), None)
    if wrong is not None:
        raise DataError(
            f"a list of graphs must hold Data of PyTorch Geometric only (got a "
            f"{type(wrong).__name__}): pass graphs with one type of nodes"
        )
    return graphs, name


def _name_of(data: Any) -> str:
    name = getattr(data, "name", None)
    return name if isinstance(name, str) else type(data).__name__


def _is_strided(value: Any) -> bool:
    return isinstance(value, Tensor) and value.layout == torch.strided


def read_tensors(
    tensors: dict[Any, Any], diagnostics: Diagnostics, options: FeatureOptions
) -> GraphColumns:
    r"""Reads one graph: :obj:`x`, :obj:`edge_index`, :obj:`y` and, if they exist,
    :obj:`edge_weight` and the three masks.
    """
    note_unused(tensors.keys() - {*TENSORS}, TENSORS, diagnostics)
    arrays = CheckedArrays(to_numpy(tensors, diagnostics), diagnostics, options)
    missing = [name for name in ("x", "edge_index") if name not in arrays]
    if missing:
        arrays.fail(f"holds no tensor {' and no '.join(map(repr, missing))}", _PT_ADVICE)
    x, ends = arrays.features("x"), arrays.integers("edge_index", (2,))
    if ends.shape[0] != 2:
        arrays.fail(f"'edge_index' must be [2, num_edges] (got {list(ends.shape)})", _PT_ADVICE)
    edges = arrays.edges("edge_index", ends.T, len(x), "edge_weight")
    labels = arrays.labels("y", len(x))
    split, encoding = arrays.split(len(x)), arrays.encoding
    return NodeColumns(diagnostics, x, labels, split=split, encoding=encoding), edges


def _load_safely(data: bytes, diagnostics: Diagnostics) -> Any:
    """No method of an object that the file has filled is called, here or later."""
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    # A Data of tensors consists of these. Leaving the block below would also remove what others
    # have admitted before.
    admitted = {Data, DataEdgeAttr, DataTensorAttr, GlobalStorage}
    admitted -= set(torch.serialization.get_safe_globals())
    with diagnostics.parsing("file of tensors", _PT_ADVICE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about versions and formats of files that are refused
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
            diagnostics.check_unpacked(unpacked, len(data))
            check_pickles(archive)
        with torch.serialization.safe_globals(list(admitted)):
            try:
                return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
            except Exception as error:
                # torch's own message explains how to run what it refuses, which is not for users.
                if "weights_only" in str(error):
                    name = re.search(r"(?:GLOBAL|class|function)[: ]+([\w.]*\w)", str(error))
                    shown = f" ({name[1][:100]})" if name else ""
                    message = f"holds objects other than tensors{shown}; nothing was run"
                    diagnostics.fail(message, _PT_ADVICE)
                raise


def _by_name(saved: Any) -> dict[Any, Any]:
    from torch_geometric.data import Data
    from torch_geometric.data.storage import GlobalStorage

    if isinstance(saved, Data):
        store = saved.__dict__.get("_store")
        saved = store.__dict__.get("_mapping") if isinstance(store, GlobalStorage) else None
    return saved if isinstance(saved, dict) else {}


def note_unused(names: Collection[Any], known: Collection[str], diagnostics: Diagnostics) -> None:
    r"""Notes tensors that have no meaning here."""
    if names:
        shown = ", ".join(sorted(map(str, names))[:8])
        diagnostics.note(f"{shown} not used", f"known are {', '.join(known)}")


def names_of_edges(tensors: Mapping[Any, Any]) -> list[str]:
    r"""The names that speak of edges: a graph that has one of them is no set of nodes."""
    names = [str(name) for name, value in tensors.items() if value is not None]
    return sorted(name for name in names if name.startswith(("edge_", "adj")))


def to_numpy(tensors: dict[Any, Any], diagnostics: Diagnostics) -> dict[str, np.ndarray]:
    r"""The tensors with known names as arrays."""
    arrays: dict[str, np.ndarray] = {}
    for name in TENSORS:
        value = tensors.get(name)
        if value is None:
            continue
        if not isinstance(value, Tensor) or not _is_plain(value):
            advice = "save it with .contiguous(), or .to_dense() if it is sparse"
            diagnostics.fail(f"{name!r} is not a plain, dense tensor", advice)
        with diagnostics.parsing(f"tensor {name!r}", _PT_ADVICE):
            value = value.detach()
            arrays[name] = (value.float() if value.dtype == torch.bfloat16 else value).numpy()
    return arrays


def _is_plain(value: Tensor) -> bool:
    """Dense, in memory, and not a small storage that strides expand to a huge tensor."""
    if value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
        return False
    return value.numel() * value.element_size() <= value.untyped_storage().nbytes()
