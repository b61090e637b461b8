import math

import numpy as np
import pytest
import scipy.stats

from meanmax.study.stats.paired import holm, paired, smallest_p

NAN = math.nan


def against_zero(differences, **options):
    return paired(differences, [0.0] * len(differences), **options)


def test_counts_and_mean():
    found = paired([82.0, 81.5, 83.0, 80.5], [81.0, 81.5, 81.0, 81.0])
    assert (found.n, found.wins, found.ties, found.losses) == (4, 2, 1, 1)
    assert found.difference == 0.625
    assert found.confidence == 0.95


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([1.0, 2.0, 3.0, 4.0, -5.0], 20 / 32),  # 10 of 32 subsets of 1..5 sum to 5 or less
        ([1.0, 1.0, -1.0, 2.0], 8 / 16),  # ranks 2, 2, 2, 4: the empty subset and three of one
        ([1.0, 1.0, -1.0, 2.0, 0.0, 0.0], 8 / 16),  # splits without a difference are left out
        ([0.5, 0.0], 1.0),
        ([0.3] * 10, 2 / 1024),
        ([-0.3] * 5, 2 / 32),
    ],
)
def test_wilcoxon_by_hand(differences, p):
    assert math.isclose(against_zero(differences).p, p)


@pytest.mark.parametrize("n", [4, 6, 10, 12, 20, 30, 60])
@pytest.mark.parametrize("decimals", [0, 6])
def test_wilcoxon_is_scipys(n, decimals):
    differences = np.round(np.random.default_rng(n).normal(0.6, 2.0, n), decimals)
    differences = differences[differences != 0]
    expected = scipy.stats.wilcoxon(differences).pvalue
    assert math.isclose(against_zero(differences).p, expected, rel_tol=1e-9)


def test_noise_in_the_last_bits_breaks_no_tie():
    ours, baseline = [82.3, 80.3, 0.4, 79.9], [82.2, 80.2, 0.3, 80.0]
    assert len({abs(a - b) for a, b in zip(ours, baseline, strict=True)}) > 1
    found = paired(ours, baseline)
    assert found.p == against_zero([0.1, 0.1, 0.1, -0.1]).p == 10 / 16
    assert paired(ours[:3], baseline[:3]).low == 0.1


def test_interval_is_scipys_bca():
    differences = np.random.default_rng(1).exponential(1.0, 10).round(3) - 0.5
    for confidence, seed in ((0.95, 0), (0.8, 7)):
        found = against_zero(differences, confidence=confidence, seed=seed)
        rng = np.random.default_rng(seed)
        low, high = scipy.stats.bootstrap(
            (differences,), np.mean, confidence_level=confidence, random_state=rng
        ).confidence_interval
        assert (found.low, found.high) == pytest.approx((low, high), abs=1e-9)
        assert found.low < differences.mean() < found.high


def test_interval_repeats_and_mirrors():
    differences = [0.4, -0.2, 1.1, 0.3, 0.9, -0.5, 0.7]
    found = against_zero(differences)
    assert found == against_zero(differences)
    mirrored = against_zero([-value for value in differences])
    assert mirrored.difference == -found.difference
    assert (mirrored.wins, mirrored.losses, mirrored.p) == (found.losses, found.wins, found.p)
    assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, -found.low), abs=0.05)


def test_interval_covers_about_as_often_as_it_says():
    rng = np.random.default_rng(3)
    found = [against_zero(rng.normal(1.0, 1.0, 20)) for _ in range(150)]
    assert 0.86 < np.mean([one.low <= 1.0 <= one.high for one in found]) < 0.99


@pytest.mark.parametrize(
    ("differences", "interval", "p"),
    [
        ([], (NAN, NAN), NAN),
        ([0.5], (NAN, NAN), NAN),
        ([0.5, 0.5], (0.5, 0.5), 0.5),
        ([0.0, 0.0, 0.0], (0.0, 0.0), NAN),
        ([1.0, 2.0], (1.0, 2.0), 0.5),
    ],
)
def test_little_or_nothing_to_go_by(differences, interval, p):
    found = against_zero(differences)
    assert found.n == len(differences)
    assert (found.low, found.high, found.p) == pytest.approx((*interval, p), nan_ok=True)
    assert math.isnan(found.difference) == (not differences)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0], [1.0]), r"same splits \(got shapes \(2,\) and \(1,\)\)"),
        (([[1.0]], [[1.0]]), "one score for each split"),
        (([1.0, NAN], [1.0, 2.0]), "must be finite .* leave out the splits"),
    ],
)
def test_wrong_scores(arguments, message):
    with pytest.raises(ValueError, match=message):
        paired(*arguments)


@pytest.mark.parametrize("confidence", [0, 1, 95])
def test_wrong_confidence(confidence):
    with pytest.raises(ValueError, match=r"between 0 and 1 \(got "):
        paired([1.0, 2.0], [0.0, 0.0], confidence=confidence)


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        ([], []),
        ([0.03], [0.03]),
        ([0.01, 0.02, 0.03], [0.03, 0.04, 0.04]),
        ([0.03, 0.01, 0.04], [0.06, 0.03, 0.06]),
        ([0.4, 0.5, 0.6], [1.0, 1.0, 1.0]),
        ([0.02, 0.02], [0.04, 0.04]),
        ([NAN, 0.01, NAN, 0.5], [NAN, 0.02, NAN, 0.5]),
        ([NAN], [NAN]),
    ],
)
def test_holm(p_values, adjusted):
    assert holm(p_values) == pytest.approx(adjusted, nan_ok=True)


def test_holm_refuses_what_is_no_p_value():
    with pytest.raises(ValueError, match=r"between 0 and 1, or be NaN \(got 1.5\)"):
        holm([0.1, 1.5])


@pytest.mark.parametrize("n", [1, 2, 5, 6, 10])
def test_smallest_p_is_reached(n):
    values = np.arange(1.0, n + 1)
    assert smallest_p(n) == scipy.stats.wilcoxon(values).pvalue
    assert smallest_p(5) == 0.0625 and math.isnan(smallest_p(0))
