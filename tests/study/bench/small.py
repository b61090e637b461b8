"""A result of the bench at the smallest sizes, measured once for all tests of a process."""

from functools import lru_cache

import numpy as np
import scipy.sparse

from meanmax.study.bench import Settings, run_bench

SMALL = Settings(
    nodes=60, edges=400, channels=4, repeats=2, budget=1.0, threads=2, measure_memory=False
)


@lru_cache
def small_result():
    return run_bench(SMALL)


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
