r"""Curves of several runs as one line with a band."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

NOTE = (
    "At each epoch the runs that are still training count, up to where half of them have stopped."
)


class Band(NamedTuple):
    r"""The quartiles over runs, each :obj:`[epochs]`."""

    epoch: np.ndarray
    low: np.ndarray
    middle: np.ndarray
    high: np.ndarray


def band(curves: Sequence[np.ndarray]) -> Band:
    r"""The median and the other quartiles of curves at each epoch, counted from 1.

    Runs stop at different epochs, and what the last few do is not to be compared with what all
    did: the band ends where fewer than half of them are left.

    Example:
        >>> band([np.array([1.0, 2.0]), np.array([3.0])]).middle
        array([2., 2.])

    Args:
        curves (sequence): One array for each run; values that are not finite do not count.
    """
    table = stacked(curves)
    there = np.isfinite(table).sum(axis=0)
    enough = 2 * there >= max(1, len(curves))
    enough &= there > 0
    table = table[:, enough]
    low, middle, high = np.nanquantile(table, (0.25, 0.5, 0.75), axis=0)
    return Band(np.flatnonzero(enough) + 1, low, middle, high)


def stacked(curves: Sequence[np.ndarray]) -> np.ndarray:
    r"""Curves as rows of one array, with NaN after their ends and for what is not finite."""
    longest = max((len(curve) for curve in curves), default=0)
    table = np.full((len(curves), longest), np.nan)
    for row, curve in zip(table, curves, strict=True):
        row[: len(curve)] = np.where(np.isfinite(curve), curve, np.nan)
    return table
