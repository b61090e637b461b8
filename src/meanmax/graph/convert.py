"""Edges as other libraries hold them: PyG's Data, scipy's sparse matrices, networkx's graphs."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
import torch
from scipy.sparse import issparse
from torch_geometric.data import Batch, Data

from meanmax.graph.build import EdgeList
from meanmax.unpacking import UnpackedError, open_packed

if TYPE_CHECKING:
    import networkx


def edges_of_data(data: Any, weight: str | None) -> EdgeList:
    r"""Reads :obj:`edge_index`, :obj:`num_nodes` and the attribute :obj:`weight` of PyG data."""
    if not isinstance(data, Data):
        raise TypeError(
            "'data' must be a torch_geometric.data.Data or a Batch of them "
            f"(got {type(data).__name__})"
        )
    if data.edge_index is None:
        raise ValueError(f"'data' has no 'edge_index' (it has {sorted(data.keys())})")
    values = None if weight is None else data.get(weight)
    if values is None and weight not in (None, "edge_weight"):
        raise ValueError(f"'data' has no edge weights {weight!r} (it has {sorted(data.keys())})")
    ptr = data.get("ptr") if isinstance(data, Batch) else None
    batch = data.get("batch") if ptr is None else None
    return EdgeList(data.edge_index, data.num_nodes, values, batch, ptr)


def edges_of_scipy(matrix: Any) -> EdgeList:
    r"""Reads a sparse matrix whose entry :obj:`[i, j]` is the weight of the edge from i to j."""
    if not issparse(matrix) or len(matrix.shape) != 2:
        raise TypeError(
            f"'matrix' must be a two-dimensional scipy sparse matrix (got {type(matrix).__name__})"
        )
    coo = matrix.tocoo()
    edge_index = torch.from_numpy(np.stack([coo.row, coo.col]))
    weight = torch.from_numpy(np.require(coo.data, coo.data.dtype.newbyteorder("="), ["W"]))
    return EdgeList(edge_index, (coo.shape[0], coo.shape[1]), weight)


def edges_of_networkx(graph: networkx.Graph, weight: str | None) -> EdgeList:
    r"""Reads a networkx graph: nodes are numbered in the order of :obj:`graph.nodes`, and an
    undirected edge points both ways (the backward edges follow the forward ones), a self-loop
    once.
    """
    number = {node: i for i, node in enumerate(graph.nodes)}
    edges = list(graph.edges(data=False if weight is None else weight))
    ends = (number[node] for edge in edges for node in edge[:2])
    src, dst = torch.from_numpy(np.fromiter(ends, np.int64, 2 * len(edges))).view(-1, 2).t()
    values = None
    if weight is not None:
        for u, v, value in edges:
            if value is None:
                raise ValueError(f"the edge {u!r} -> {v!r} has no attribute {weight!r}")
        values = torch.tensor([edge[2] for edge in edges], dtype=torch.get_default_dtype())
    if not graph.is_directed():
        back = (src != dst).nonzero().view(-1)
        src, dst = torch.cat([src, dst[back]]), torch.cat([dst, src[back]])
        values = None if values is None else torch.cat([values, values[back]])
    return EdgeList(torch.stack([src, dst]), len(number), values)


_COMMENTS = ("#", "%")


class _Layout(NamedTuple):
    skip: int  # lines before the first edge
    comment: str
    comma: bool
    columns: int


def read_edge_list(path: str | PathLike[str]) -> EdgeList:
    r"""Reads a text file, possibly gzipped, with an edge on each line: integer source and target
    and, on every line or none, a weight, separated by whitespace, tabs or commas.

    Empty lines and what follows :obj:`#` or :obj:`%` are ignored, and so is a first line of names.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"there is no edge-list file '{file}'")
    try:
        src, dst, *rest = _read_columns(file)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"'{file}' is no gzip file, or is damaged ({error})") from error
    weight = torch.tensor(rest[0], dtype=torch.get_default_dtype()) if rest else None
    return EdgeList(torch.from_numpy(np.stack([src, dst])), weight=weight)


def check_numbers(edge_index: Any, path: str | PathLike[str]) -> None:
    r"""Raises a :class:`ValueError` if nodes are numbered so far beyond what a file of this size
    could list that the graph would be much larger than the file.
    """
    highest = int(edge_index.max()) if edge_index.numel() else 0
    if highest >= _FREE + _PER_BYTE * (size := Path(path).stat().st_size):
        raise ValueError(
            f"'{path}' has {size:,} bytes and an edge of node {highest:,}, with as many nodes "
            f"below it: number nodes from 0 without gaps, or pass 'num_nodes'"
        )


_FREE, _PER_BYTE = 1 << 24, 64


def _read_columns(file: Path) -> list[np.ndarray]:
    layout = _find_layout(file)
    if layout is None:
        return [np.empty(0, np.int64)] * 2
    try:
        return _read_fast(file, layout)
    except UnpackedError:
        raise
    except (ValueError, OverflowError):  # pandas' ParserError is a ValueError
        return _read_line_by_line(file, layout)


def _open(file: Path) -> IO[str]:
    return io.TextIOWrapper(open_packed(file), encoding="utf-8-sig", errors="replace")


def _fields(line: str) -> list[str]:
    return re.split(r"\s*,\s*|\s+", line) if line else []


def _content(line: str) -> str:
    return re.split("[#%]", line, maxsplit=1)[0].strip()


def _find_layout(file: Path) -> _Layout | None:
    comment, header = "#", False
    with _open(file) as lines:
        for number, line in enumerate(lines):
            if line.startswith("%%MatrixMarket"):
                raise ValueError(
                    f"'{file}' is a Matrix Market file, not an edge list; read it with "
                    "scipy.io.mmread and pass the matrix to Graph.from_scipy"
                )
            if line.lstrip().startswith(_COMMENTS):
                comment = line.lstrip()[0]
            content = _content(line)
            fields = _fields(content)
            if not fields:
                continue
            if not header and not any(_is_number(field) for field in fields[:2]):
                header = True
                continue
            return _Layout(number, comment, "," in content, len(fields))
    return None


def _read_fast(file: Path, layout: _Layout) -> list[np.ndarray]:
    if layout.columns not in (2, 3):
        raise ValueError("the reader that goes line by line says what is wrong")
    try:
        import pandas
    except ImportError:
        return _read_with_numpy(file, layout)
    with open_packed(file) as stream:
        frame = _parsed(pandas, stream, layout)
    columns = [frame[i].to_numpy() for i in range(layout.columns)]
    if np.isnan(columns[-1]).any():
        raise ValueError("a missing weight reads as NaN: the slow reader finds its line")
    return columns


def _parsed(pandas: Any, stream: BinaryIO, layout: _Layout) -> Any:
    return pandas.read_csv(
        stream,
        sep="," if layout.comma else r"\s+",
        header=None,
        skiprows=layout.skip,
        comment=layout.comment,
        dtype={0: np.int64, 1: np.int64, 2: np.float64},
        skipinitialspace=True,
        quoting=csv.QUOTE_NONE,
    )


def _read_with_numpy(file: Path, layout: _Layout) -> list[np.ndarray]:
    names: list[tuple[str, Any]] = [("src", np.int64), ("dst", np.int64), ("weight", np.float64)]
    with _open(file) as lines:
        table = _loaded(lines, names, layout)
    return [np.ascontiguousarray(table[name]) for name, _ in names[: layout.columns]]


def _loaded(lines: IO[str], names: list[tuple[str, Any]], layout: _Layout) -> Any:
    return np.loadtxt(
        lines,
        dtype=names[: layout.columns],
        comments=_COMMENTS,
        delimiter="," if layout.comma else None,
        skiprows=layout.skip,
        ndmin=1,
    )


def _read_line_by_line(file: Path, layout: _Layout) -> list[np.ndarray]:
    with _open(file) as lines:
        contents = [(number, _content(line)) for number, line in enumerate(lines, start=1)]
    rows = [
        _parse(file, number, content, layout)
        for number, content in contents
        if number > layout.skip and content
    ]
    columns = zip(zip(*rows, strict=True), (np.int64, np.int64, np.float64), strict=False)
    return [np.array(column, dtype) for column, dtype in columns]


def _parse(file: Path, number: int, content: str, layout: _Layout) -> list[Any]:
    fields = _fields(content)
    try:
        if len(fields) == layout.columns and len(fields) in (2, 3):
            nodes = [_node(field) for field in fields[:2]]
            return [*nodes, *(float(field) for field in fields[2:])]
    except (ValueError, OverflowError):
        pass
    wanted = {
        2: "two integers 'source target' (as the first edge)",
        3: "two integers and a number 'source target weight' (as the first edge)",
    }.get(layout.columns, "two integers and perhaps a number 'source target [weight]'")
    raise ValueError(f"line {number} of '{file}' must hold {wanted} (got {content[:60]!r})")


def _node(field: str) -> np.int64:
    # pandas takes 2.0 for an integer, as some exports write it.
    return np.int64(int(float(field)) if field.endswith(".0") else int(field))


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
