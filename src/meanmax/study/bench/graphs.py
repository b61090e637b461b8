r"""The graphs that are timed: power-law graphs in memory and on disk, and Amazon Computers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from meanmax.data import DataError
from meanmax.data.benchmarks.amazon import read_matrix
from meanmax.data.matrices import undirected
from meanmax.graph import Graph
from meanmax.scale.edges import Array
from meanmax.scale.folder import ROLES, FolderWriter, GraphFolder, Manifest, new_folder, open_folder
from meanmax.study.bench import AMAZON_FILE

DEGREE_EXPONENT = 2.5
FIRST_RANK = 10  # bounds the largest degree, at the default sizes to about 1,250
MAX_DENSITY = 0.25
CHUNK = 1 << 21  # edges drawn, rows of features, or edges of a bucket at a time
CLASSES = 8
SHARES = {"train": 0.001, "val": 0.0005, "test": 0.0005}


class GraphError(ValueError):
    r"""A graph that cannot be generated or read; the message says what to do."""


@dataclass(frozen=True)
class GraphSource:
    r"""Where a graph comes from, in plain values that another process can rebuild it from."""

    name: str  # what tables call it
    num_nodes: int = 0  # the number of nodes to generate
    num_edges: int = 0  # the number of edges to generate, self-loops and both directions counted
    seed: int = 0  # the seed to generate it with
    path: str | None = None  # the file to read instead

    def load(self) -> Graph:
        r"""Generates or reads the graph, with self-loops and symmetric normalisation."""
        if self.path is not None:
            return read_amazon_graph(Path(self.path))
        return power_law_graph(self.num_nodes, self.num_edges, self.seed)


def power_law_graph(num_nodes: int, num_edges: int, seed: int = 0) -> Graph:
    r"""An undirected graph without multiple edges whose degrees follow a power law.

    Both ends of an edge are drawn with probability proportional to
    :math:`(i + 10)^{-1/(2.5 - 1)}` (Chung and Lu), then nodes are renumbered at random. Every
    node has a self-loop. The graph has one edge fewer where an odd one is left over.

    :obj:`num_edges`: the number of edges, self-loops and both directions counted.

    Example:
        >>> power_law_graph(100, 700)
        Graph(num_nodes=100, num_edges=700, weighted=True, num_graphs=1)
    """
    most = num_nodes + int(MAX_DENSITY * num_nodes * (num_nodes - 1))
    if not num_nodes <= num_edges <= most:
        raise GraphError(
            f"a power-law graph of {num_nodes:,} nodes has between {num_nodes:,} edges (their "
            f"self-loops) and {most:,} (got {num_edges:,}); change --nodes or --edges"
        )
    rng = np.random.default_rng(seed)
    wanted = (num_edges - num_nodes) // 2
    low, high = np.divmod(_distinct_pairs(num_nodes, wanted, rng), max(num_nodes, 1))
    names = rng.permutation(num_nodes)
    low, high = names[low], names[high]
    edge_index = np.stack([np.concatenate([low, high]), np.concatenate([high, low])])
    return Graph.from_edge_index(edge_index, num_nodes, normalize="sym", self_loops=True)


def find_amazon(folder: Path | None) -> tuple[GraphSource | None, str]:
    r"""The Amazon Computers graph of a folder, or :obj:`None` and a note why there is none."""
    if folder is None:
        return None, (
            f"amazon-computers skipped: no folder given; pass --data-dir or set MEANMAX_DATA to "
            f"the folder that holds {AMAZON_FILE}"
        )
    path = folder / AMAZON_FILE
    if not path.is_file():
        return None, f"amazon-computers skipped: {path} does not exist"
    return GraphSource("amazon-computers", path=str(path)), ""


def read_amazon_graph(path: Path) -> Graph:
    r"""Reads the graph of an :obj:`.npz` file in gnn-benchmark's format, undirected and unweighted,
    and unpickles nothing.
    """
    try:
        matrix = read_matrix(path.read_bytes(), "adj", path.name).tocoo()
        if matrix.shape[0] != matrix.shape[1]:
            raise DataError(f"its adjacency matrix must be square (got {list(matrix.shape)})")
        edge_index = undirected(matrix.row, matrix.col, matrix.shape[0])
    except (OSError, DataError) as error:
        raise GraphError(
            f"{path} is not a graph in gnn-benchmark's .npz format ({error}); download it again or "
            f"point --data-dir elsewhere"
        ) from error
    return Graph.from_edge_index(edge_index, matrix.shape[0], normalize="sym", self_loops=True)


def _distinct_pairs(num_nodes: int, wanted: int, rng: np.random.Generator) -> np.ndarray:
    r"""Codes :math:`n \cdot low + high` of different pairs of different nodes, :obj:`[wanted]`."""
    ranks = np.arange(num_nodes) + FIRST_RANK
    cumulative = np.cumsum(ranks ** (-1 / (DEGREE_EXPONENT - 1)))
    codes = np.empty(0, dtype=np.int64)
    while codes.size < wanted:
        drawn = rng.random((2, wanted + 16)) * cumulative[-1] if num_nodes else np.empty((2, 0))
        ends = np.minimum(np.searchsorted(cumulative, drawn, side="right"), num_nodes - 1)
        low, high = ends.min(axis=0), ends.max(axis=0)
        codes = np.unique(np.concatenate([codes, (low * num_nodes + high)[low != high]]))
    return rng.permutation(codes)[:wanted]


def generate_folder(
    path: str | PathLike[str],
    num_nodes: int,
    num_edges: int,
    *,
    channels: int = 32,
    directed: bool = False,
    seed: int = 0,
) -> GraphFolder:
    r"""Writes a power-law graph of any size to a graph folder, with bounded memory.

    The ends of edges are drawn as in :func:`power_law_graph`, by inverting the integral of the
    density, and nodes are renumbered by :math:`i \mapsto a i + b \bmod n`, so that nothing is kept
    for each node. Self-loops and multiple edges are left out, so the graph has somewhat fewer edges
    than requested. Edges are sorted by target through files, one bucket at a time. Features are
    normal, and classes follow from them by a fixed linear map with noise.

    :obj:`num_edges`: about how many edges; an undirected one counts twice.
    """
    if num_nodes < 2 or num_edges < 0 or num_edges > num_nodes * (num_nodes - 1) // 4:
        raise GraphError(
            f"a power-law graph of {num_nodes:,} nodes has between 0 and "
            f"{max(num_nodes, 0) * max(num_nodes - 1, 0) // 4:,} edges (got {num_edges:,})"
        )
    with new_folder(path) as writer:
        found = _write_edges(writer, num_nodes, num_edges, directed, seed)
        _write_nodes(writer, num_nodes, channels, seed)
        about = {"generator": "power law", "seed": seed, "directed": directed}
        names = tuple(f"class {number}" for number in range(CLASSES))
        writer.finish(Manifest("power-law", num_nodes, found, channels, names, False, about))
    return open_folder(path)


def _write_edges(writer: FolderWriter, nodes: int, edges: int, directed: bool, seed: int) -> int:
    buckets = max(1, math.ceil(edges / CHUNK))
    width = math.ceil(nodes / buckets)
    kind = np.int32 if nodes < 2**31 else np.int64
    folder = writer.folder / "buckets"
    folder.mkdir()
    _draw(folder, nodes, edges, directed, seed, width, kind)
    rowptr = writer.array("rowptr", (nodes + 1,), np.int64)
    total, plain = 0, writer.folder / "col.raw"
    with plain.open("wb") as file:
        for bucket in range(buckets):
            first = bucket * width
            rows = max(0, min(width, nodes - first))
            count, col = _sorted_bucket(folder / str(bucket), first, rows, kind)
            if len(count):
                rowptr[first] = total
                rowptr[first + 1 : first + len(count) + 1] = total + np.cumsum(count)
            col.astype(kind).tofile(file)
            total += len(col)
    rowptr[-1] = total
    folder.rmdir()
    array = writer.array("col", (total,), kind)  # the number of sources is known only now
    with plain.open("rb") as file:
        for first in range(0, total, CHUNK):
            part: Array = np.fromfile(file, kind, min(CHUNK, total - first))
            array[first : first + len(part)] = part
    plain.unlink()
    return total


def _draw(
    folder: Path, nodes: int, edges: int, directed: bool, seed: int, width: int, kind: type
) -> None:
    r"""Writes pairs of source and target to files, one file for each range of targets."""
    wanted = edges if directed else (edges + 1) // 2
    step = CHUNK // 2
    for chunk in range(0, wanted, step):
        rng = np.random.default_rng([seed, 1, chunk])
        size = min(step, wanted - chunk)
        ends = _renumbered(_ranks(rng.random((2, size)), nodes), nodes, seed)
        ends = ends[:, ends[0] != ends[1]]
        source, target = ends if directed else np.concatenate([ends, ends[::-1]], axis=1)
        owner = target // width
        order = np.argsort(owner, kind="stable")
        bounds = np.searchsorted(owner[order], np.arange(math.ceil(nodes / width) + 1))
        pairs: Array = np.stack([source[order], target[order]], axis=1).astype(kind)
        for bucket, (first, last) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
            if last > first:
                with (folder / str(bucket)).open("ab") as file:
                    pairs[first:last].tofile(file)


def _sorted_bucket(path: Path, first: int, rows: int, kind: type) -> tuple[Array, Array]:
    r"""The number of edges of each row of a bucket, and their sources without repeats."""
    if not path.exists():
        return np.zeros(rows, np.int64), np.empty(0, np.int64)
    pairs: Array = np.fromfile(path, kind).reshape(-1, 2).astype(np.int64)
    path.unlink()
    stride = int(pairs[:, 0].max()) + 1
    codes = np.unique((pairs[:, 1] - first) * stride + pairs[:, 0])
    row, col = np.divmod(codes, stride)
    return np.bincount(row, minlength=rows), col


def _write_nodes(writer: FolderWriter, nodes: int, channels: int, seed: int) -> None:
    x = writer.array("x", (nodes, channels), np.float32)
    y = writer.array("y", (nodes,), np.int64)
    weights = np.random.default_rng([seed, 2]).normal(size=(channels, CLASSES)).astype(np.float32)
    step = max(1, CHUNK * 8 // channels)
    roles: dict[str, list[Array]] = {role: [] for role in ROLES}
    for first in range(0, nodes, step):
        rng = np.random.default_rng([seed, 3, first])
        size = min(step, nodes - first)
        rows = rng.standard_normal((size, channels), np.float32)
        x[first : first + size] = rows
        noise = rng.standard_normal((size, CLASSES), np.float32)
        y[first : first + size] = (rows @ weights + noise).argmax(axis=1)
        drawn, lower = rng.random(size), 0.0
        for role, share in SHARES.items():
            inside = (drawn >= lower) & (drawn < lower + share)
            roles[role].append(first + np.flatnonzero(inside))
            lower += share
    for role, found in roles.items():
        writer.save(role, np.concatenate(found))


def _ranks(uniform: Array, nodes: int) -> Array:
    r"""Ranks whose density falls as a power, by the inverse of its integral."""
    power = 1 - 1 / (DEGREE_EXPONENT - 1)
    low, high = FIRST_RANK**power, (nodes + FIRST_RANK) ** power
    found = (low + uniform * (high - low)) ** (1 / power) - FIRST_RANK
    ranks: Array = np.minimum(found.astype(np.int64), nodes - 1)
    return ranks


def _renumbered(ranks: Array, nodes: int, seed: int) -> Array:
    r"""A permutation of all nodes that takes no memory."""
    rng = np.random.default_rng([seed, 4])
    # Factors up to 2**31 keep the product in 64 bits for as many nodes.
    factor = int(rng.integers(nodes // 3 + 1, nodes + 1)) if nodes < 2**31 else 2_147_483_647
    while math.gcd(factor, nodes) != 1:
        factor += 1
    return (ranks * factor + int(rng.integers(nodes))) % nodes
