r"""Several graphs as a list: of PyG's :obj:`Data`, or of dictionaries of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from meanmax.data.readers.arrays import CheckedArrays, names_of_edges, note_unused, to_numpy
from meanmax.data.readers.assemble import (
    EdgeColumns,
    GraphColumns,
    GraphRows,
    LabelColumns,
    NodeColumns,
)
from meanmax.data.readers.features import FeatureOptions
from meanmax.data.readers.problems import Diagnostics

KNOWN = ("x", "edge_index", "edge_weight", "y", "num_nodes")
_ADVICE = "supply PyG's Data, or dictionaries of tensors, all with the same attributes"


def read_list(
    graphs: list[dict[Any, Any]], diagnostics: Diagnostics, options: FeatureOptions
) -> GraphColumns:
    r"""Reads :obj:`edge_index` (or none, if all are sets of nodes), :obj:`x` (or :obj:`num_nodes`,
    if all lack features), :obj:`y` and, if they exist, :obj:`edge_weight` of each graph. :obj:`y`
    has one row for the graph, or none; or one for each of its nodes, in all graphs.
    """
    if not graphs:
        diagnostics.fail("holds no graphs", _ADVICE)
    reader = _Reader(diagnostics, options)
    for number, tensors in enumerate(graphs):
        reader.add(number, tensors)
    note_unused(set().union(*graphs) - {*KNOWN}, KNOWN, diagnostics)
    return reader.columns()


class _Reader:
    """Checks one graph after the other and joins them. Problems are those of list[number]."""

    def __init__(self, diagnostics: Diagnostics, options: FeatureOptions) -> None:
        self.diagnostics, self.options = diagnostics, options
        self.ptr = [0]
        self.bytes = 0
        self.parts: dict[str, list[np.ndarray]] = {"x": [], "edge_index": [], "edge_weight": []}
        self.y: list[np.ndarray | None] = []

    def add(self, number: int, tensors: dict[Any, Any]) -> None:
        file = self.diagnostics.of(f"{self.diagnostics.file}[{number}]")
        known = {name: tensors.get(name) for name in KNOWN}
        if isinstance(known["y"], int | float):
            known["y"] = torch.tensor(known["y"])
        if isinstance(known["y"], str):
            advice = "number the classes from 0, or write a folder with graphs.csv"
            file.fail(f"'y' is text (got {known['y']!r:.40})", advice)
        found = to_numpy(known, file)
        # Tensors of a file may share one storage, so that a small file holds many large graphs.
        self.bytes += sum(16 * array.size for array in found.values())
        file.check_size(self.bytes)
        arrays = CheckedArrays(found, file, self.options)
        if "edge_index" not in arrays and (odd := names_of_edges(tensors)):
            arrays.fail(f"holds no tensor 'edge_index', but {', '.join(odd)}", _ADVICE)
        for name in self.parts:
            if number and (name in arrays) != bool(self.parts[name]):
                has, have = ("has no", "have") if self.parts[name] else ("has", "have none")
                arrays.fail(f"{has} {name!r}, and the graphs before it {have}", _ADVICE)
        count = self._add_nodes(arrays, tensors.get("num_nodes"))
        if "edge_index" in arrays:
            self._add_edges(arrays, count)
        self.y.append(self._labels(arrays))
        self.ptr.append(self.ptr[-1] + count)
        file.stop_on_errors()

    def _add_nodes(self, arrays: CheckedArrays, num_nodes: Any) -> int:
        if "x" not in arrays:
            if not isinstance(num_nodes, int) or not 0 < num_nodes < 2**31:
                got = "" if num_nodes is None else f" (got {num_nodes!r:.40})"
                arrays.fail(f"holds neither 'x' nor the number 'num_nodes'{got}", _ADVICE)
            self.bytes += 256 * num_nodes  # for degrees
            arrays.diagnostics.check_size(self.bytes)
            return num_nodes
        # Gaps are filled later, over all graphs.
        x = arrays.features("x") if self.options.impute is None else arrays.get("x", "iufb", (2,))
        before = self.parts["x"]
        if before and x.shape[1] != before[0].shape[1]:
            message = f"'x' has {x.shape[1]} columns, and that of the graphs before it has "
            arrays.fail(message + str(before[0].shape[1]), "give all nodes the same features")
        before.append(x)
        return len(x)

    def _add_edges(self, arrays: CheckedArrays, count: int) -> None:
        ends = arrays.integers("edge_index", (2,))
        if ends.shape[0] != 2:
            arrays.fail(f"'edge_index' must be [2, num_edges] (got {list(ends.shape)})", _ADVICE)
        edges = arrays.edges("edge_index", ends.T, count, "edge_weight")
        self.parts["edge_index"].append(ends.T + self.ptr[-1])
        if edges.weight is not None:
            self.parts["edge_weight"].append(edges.weight)

    def _labels(self, arrays: CheckedArrays) -> np.ndarray | None:
        if "y" not in arrays:
            return None
        y = np.atleast_1d(arrays.get("y", "iufb", (0, 1, 2)))
        before = next((each for each in self.y if each is not None), y)
        if y.shape[1:] != before.shape[1:]:
            message = f"'y' is {list(y.shape)}, and that of a graph before it {list(before.shape)}"
            arrays.fail(message, "give all graphs as many labels")
        return y

    def columns(self) -> GraphColumns:
        ptr = np.array(self.ptr)
        joined = {name: np.concatenate(part) for name, part in self.parts.items() if part}
        arrays = CheckedArrays(joined, self.diagnostics, self.options)
        x = arrays.features("x") if "x" in arrays else None
        pairs = joined.get("edge_index", np.zeros((0, 2), np.int64))
        source, target = np.ascontiguousarray(pairs.T)
        edges = EdgeColumns(self.diagnostics, source, target, joined.get("edge_weight"))
        of_nodes = [
            y is not None and len(y) == n for y, n in zip(self.y, np.diff(ptr), strict=True)
        ]
        of_graph = [y is None or len(y) == 1 for y in self.y]
        nodes = NodeColumns(self.diagnostics, x, LabelColumns.none(int(ptr[-1])), graph_ptr=ptr)
        nodes.encoding = arrays.encoding
        if all(of_graph):
            nodes.graphs = GraphRows(self.diagnostics, self._joined_labels(len(self.y)))
        elif all(of_nodes):
            nodes.labels = self._joined_labels(nodes.count)
        else:
            odd = of_graph.index(False)
            y = self.y[odd]
            message = f"'y' of graph {odd} has {0 if y is None else len(y)} rows"
            advice = (
                "save one row for the graph, or in all graphs one for each node; several labels "
            )
            advice += "of one graph are a row, [1, num_labels], such as y[None, :]"
            self.diagnostics.fail(message, advice)
        return nodes, edges

    def _joined_labels(self, count: int) -> LabelColumns:
        known = next((y for y in self.y if y is not None), None)
        if known is None:
            return LabelColumns.none(count)
        none = np.full((1, *known.shape[1:]), np.nan)
        y = np.concatenate([none if y is None else y for y in self.y])
        return CheckedArrays({"y": y}, self.diagnostics, FeatureOptions()).labels("y", count)
