"""A result of the bench at the smallest sizes, measured once for all tests of a process."""

import copy
from functools import lru_cache

import numpy as np
import scipy.sparse

from meanmax.study.bench import BenchSettings
from meanmax.study.bench.aggregators import run_bench

SMALL = BenchSettings(
    nodes=60, edges=400, channels=4, repeats=2, budget=1.0, threads=2, measure_memory=False
)


@lru_cache
def small_result():
    return run_bench(SMALL)


def full_result():
    """Everything a result may hold: a sweep, a cold start and a competitor that failed."""
    result = copy.deepcopy(small_result())
    graph = result["graphs"][0]
    failed = graph["results"][0]
    failed |= {"error": "RuntimeError: broken", "median_ms": None, "ratio_to_floor": None}
    result["sweep"] = {"edges": [graph], "channels": [graph]}
    first = {"lp-numba": 1.5, "exact-numba": 0.25}
    run = {"first_call_seconds": first, "three_aggregators_seconds": 1.5}
    labels = {"lp-numba": "lp p=2 (numba)", "exact-numba": "softmax exact"}
    result["cold"] = {"error": None, "labels": labels, "compile": run, "cached": run}
    return result


def write_amazon(folder, **changes):
    """A directed graph 0 → 1 → 2 with a self-loop at 2, and node 3 alone, as gnn-benchmark has."""
    matrix = scipy.sparse.csr_array(
        np.array([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0]], dtype=np.float32)
    )
    arrays = {
        "adj_data": matrix.data,
        "adj_indices": matrix.indices,
        "adj_indptr": matrix.indptr,
        "adj_shape": np.array(matrix.shape),
        "class_names": np.array(["a", None], dtype=object),  # pickled, and never read
    }
    path = folder / "amazon_electronics_computers.npz"
    np.savez(path, **{key: value for key, value in (arrays | changes).items() if value is not None})
    return path
