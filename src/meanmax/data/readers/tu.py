r"""Collections of graphs in the text format of the TU datasets (Morris et al. 2020), from a folder
or a zip file, which is never unpacked to disk.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from meanmax.data.fetch.catalog import tu_folder
from meanmax.data.files import Progress, read_zip, report
from meanmax.data.readers.assemble import (
    EdgeColumns,
    GraphColumns,
    GraphRows,
    LabelColumns,
    NodeColumns,
    as_target,
)
from meanmax.data.readers.collection import as_collection
from meanmax.data.readers.features import FeatureOptions
from meanmax.data.readers.problems import Diagnostics

NEEDED = ("A", "graph_indicator")
OPTIONAL = ("graph_labels", "graph_attributes", "node_labels", "node_attributes")
_ADVICE = "get the files again from the TU datasets, or remove the part"
_LABEL_ADVICE = (
    "correct it; here all graphs have labels, or none: if some have none, write a folder with "
    "graphs.csv"
)
_NUMBER = r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*"
_WHOLE = r"\s*[+-]?[0-9]{1,15}\s*"


def read_tu(
    path: Path, diagnostics: Diagnostics, progress: Progress | None, options: FeatureOptions
) -> tuple[str, GraphColumns]:
    r"""Reads a folder or zip file with :obj:`DS_A.txt`, :obj:`DS_graph_indicator.txt` and, if they
    exist, the labels and attributes of graphs and nodes; returns the name :obj:`DS`, too.

    Features are the attributes of nodes and then their labels, one-hot: those of
    :obj:`options.one_hot`, or those that occur. Attributes of graphs are a regression target;
    otherwise their labels are classes.
    """
    if options.impute is not None:
        diagnostics.fail("holds numbers, all of them, and takes no 'impute'", "leave it out")
    name, texts = (_from_folder if path.is_dir() else _from_zip)(path, diagnostics, progress)
    for part in NEEDED:
        if part not in texts:
            diagnostics.fail(f"lacks {name}_{part}.txt", _ADVICE)
    unused = sorted(texts.keys() - {*NEEDED, *OPTIONAL})
    if unused:
        diagnostics.note(f"{', '.join(unused)} not used", "features of edges are not supported")
    file = diagnostics.of(f"{name}_graph_indicator.txt")
    graph = _numbers(file, texts["graph_indicator"], columns=1, whole=True)[:, 0].astype(np.int64)
    rows = _read_graphs(name, texts, int(graph.max()), diagnostics)
    nodes = _read_nodes(name, texts, graph.size, diagnostics, options)
    file.each(
        np.flatnonzero((graph < 1) | (graph > rows.count)),
        lambda node: f"graph {graph[node]} is none of 1 to {rows.count}",
        f"correct it: {rows.diagnostics.file} has a line for each graph (where some graphs have no "
        "label, write a folder with graphs.csv)",
        lambda node: node + 1,
    )
    file = diagnostics.of(f"{name}_A.txt")
    ends = np.zeros((0, 2), np.int64)
    if texts["A"].strip():
        ends = _numbers(file, texts["A"], columns=2, whole=True).astype(np.int64) - 1
    file.each(
        np.flatnonzero(((ends < 0) | (ends >= graph.size)).any(1)),
        lambda row: (
            f"joins {ends[row, 0] + 1} and {ends[row, 1] + 1}, and nodes are 1 to {graph.size}"
        ),
        f"correct the edge: {name}_graph_indicator.txt has a line for each node",
        lambda row: row + 1,
    )
    diagnostics.stop_on_errors()
    source, target = np.ascontiguousarray(ends.T)
    edges = EdgeColumns(file, source, target, line=lambda row: row + 1)
    return name, as_collection(nodes, edges, graph - 1, rows)


def _from_folder(
    path: Path, diagnostics: Diagnostics, progress: Progress | None
) -> tuple[str, dict[str, bytes]]:
    folder = tu_folder(path) or path
    files = {file.name: file for file in sorted(folder.glob("*.txt"))}
    name, parts = _parts(list(files), diagnostics)
    read = diagnostics.read
    return name, {part: read(files[file], progress) for part, file in parts.items()}


def _from_zip(
    path: Path, diagnostics: Diagnostics, progress: Progress | None
) -> tuple[str, dict[str, bytes]]:
    data = diagnostics.read(path, progress)
    with diagnostics.parsing("zip file", _ADVICE):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
        name, parts = _parts(list(sizes), diagnostics)
        unpacked = sum(sizes[member] for member in parts.values())
        diagnostics.check_unpacked(unpacked, len(data))
        texts = read_zip(data, tuple(parts.values()), path.name)
    report(progress, f"unpacking {path.name}", len(data), len(data))
    return name, {part: texts[member] for part, member in parts.items()}


def _parts(files: list[str], diagnostics: Diagnostics) -> tuple[str, dict[str, str]]:
    """The name of the collection, and the file of each of its parts."""
    plain = [file for file in files if not file.startswith("__MACOSX/")]
    matches = (re.fullmatch(r"(?:.*/)?([^/]+)_(?:A|graph_indicator)\.txt", f) for f in plain)
    names = sorted({match[1] for match in matches if match})
    if len(names) != 1:
        got = f"holds the collections {', '.join(names[:8])}" if names else "holds no collection"
        advice = "supply DS_A.txt, DS_graph_indicator.txt and DS_graph_labels.txt of one DS"
        diagnostics.fail(f"{got} in the text format of the TU datasets", advice)
    form = rf"(?:.*/)?{re.escape(names[0])}_(\w+)\.txt"
    found = [(match[1], file) for file in plain if (match := re.fullmatch(form, file))]
    parts = {part: file for part, file in found if "readme" not in part.lower()}
    if len({part for part, _ in found}) < len(found):
        diagnostics.fail("holds a file of the collection twice", "keep one of them")
    return names[0], parts


def _numbers(
    diagnostics: Diagnostics,
    text: bytes,
    *,
    columns: int | None = None,
    whole: bool = False,
    advice: str = _ADVICE,
) -> np.ndarray:
    """Rows of numbers separated by commas, float64, [num_lines, num_columns]."""
    with diagnostics.parsing("text file", _ADVICE):
        lines = text.decode("utf-8-sig").rstrip().splitlines()
    if not lines:
        diagnostics.fail("is empty", _ADVICE)
    columns = lines[0].count(",") + 1 if columns is None else columns
    form = re.compile(",".join([_WHOLE if whole else _NUMBER] * columns))
    kind = "whole number" if whole else "number"
    wanted = f"a {kind}" if columns == 1 else f"{columns} {kind}s separated by commas"
    diagnostics.each(
        [row for row, line in enumerate(lines) if not form.fullmatch(line)],
        lambda row: f"is not {wanted} (got {lines[row][:40]!r})",
        advice,
        lambda row: row + 1,
    )
    diagnostics.stop_on_errors()
    cells = " ".join(lines).replace(",", " ")
    return np.fromstring(cells, sep=" ", dtype=np.float64).reshape(-1, columns)


def _read_graphs(
    name: str, texts: dict[str, bytes], count: int, diagnostics: Diagnostics
) -> GraphRows:
    kinds = [part for part in ("graph_attributes", "graph_labels") if part in texts]
    if not kinds:
        return GraphRows(diagnostics, LabelColumns.none(count), first=1)
    file = diagnostics.of(f"{name}_{kinds[0]}.txt")
    if len(kinds) > 1:
        file.note("is the target, and the labels of graphs are not used", "remove one of the files")
    if kinds[0] == "graph_attributes":
        values = _numbers(file, texts[kinds[0]], advice=_LABEL_ADVICE)
        if values.shape[1] > 1:
            message = f"has {values.shape[1]} targets of each graph"
            file.fail(message, "keep the column to be predicted")
        labels = LabelColumns(as_target(values[:, 0]))
    else:
        values = _numbers(file, texts[kinds[0]], columns=1, whole=True, advice=_LABEL_ADVICE)
        different, y = np.unique(values[:, 0].astype(np.int64), return_inverse=True)
        labels = LabelColumns(y, tuple(map(str, different.tolist())))
    return GraphRows(file, labels, line=lambda row: row + 1, first=1)


def _read_nodes(
    name: str,
    texts: dict[str, bytes],
    count: int,
    diagnostics: Diagnostics,
    options: FeatureOptions,
) -> NodeColumns:
    blocks: list[np.ndarray] = []
    names: list[str] = []
    categories: dict[str, list[str]] = {}
    for part in ("node_attributes", "node_labels"):
        if part not in texts:
            continue
        file = diagnostics.of(f"{name}_{part}.txt")
        values = _numbers(file, texts[part], whole=part == "node_labels")
        if len(values) != count:
            file.fail(f"has {len(values):,} lines for {count:,} nodes", _ADVICE)
        several = values.shape[1] > 1
        for number, column in enumerate(values.T, start=1):
            if part == "node_attributes":
                block, added = _finite(file, column)[:, None], [f"attribute {number}"]
            else:
                label = f"label {number}" if several else "label"
                given = options.one_hot.get(label)
                block, categories[label] = _one_hot(file, label, column, given)
                added = [f"{label}={category}" for category in categories[label]]
            blocks.append(block)
            names += added
    if unknown := [label for label in options.one_hot if label not in categories]:
        advice = f"its node labels are {', '.join(map(repr, categories)) or 'none'}"
        diagnostics.fail(f"has no node labels {', '.join(map(repr, unknown))}", advice)
    x = np.concatenate(blocks, axis=1) if blocks else None
    encoding = {"one_hot": categories} if categories else {}
    return NodeColumns(
        diagnostics,
        x,
        LabelColumns.none(count),
        feature_names=tuple(names),
        encoding=encoding,
        numbers=np.arange(1, count + 1),
    )


def _one_hot(
    file: Diagnostics, name: str, column: np.ndarray, given: Sequence[str] | None
) -> tuple[np.ndarray, list[str]]:
    """A column of 0 and 1 for each of the given labels, or of those that occur."""
    different, index = np.unique(column.astype(np.int64), return_inverse=True)
    found = list(map(str, different.tolist()))
    categories = found if given is None else list(given)
    position = {category: number for number, category in enumerate(categories)}
    places = np.array([position.get(category, -1) for category in found])[index]
    known = places >= 0
    file.each(
        np.flatnonzero(~known),
        lambda row: f"{name!r} holds {column[row]:.0f}, none of {', '.join(categories)}",
        "correct the line, or train with data that have this label",
        lambda row: row + 1,
    )
    file.check_size(4 * column.size * len(categories))
    block = np.zeros((column.size, len(categories)), np.float32)
    block[known, places[known]] = 1
    return block, categories


def _finite(file: Diagnostics, column: np.ndarray) -> np.ndarray:
    single = as_target(column)
    file.each(
        np.flatnonzero(~np.isfinite(single)),
        lambda row: f"is not finite in 32 bits (got {column[row]:g})",
        "correct the number",
        lambda row: row + 1,
    )
    return single
