r"""What is to be computed: the aggregator and the form it is written in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

Kind = Literal["lp", "polynomial", "softmax"]
Form = Literal["weighted", "sum", "paper"]
Shift = Literal["consistent", "paper"]
Sign = Literal["shift", "abs"]

LOWER_BOUND: dict[str, float] = {"lp": 1.0, "polynomial": 0.0, "softmax": 0.0}
PARAMETER: dict[str, str] = {"lp": "p", "polynomial": "alpha", "softmax": "gamma"}


@dataclass(frozen=True)
class AggregationSpec:
    r"""One aggregator in one of its forms, as the kernels see it.

    The sign convention is not part of it: :obj:`sign="abs"` is :math:`\mu = 0` on :math:`|z|`.

    Args:
        kind (str): :obj:`"lp"`, :obj:`"polynomial"` or :obj:`"softmax"`.
        form (str, optional): What the tilted mean is divided by. :obj:`"weighted"`: the
            tilted weights; :obj:`"sum"`: the same, times :math:`A_v`; :obj:`"paper"`: as printed,
            which leaves the weight out of the softmax's denominator. No effect on Lp.
            (default: :obj:`"weighted"`)
        shift (str, optional): What Lp adds back: :math:`\mu A_v^{1/p}` (:obj:`"consistent"`) or
            :math:`\mu` (:obj:`"paper"`). No effect on the others. (default: :obj:`"consistent"`)
    """

    kind: Kind
    form: Form = "weighted"
    shift: Shift = "consistent"

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, get_args(Kind))
        check_choice("form", self.form, get_args(Form))
        check_choice("shift", self.shift, get_args(Shift))

    @cached_property
    def unit_denominator(self) -> bool:
        r"""Whether the denominator leaves the edge weights out (Eq. 15 as printed)."""
        return self.kind == "softmax" and self.form == "paper"

    @cached_property
    def times_weight(self) -> bool:
        r"""Whether the tilted mean is multiplied by :math:`A_v`."""
        return self.kind != "lp" and self.form == "sum"

    @cached_property
    def has_mu(self) -> bool:
        r"""Whether the features are measured from :math:`\mu`."""
        return self.kind != "softmax"


def check_choice(name: str, got: object, allowed: tuple[str, ...]) -> None:
    r"""Raises a :class:`ValueError` that lists the allowed values unless :obj:`got` is one."""
    if got not in allowed:
        listed = ", ".join(repr(value) for value in allowed)
        raise ValueError(f"'{name}' must be one of {listed} (got {got!r})")


@dataclass(frozen=True)
class Precision:
    r"""Limits of the fast path; beyond them a row is recomputed with its own maximum."""

    least_share: float  # the share of its weight below which a row's tilted sum has lost terms
    # The smallest tilt of a feature above mu. It lies so far below least_share that it does not
    # count, and above underflow, so that a sum of exactly zero means that every neighbour sits at
    # mu
    floor: float
    smallest_weight: float  # rows with positive weights below this need the exact path
    largest_weight: float  # so do rows with weights above this
    # Positive weights below this, or any above largest_weight where this is not 0, need a wider
    # dtype
    least_weight: float
    largest: float  # the largest finite number, at which gradients saturate
    # The polynomial's mean of a row may be this many times as far from what its channel is centred
    # on as from the origin; beyond, differences of features have lost too many digits
    farthest: float


FLOAT32 = Precision(1e-13, 1e-20, 1e-15, 1e15, 1e-30, 3.4028234e38, 100.0)
FLOAT64 = Precision(1e-100, 1e-120, 1e-120, 1e120, 0.0, 1.7e308, 1000.0)


def precision_of(values: Any) -> Precision:
    r"""The limits of a float32 or float64 tensor or array."""
    return FLOAT32 if values.itemsize == 4 else FLOAT64
