r"""Comparing two methods that were run on the same splits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

EXACT = 13
r"""Up to this number of differing splits all signs are enumerated, :math:`2^{13}` at most."""

FEW = 5
r"""Figures leave out intervals from fewer splits, which are little more than the range."""


@dataclass(frozen=True)
class Paired:
    r"""A method minus its baseline, split by split, in the unit of the scores."""

    n: int  # splits that both were run on
    difference: float  # the mean; positive where the method is better
    low: float  # the ends of the bootstrap interval of the mean difference
    high: float
    p: float  # two-sided, of Wilcoxon's signed-rank test
    wins: int  # splits on which the method is better
    ties: int
    losses: int
    confidence: float = 0.95  # of the interval


def paired(
    ours: Sequence[float], baseline: Sequence[float], *, confidence: float = 0.95, seed: int = 0
) -> Paired:
    r"""Compares the scores of two methods on the same splits, in the same order.

    The interval is the bias-corrected and accelerated bootstrap (BCa) of the mean difference, drawn
    with :obj:`seed`. It is not adjusted for the number of comparisons, and from few splits it tends
    to be too narrow. Fewer than two splits have no interval and no p-value (NaN). Where all
    differences are equal, the interval is that value; where all are 0, the test has nothing to rank
    and p is NaN.

    The test leaves out splits without a difference, as Wilcoxon did, and gives equal differences
    equal ranks. It is exact up to 13 differing splits, and up to 50 without equal differences;
    beyond that it is the normal approximation.

    Example:
        >>> paired([82.0, 81.5, 83.0, 80.5], [81.0, 81.5, 81.0, 81.0])
        Paired(n=4, difference=0.625, low=-0.25, high=1.5, p=0.5, wins=2, ties=1, losses=1,
            confidence=0.95)
    """
    if not 0 < confidence < 1:
        raise ValueError(f"'confidence' must be between 0 and 1 (got {confidence!r})")
    differences = _differences(ours, baseline)
    n = differences.size
    low, high = _interval(differences, confidence, seed)
    return Paired(
        n=n,
        difference=float(differences.mean()) if n else math.nan,
        low=low,
        high=high,
        p=_wilcoxon(differences),
        wins=int((differences > 0).sum()),
        ties=int((differences == 0).sum()),
        losses=int((differences < 0).sum()),
        confidence=confidence,
    )


def holm(p_values: Sequence[float]) -> list[float]:
    r"""Holm's step-down adjustment. With the p-values in rising order,

    .. math::
        \tilde p_{(i)} = \max_{j \le i} \min(1, (m - j + 1) \, p_{(j)}).

    NaN stays NaN and is not counted in :math:`m`.

    Example:
        >>> holm([0.04, 0.01, float("nan"), 0.03])
        [0.06, 0.03, nan, 0.06]
    """
    wrong = [p for p in p_values if not (math.isnan(p) or 0 <= p <= 1)]
    if wrong:
        raise ValueError(f"p-values must be between 0 and 1, or be NaN (got {wrong[0]!r})")
    known = (i for i, p in enumerate(p_values) if not math.isnan(p))
    order = sorted(known, key=p_values.__getitem__)
    adjusted, highest = [math.nan] * len(p_values), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p_values[i]))
        adjusted[i] = highest
    return adjusted


def smallest_p(n: int) -> float:
    r"""The smallest two-sided p of the exact test of :obj:`n` differing splits; NaN for none."""
    return 2.0 ** (1 - n) if n > 0 else math.nan


def reachable(family: Sequence[Paired]) -> list[float]:
    r"""The smallest Holm-adjusted p-value that each comparison could reach, if all its differences
    had one sign; NaN without any difference.

    Example:
        >>> reachable([paired([2.0, 3.0, 4.0], [1.0, 1.0, 1.0])] * 2)
        [0.5, 0.5]
    """
    differing = [0 if math.isnan(pair.p) else pair.n - pair.ties for pair in family]
    return holm([smallest_p(n) for n in differing])


def _differences(ours: Sequence[float], baseline: Sequence[float]) -> np.ndarray:
    left, right = np.asarray(ours, np.float64), np.asarray(baseline, np.float64)
    if left.ndim != 1 or left.shape != right.shape:
        raise ValueError(
            f"'ours' and 'baseline' must hold one score for each split, of the same splits "
            f"(got shapes {left.shape} and {right.shape})"
        )
    if not (np.isfinite(left).all() and np.isfinite(right).all()):
        raise ValueError(
            "scores must be finite (got NaN or infinity): leave out the splits on which a run "
            "failed, from both sequences"
        )
    largest = max(np.abs(left).max(initial=0), np.abs(right).max(initial=0))
    # 82.3 - 82.2 and 80.3 - 80.2 differ in the last bits, which would break ties between ranks.
    decimals = 12 - math.ceil(math.log10(largest)) if largest > 0 else 0
    differences: np.ndarray = np.round(left - right, decimals)
    return differences


def _interval(differences: np.ndarray, confidence: float, seed: int) -> tuple[float, float]:
    if differences.size < 2:
        return math.nan, math.nan
    if np.ptp(differences) == 0:
        return float(differences[0]), float(differences[0])
    from scipy.stats import bootstrap  # a second to import

    low, high = bootstrap(
        (differences,),
        np.mean,
        confidence_level=confidence,
        method="BCa",
        random_state=np.random.default_rng(seed),  # scipy before 1.15 has no 'rng'
    ).confidence_interval
    return float(low), float(high)


def _wilcoxon(differences: np.ndarray) -> float:
    differing = differences[differences != 0]
    if differences.size < 2 or differing.size == 0:
        return math.nan
    from scipy.stats import permutation_test, rankdata, wilcoxon

    if not 2 <= differing.size <= EXACT:
        return float(wilcoxon(differing).pvalue)
    # scipy.stats.wilcoxon does the same with one Python call for each of the 2^n signs, and before
    # scipy 1.13 it is not exact with ties.
    ranks = np.sign(differing) * rankdata(np.abs(differing))
    test = permutation_test(
        (ranks,), np.sum, permutation_type="samples", n_resamples=2**EXACT, vectorized=True
    )
    return float(test.pvalue)
