r"""Where the common shift of a channel stops being exact, per dtype."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Precision:
    r"""Limits of the fast path; beyond them a row is recomputed with its own maximum.

    Args:
        lost (float): The share of its weight below which a row's tilted sum has lost terms.
        floor (float): The smallest tilt of a feature above :math:`\mu`. It lies so far below
            :obj:`lost` that it does not count, and above underflow, so that a sum of exactly
            zero means that every neighbour sits at :math:`\mu`.
        smallest_weight (float): Positive weights below this make a row delicate.
        largest_weight (float): So do weights above this.
        least_weight (float): Positive weights below this, or any above :obj:`largest_weight`
            where this is not 0, need a wider dtype.
        largest (float): The largest finite number, at which gradients saturate.
    """

    lost: float
    floor: float
    smallest_weight: float
    largest_weight: float
    least_weight: float
    largest: float


_BY_NAME = {
    "float32": Precision(1e-13, 1e-20, 1e-15, 1e15, 1e-30, 3.4028234e38),
    "float64": Precision(1e-100, 1e-120, 1e-120, 1e120, 0.0, 1.7e308),
}


def precision_of(dtype_name: str) -> Precision:
    r"""The limits of :obj:`"float32"` or :obj:`"float64"`."""
    return _BY_NAME[dtype_name]
