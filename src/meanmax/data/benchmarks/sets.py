r"""A task with a known answer: the aggregate of each node's neighbours, which a model must find."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from meanmax.data.benchmarks.options import check_bounds, read_options
from meanmax.data.dataset import Dataset
from meanmax.data.files import DataError
from meanmax.data.matrices import canonical_edges, distinct

P, ALPHA, GAMMA, K = 3, 2, 1.5, 2

TRUTH = {
    "lp": f"LpAggregation(p={P}, sign='abs')",
    "poly": f"PolynomialAggregation(alpha={ALPHA})",
    "softmax": f"SoftmaxAggregation(gamma={GAMMA})",
    "min": "the limit of a signed parameter towards minus infinity",
    "max": "the limit of a parameter towards infinity",
    "logsumexp": "no aggregator of meanmax",
    "kth": "no aggregator of meanmax",
}
r"""The targets, and which aggregator is each of them."""


def sets(target: str = "max", nodes: int = 2000, degree: int = 7, *, seed: int = 0) -> Dataset:
    r"""Draws a directed graph with one feature :math:`x_u \sim \mathcal{N}(0, 1)` per node. The
    number of in-neighbours is uniform on :math:`2, \dots, 2 d - 2` with the mean :math:`d`; they
    are distinct, and never the node itself. What is to be predicted is their aggregate, without
    noise and without the feature of the node itself:

    - :obj:`lp`: :math:`(\sum_u |x_u|^3)^{1/3}`, which is ``LpAggregation(p=3, sign="abs")``;
    - :obj:`poly`: :math:`\sum_u y_u^3 / \sum_u y_u^2 + \mu` with :math:`y_u = x_u - \mu`, where
      :math:`\mu` is the minimum of all features: ``PolynomialAggregation(alpha=2)``;
    - :obj:`softmax`: :math:`\sum_u e^{1.5 x_u} x_u / \sum_u e^{1.5 x_u}`:
      ``SoftmaxAggregation(gamma=1.5)``;
    - :obj:`min` and :obj:`max`: the ends of the paths of all aggregators, :obj:`min` with
      ``signed=True`` only;
    - :obj:`logsumexp`: :math:`\log \sum_u e^{x_u}`, and :obj:`kth`: the second largest, which no
      aggregator is.

    Args:
        target (str): One of the above. (default: :obj:`"max"`)
        nodes (int): The number of nodes. (default: 2000)
        degree (int): The mean number :math:`d` of in-neighbours. (default: 7)
        seed (int): The seed. (default: 0)
    """
    if target not in TRUTH:
        raise DataError(f"'target' of 'sets' must be one of {', '.join(TRUTH)} (got {target!r})")
    bounds = {
        "degree": (degree, 2, 10_000),
        "nodes": (nodes, max(20, 4 * degree), 10_000_000),
        "seed": (seed, 0, 2**63),
    }
    check_bounds("sets", bounds, nodes="neighbours are distinct")
    random = np.random.default_rng(seed)
    size = random.integers(2, 2 * degree - 1, size=nodes)
    source, row = _draw_neighbours(random, size)
    x = random.standard_normal(nodes).astype(np.float32)
    edge_index, _ = canonical_edges(source, row, nodes, directed=True)
    return Dataset(
        f"sets:target={target},nodes={nodes},degree={degree},seed={seed}",
        torch.from_numpy(x[:, None]),
        torch.from_numpy(_aggregate(target, x, edge_index.numpy()).astype(np.float32)),
        edge_index,
        notes=(
            "Drawn by meanmax.data.benchmarks.sets; edges are directed.",
            f"The target is known exactly: {TRUTH[target]}.",
        ),
    )


def sets_from_options(options: str) -> Dataset:
    r"""Draws a task from text such as :obj:`target=lp,nodes=1000,seed=1`."""
    types = {"target": str, "nodes": int, "degree": int, "seed": int}
    return sets(**read_options("sets", options, types))


def _draw_neighbours(random: np.random.Generator, size: np.ndarray) -> tuple[np.ndarray, ...]:
    """As many distinct neighbours of each node as its size, other than the node itself."""
    nodes = size.size
    keys = np.empty(0, np.int64)
    missing = size
    while missing.any():
        row = np.arange(nodes).repeat(missing)
        source = random.integers(nodes - 1, size=row.size)
        source += source >= row
        keys = distinct(np.concatenate([keys, row * nodes + source]))
        missing = size - np.bincount(keys // nodes, minlength=nodes)
    return keys % nodes, keys // nodes


def _aggregate(target: str, x: np.ndarray, edge_index: np.ndarray) -> np.ndarray:
    """In float64, from the features as they are stored. No node is without neighbours."""
    source, row = edge_index
    value = x.astype(np.float64)
    order = np.lexsort((value[source], row))
    z, start = value[source[order]], np.flatnonzero(np.diff(row, prepend=-1))
    end = np.append(start[1:], row.size)

    def total(terms: np.ndarray) -> np.ndarray:
        return np.add.reduceat(terms, start)

    low, high = value.min(), z[end - 1]
    y, raised = z - low, z - high.repeat(end - start)  # the latter is at most 0
    weight = np.exp(GAMMA * raised)
    formulas: dict[str, Callable[[], np.ndarray]] = {
        "lp": lambda: total(np.abs(z) ** P) ** (1 / P),
        "poly": lambda: total(y ** (ALPHA + 1)) / total(y**ALPHA) + low,
        "softmax": lambda: total(weight * z) / total(weight),
        "min": lambda: z[start],
        "max": lambda: high,
        "logsumexp": lambda: np.log(total(np.exp(raised))) + high,
        "kth": lambda: z[end - K],
    }
    return formulas[target]()
