r"""Graphs of any size: a stochastic block model with features."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from meanmax.data.benchmarks.options import check_bounds, read_options
from meanmax.data.dataset import Dataset
from meanmax.data.matrices import distinct

_CHUNK = 1 << 22
_MOST_EDGES = 100_000_000


def sbm(
    nodes: int = 1000,
    edges: int = 10_000,
    *,
    classes: int = 4,
    features: int = 16,
    homophily: float = 0.8,
    signal: float = 1.0,
    seed: int = 0,
) -> Dataset:
    r"""Draws a stochastic block model. Blocks are classes of nearly equal size, nodes are in random
    order. One end of an edge is drawn uniformly; the other is in the same block with
    probability :obj:`homophily`, and in any other block otherwise. Features of class :math:`c` are
    :math:`\mathcal{N}(s\,m_c, I)` with a random unit vector :math:`m_c`.

    The number of edges is exact: repeated pairs and self-loops are drawn again. Peak memory is
    about 75 bytes per edge, of which the result keeps 32.

    Args:
        nodes (int): The number of nodes. (default: 1000)
        edges (int): The number of undirected edges, at most 10⁸. (default: 10,000)
        classes (int): The number of blocks. (default: 4)
        features (int): The number of features. (default: 16)
        homophily (float): The expected share of edges within blocks. (default: 0.8)
        signal (float): The length :math:`s` of a class's mean. (default: 1)
        seed (int): The seed. (default: 0)
    """
    bounds = {
        "classes": (classes, 2, 10_000),
        "nodes": (nodes, 3 * classes, 2**31 - 1),
        "edges": (edges, 0, min(_MOST_EDGES, nodes * (nodes - 1) // (4 * classes))),
        "features": (features, 1, 100_000),
        "homophily": (homophily, 0.0, 1.0),
        "signal": (signal, 0.0, 1e6),
        "seed": (seed, 0, 2**63),
    }
    check_bounds("sbm", bounds, edges="more would leave blocks nearly complete")
    random = np.random.default_rng(seed)
    label = random.permutation(np.arange(nodes) % classes)
    keys = _draw_edges(random, label, classes, edges, homophily)
    return Dataset(
        f"sbm:nodes={nodes},edges={edges},classes={classes},features={features},"
        f"homophily={homophily:g},signal={signal:g},seed={seed}",
        torch.from_numpy(_draw_features(random, label, classes, features, signal)),
        torch.from_numpy(label),
        _both_ways(keys, nodes),
        class_names=tuple(f"block {number}" for number in range(classes)),
        notes=("Drawn by meanmax.data.benchmarks.sbm.",),
    )


def sbm_from_options(options: str) -> Dataset:
    r"""Draws a graph from text such as :obj:`nodes=1000,edges=10000,seed=1`."""
    whole = dict.fromkeys(("nodes", "edges", "classes", "features", "seed"), int)
    return sbm(**read_options("sbm", options, {**whole, "homophily": float, "signal": float}))


def _draw_edges(
    random: np.random.Generator, label: np.ndarray, classes: int, edges: int, homophily: float
) -> np.ndarray:
    """Sorted keys low · nodes + high of as many distinct pairs as requested."""
    members = np.argsort(label, kind="stable")
    start = np.searchsorted(label[members], np.arange(classes + 1))

    def draw_keys(size: int) -> Any:
        first = random.integers(label.size, size=size)
        block = label[first]
        other = random.integers(classes - 1, size=size)
        other += other >= block  # any block but the own one
        block = np.where(random.random(size) < homophily, block, other)
        second = members[random.integers(start[block], start[block + 1])]
        low, high = np.minimum(first, second), np.maximum(first, second)
        return (low * label.size + high)[low != high]

    keys = np.empty(0, np.int64)
    while keys.size < edges:
        missing = edges - keys.size
        sizes = [min(_CHUNK, missing - done) for done in range(0, missing, _CHUNK)]
        keys = distinct(np.concatenate([keys, *map(draw_keys, sizes)]))
    return keys


def _both_ways(keys: np.ndarray, nodes: int) -> Tensor:
    """Sorted by target and then source, without sorting again."""
    low, high = (keys // nodes).astype(np.int32), (keys % nodes).astype(np.int32)
    ones = np.ones(keys.size, np.int8)
    half = scipy.sparse.coo_array((ones, (low, high)), (nodes, nodes)).tocsr()
    del low, high, ones
    full = (half + half.T.tocsr()).tocsr()
    edge_index = torch.empty(2, full.nnz, dtype=torch.int64)
    edge_index[0] = torch.from_numpy(full.indices)
    edge_index[1] = torch.from_numpy(np.arange(nodes).repeat(np.diff(full.indptr)))
    return edge_index


def _draw_features(
    random: np.random.Generator, label: np.ndarray, classes: int, features: int, signal: float
) -> np.ndarray:
    mean = random.standard_normal((classes, features))
    mean *= signal / np.linalg.norm(mean, axis=1, keepdims=True)
    x = random.standard_normal((label.size, features), dtype=np.float32)
    for first in range(0, label.size, _CHUNK // features + 1):
        rows = slice(first, first + _CHUNK // features + 1)
        x[rows] += mean[label[rows]].astype(np.float32)
    return x
