import math
from dataclasses import replace

import pytest

from meanmax.study.stats import paired as paired_module
from meanmax.study.stats.cells import Selected
from meanmax.study.stats.comparison import (
    CAVEAT,
    ONE_SPLIT,
    Comparison,
    Line,
    compare,
    findings,
    reference_rows,
)
from meanmax.study.stats.paired import Paired, holm, paired, reachable
from tests.study.rows import row as run

NAN = math.nan
NONE = Line("none", mean=82.6, std=1.1)


def row(name, low, difference, high, adjusted_p, *, n=10, ties=0, failed=0, p=0.01):
    pair = Paired(n, difference, low, high, p, n - ties, ties, 0)
    return line(name, 82.6 + difference, 1.0, pair, adjusted_p, failed)


def line(name, mean, std, pair=None, adjusted_p=NAN, failed=0):
    return Line(name, mean=mean, std=std, paired=pair, adjusted_p=adjusted_p, failed=failed)


def comparison(lines, **options):
    compared = [one for one in lines if one.paired is not None]
    smallest = reachable([one.paired for one in compared])
    reached = {one.aggr: p for one, p in zip(compared, smallest, strict=True)}
    judged = [replace(one, reachable_p=reached.get(one.aggr, NAN)) for one in lines]
    return Comparison("cora", "gcn", "accuracy", judged, **options)


def verdict(lines, **options):
    return comparison(lines, **options).verdict


def test_some_better_and_some_worse():
    rows = [
        NONE,
        row("lp", 0.5, 1.2, 1.9, 0.012),
        row("poly", -0.4, 0.3, 1.0, 0.41),
        row("softmax", -1.5, -0.9, -0.02, 0.0359),
    ]
    assert verdict(rows) == (
        "Over 10 paired splits, lp is better than the baseline (82.6 ± 1.1) and softmax is worse; "
        "poly cannot be distinguished from it. lp: +1.2 points (95 % interval +0.5 to +1.9, "
        "adjusted p 0.012); softmax: −0.90 points (95 % interval −1.50 to −0.02, adjusted p "
        "0.0359). " + CAVEAT
    )


def test_only_worse():
    rows = [NONE, row("lp", -3.0, -2.0, -1.0, 0.0004), row("poly", -3.1, -2.1, -1.1, 0.02)]
    assert verdict(rows).startswith(
        "Over 10 paired splits, lp and poly are worse than the baseline (82.6 ± 1.1). lp: −2.0 "
        "points (95 % interval −3.0 to −1.0, adjusted p below 0.001); poly: −2.1 "
    )


def test_none_distinguishable():
    rows = [NONE, row("lp", -0.4, 0.3, 1.0, 0.41), row("poly", -0.5, -0.2, 0.1, 0.6)]
    assert verdict(rows) == (
        "No aggregator differs significantly from the baseline (82.6 ± 1.1) on 10 paired "
        "splits; the largest difference is lp's +0.3 points (95 % interval −0.4 to +1.0, "
        "adjusted p 0.41). " + CAVEAT
    )


@pytest.mark.parametrize(
    ("low", "adjusted_p"),
    [(0.1, 0.05), (0.0, 0.04), (0.1, NAN)],
)
def test_interval_and_p_value_are_both_needed(low, adjusted_p):
    text = verdict([NONE, row("lp", low, 0.3, 1.0, adjusted_p)])
    assert text.startswith(
        "lp does not differ significantly from the baseline (82.6 ± 1.1) on 10 paired splits; "
        "the difference is +0.3 points (95 % interval "
    )


@pytest.mark.parametrize(
    ("n", "aggregators", "smallest", "needed"),
    [
        (5, 1, "0.0625", 6),
        (5, 3, "0.188", 7),
        (6, 3, "0.0938", 7),
        (2, 3, "1", 7),
        (7, 4, "0.0625", 8),
    ],
)
def test_too_few_splits(n, aggregators, smallest, needed):
    rows = [row(name, 0.5, 1.5, 2.5, 0.2, n=n) for name in "abcd"[:aggregators]]
    text = verdict([NONE, *rows])
    assert text.startswith(f"{n} paired splits are too few to distinguish a")
    assert f"the smallest adjusted p they can reach is {smallest}, and to fall below 0.05 " in text
    assert f"takes {needed} splits that differ" in text
    assert "+1.5 points (95 % interval +0.5 to +2.5, adjusted p 0.2)" in text
    assert text.endswith(CAVEAT)


@pytest.mark.parametrize(("n", "aggregators"), [(6, 1), (7, 3), (8, 4)])
def test_enough_splits_for_so_many_tests(n, aggregators):
    rows = [row(name, -0.5, 1.5, 2.5, 0.2, n=n) for name in "abcd"[:aggregators]]
    assert f"(82.6 ± 1.1) on {n} paired splits; " in verdict([NONE, *rows])


def test_splits_without_a_difference_do_not_count():
    text = verdict([NONE, row("lp", 0.0, 0.2, 0.5, 0.125, n=10, ties=6)])
    assert text.startswith(
        "10 paired splits (at most 4 differ) are too few to distinguish lp from the baseline "
        "(82.6 ± 1.1): the smallest adjusted p they can reach is 0.125, "
    )


def test_one_split():
    baseline, ours = line("none", 82.6, NAN), paired([82.9], [82.6])
    assert verdict([baseline, line("lp", 82.9, NAN, ours)]) == (
        "1 paired split cannot distinguish lp from the baseline (82.6); the difference is +0.3 "
        "points (one split has no interval and no test). " + CAVEAT
    )


def test_equal_scores():
    same = paired([82.0, 83.0], [82.0, 83.0])
    rows = [NONE, line("lp", 82.5, 0.5, same), line("poly", 82.5, 0.5, same)]
    assert verdict(rows).startswith(
        "Over 2 paired splits, lp and poly score exactly as the baseline (82.6 ± 1.1) does. "
    )


@pytest.mark.parametrize("missing", [[], [line("none", NAN, NAN, failed=10)]])
def test_baseline_missing(missing):
    text = verdict([*missing, line("lp", 82.0, 1.0)])
    assert text.startswith("0 paired splits: the baseline 'none' has no completed run, so no ")
    assert ("10 runs failed (none 10). " in text) == bool(missing)
    assert text.endswith(CAVEAT)


def test_nothing_to_compare_with():
    assert verdict([NONE]).startswith("0 paired splits: only the baseline 'none' was run; ")
    rows = [NONE, line("lp", NAN, NAN, failed=1), line("poly", 80.0, 1.0)]
    assert verdict(rows) == (
        "0 paired splits: lp and poly have no completed run on the baseline's splits. 1 run failed "
        "(lp 1). " + CAVEAT
    )


def test_failed_runs_are_told():
    rows = [
        line("none", 82.6, 1.1, failed=1),
        row("lp", -0.4, 0.3, 1.0, 0.41, n=9),
        row("poly", -0.4, 0.2, 1.0, 0.41, n=7, failed=2),
        line("softmax", NAN, NAN, failed=10),
    ]
    text = verdict(rows)
    assert "on 7 to 9 paired splits; the largest difference is lp's" in text
    assert "softmax has no completed run on the baseline's splits. " in text
    assert "13 runs failed (none 1, poly 2, softmax 10). " + CAVEAT in text


def test_another_baseline():
    rows = [line("mean", 80.0, 1.0), row("none", 0.5, 1.0, 1.5, 0.01)]
    assert "none is better than the baseline (80.0 ± 1.0)." in verdict(rows, baseline="mean")


def test_from_scores_to_words():
    baseline = [82.0, 81.0, 83.5, 80.2, 82.8, 81.9, 82.4, 80.9, 81.6, 83.0]
    better = [score + 0.5 + 0.1 * number for number, score in enumerate(baseline)]
    mixed = [score + (-1) ** number for number, score in enumerate(baseline)]
    pairs = [paired(better, baseline), paired(mixed, baseline)]
    assert [pair.p for pair in pairs] == [2 / 1024, 1.0]
    adjusted = holm([pair.p for pair in pairs])
    rows = [line("none", 81.9, 1.0)]
    for name, pair, p in zip(("lp", "poly"), pairs, adjusted, strict=True):
        rows.append(line(name, 81.9 + pair.difference, 1.0, pair, p))
    text = verdict(rows)
    assert text.startswith("Over 10 paired splits, lp is better than the baseline (81.9 ± 1.0); ")
    assert (
        "poly cannot be distinguished from it. lp: +0.9 points (95 % interval +0.8 to +1.1, "
        in text
    )
    assert "adjusted p 0.00391)" in text


@pytest.mark.parametrize("seeds", [1, 3, 8])
def test_seeds_on_one_split_are_called_seeds(seeds):
    rows = [
        run(aggr, seed, 70.0 + (seed + 1) * (aggr == "lp"), split_hash="one")
        for aggr in ("none", "lp")
        for seed in range(seeds)
    ]
    rows.append(run("poly", 0, status="failed", metrics={}, error="none", split_hash="one"))
    text = compare(Selected(rows, []), "gcn", ["none", "lp", "poly"], data="cora").verdict
    if seeds == 1:  # one run says nothing about other seeds
        assert text.startswith("1 paired split cannot distinguish lp from ")
        assert text.endswith(CAVEAT)
    else:
        assert f"{seeds} paired seeds" in text
        assert "poly has no completed run on the baseline's seeds. 1 run failed (poly 1)." in text
        assert text.endswith(ONE_SPLIT) and "split" not in text.removesuffix(ONE_SPLIT)


def test_findings_have_no_caveat():
    lines = [NONE, row("lp", 0.5, 1.2, 1.9, 0.012)]
    assert f"{findings(comparison(lines))} {CAVEAT}" == verdict(lines)
    one = comparison(lines, one_split=True)
    assert findings(one) == one.verdict
    assert findings(one).startswith("Over 10 paired seeds, lp is better")


def test_judgements():
    lines = [
        NONE,
        row("lp", 0.5, 1.2, 1.9, 0.012),
        row("poly", -0.4, 0.3, 1.0, 0.41),
        row("softmax", -1.5, -0.9, -0.02, 0.0359),
        row("max", 0.5, 1.2, 1.9, 0.2, n=4),
        line("pna", 80.0, 1.0),
    ]
    found = [None, "better", "undecided", "worse", "too few", None]
    assert [one.judgement for one in comparison(lines).lines] == found
    facts = comparison(lines).as_dict()
    assert [one["judgement"] for one in facts["lines"]] == found
    assert facts["lines"][0]["paired"] is None and facts["lines"][1]["paired"]["n"] == 10
    assert facts["verdict"] == verdict(lines)


def test_the_same_scores_are_bootstrapped_once(monkeypatch):
    calls, interval = [], paired_module._interval
    monkeypatch.setattr(
        paired_module, "_interval", lambda *given: calls.append(given) or interval(*given)
    )
    rows = [
        run(aggr, seed, 50.125 + seed * (1 + (aggr == "lp")))
        for aggr in ("none", "lp")
        for seed in range(4)
    ]
    lines = [compare(Selected(rows, []), "gcn", ["none", "lp"], data="cora").lines for _ in "ab"]
    assert lines[0] == lines[1] and lines[0][1].paired.difference == 1.5
    assert len(calls) == 1


def numbers(aggr, score, seed, metric="mse", *, backbone="gcn"):
    """A run on numbers, whose score is that of a metric."""
    settings = {"metric": metric}
    return run(aggr, seed, score, backbone=backbone, data="prices", settings=settings)


def compared(rows, references=(), *, name="MSE", higher_is_better=False):
    return compare(
        Selected(list(rows), []),
        "gcn",
        ["none", "lp"],
        data="prices",
        name=name,
        higher_is_better=higher_is_better,
        percent=False,
        references=reference_rows(references, "gcn") if references else None,
    )


def test_errors_are_better_where_they_are_lower():
    rows = [numbers("none", 0.02 + 0.001 * seed, seed) for seed in range(8)]
    rows += [numbers("lp", 0.01 + 0.001 * seed, seed) for seed in range(8)]
    found = compared(rows)
    line = found.line("lp")
    assert line.judgement == "better" and line.paired.difference == pytest.approx(0.01)
    assert found.heading == "MSE"
    assert found.verdict.startswith(
        "Over 8 paired splits, lp is better than the baseline (0.02350 ± 0.002449). lp: +0.01000 "
        "MSE (95 % interval +0.01000 to +0.01000, adjusted p 0.00781)."
    )
    assert found.notes == ["A lower MSE is better: differences are positive where it is lower."]
    assert found.as_dict()["percent"] is False


def test_numbers_that_were_not_learned():
    rows = [numbers(aggr, score, s) for aggr, score in (("none", 9.0), ("lp", 4.0)) for s in (0, 1)]
    constant = [numbers("none", 9.05, seed, backbone="majority") for seed in (0, 1)]
    ridge = [numbers("none", 3.0, seed, backbone="logistic") for seed in (0, 1)]
    found = compared(rows, [*constant, *ridge])
    assert [line.aggr for line in found.references] == ["mean of targets", "ridge regression"]
    assert found.doubts == [
        "none did not learn more than the mean of the targets (9.050).",
        "ridge regression, without the graph, is better than all of them (+1.000 MSE).",
    ]
    rows = [numbers(a, score, 0, "r2") for a, score in (("none", 0.004), ("lp", 0.02))]
    constant = [numbers("none", -0.001, 0, "r2", backbone="majority")]
    found = compared(rows, constant, name="R²", higher_is_better=True)
    assert found.doubts == ["none did not learn more than the mean of the targets (−0.001000)."]
    assert found.notes == []
