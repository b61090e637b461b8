r"""The graphs that the aggregators are timed on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from meanmax.data.benchmarks.amazon import read_matrix
from meanmax.data.files import DataError
from meanmax.data.matrices import undirected
from meanmax.graph import Graph

AMAZON_FILE = "amazon_electronics_computers.npz"
DEGREE_EXPONENT = 2.5
FIRST_RANK = 10  # bounds the largest degree, at the default sizes to about 1,250
MAX_DENSITY = 0.25


class GraphError(ValueError):
    r"""A graph that cannot be generated or read; the message says what to do."""


@dataclass(frozen=True)
class GraphSource:
    r"""Where a graph comes from, in plain values that another process can rebuild it from.

    Args:
        name (str): What tables call it.
        num_nodes (int, optional): The number of nodes to generate. (default: :obj:`0`)
        num_edges (int, optional): The number of edges to generate, self-loops and both directions
            counted. (default: :obj:`0`)
        seed (int, optional): The seed to generate it with. (default: :obj:`0`)
        path (str, optional): The file to read instead. (default: :obj:`None`)
    """

    name: str
    num_nodes: int = 0
    num_edges: int = 0
    seed: int = 0
    path: str | None = None

    def load(self) -> Graph:
        r"""Generates or reads the graph, with self-loops and symmetric normalisation."""
        if self.path is not None:
            return read_amazon_graph(Path(self.path))
        return power_law_graph(self.num_nodes, self.num_edges, self.seed)


def power_law_graph(num_nodes: int, num_edges: int, seed: int = 0) -> Graph:
    r"""An undirected graph without multiple edges whose degrees follow a power law.

    Both ends of an edge are drawn with probability proportional to
    :math:`(i + 10)^{-1/(2.5 - 1)}`, as of Chung and Lu, then nodes are renumbered at random. Every
    node has a self-loop. One edge less than asked for comes out where an odd one is left.

    Args:
        num_nodes (int): The number of nodes.
        num_edges (int): The number of edges, self-loops and both directions counted.
        seed (int, optional): The seed. (default: :obj:`0`)

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
    r"""Reads the whole graph of a file of gnn-benchmark, made undirected and unweighted.

    Args:
        path (Path): The :obj:`.npz` file.
    """
    try:
        links = read_matrix(path.read_bytes(), "adj", path.name).tocoo()
        if links.shape[0] != links.shape[1]:
            raise DataError(f"its adjacency matrix must be square (got {list(links.shape)})")
        edge_index = undirected(links.row, links.col, links.shape[0])
    except (OSError, DataError) as error:
        raise GraphError(
            f"{path} is not a graph in gnn-benchmark's .npz format ({error}); download it again or "
            "point --data-dir elsewhere"
        ) from error
    return Graph.from_edge_index(edge_index, links.shape[0], normalize="sym", self_loops=True)


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
