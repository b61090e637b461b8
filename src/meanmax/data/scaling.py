r"""Features brought to one scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse


def normalise_rows(matrix: Any) -> Any:
    r"""Divides each row by its sum; a row of zeros stays."""
    rows = scipy.sparse.csr_array(matrix, dtype=np.float64)
    total = np.asarray(rows.sum(axis=1)).ravel()
    scale = np.divide(1.0, total, out=np.zeros_like(total), where=total != 0)
    return scipy.sparse.csr_array(scipy.sparse.diags_array(scale) @ rows)


def standardise(features: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
    r"""Subtracts means and divides by standard deviations, both taken over :obj:`rows`; a constant
    feature is only centred.

    Args:
        features (ndarray): :obj:`[num_nodes, num_features]`.
        rows (ndarray, optional): Which nodes count. (default: all)

    Returns:
        float32, of the same shape.
    """
    values = features.astype(np.float64)
    known = values if rows is None else values[rows]
    spread = known.std(axis=0)
    scaled: np.ndarray = (values - known.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return scaled.astype(np.float32)
