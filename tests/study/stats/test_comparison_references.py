"""References beside the methods, and the doubts that they raise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meanmax.study.stats.cells import Selected
from meanmax.study.stats.comparison import compare, findings, reference_rows
from tests.study.rows import row

SPLITS = range(8)
SETTINGS = {"epochs": 100, "metric": "accuracy"}


def rows(aggr, score, backbone="gcn", settings=None, constant=30.0, **facts):
    facts = {"best_epoch": 40, "epochs": 80, "settings": settings or SETTINGS, **facts}
    made = []
    for seed in SPLITS:
        value = score + seed / 10
        metrics = {"test_score": value, "val_score": value, "test_majority": constant}
        made.append(row(aggr, seed, backbone=backbone, metrics=metrics, **facts))
    return made


def judged(methods, references, **options):
    methods = {
        aggr: rows(aggr, *given) if isinstance(given, tuple) else given
        for aggr, given in methods.items()
    }
    own = [one for listed in methods.values() for one in listed]
    beside = [one for name, score in references.items() for one in rows("none", score, name)]
    return compare(
        Selected(own, []),
        "gcn",
        list(methods),
        data="cora",
        references=reference_rows(beside, "gcn"),
        **options,
    )


GOOD = {"none": (80.0,), "lp": (85.0,)}
BESIDE = {"majority": 30.0, "logistic": 60.0, "label-propagation": 70.0, "mlp": 65.0}


def test_a_sound_comparison_is_not_doubted():
    found = judged(GOOD, BESIDE)
    assert found.doubts == []
    assert found.verdict.startswith("Over 8 paired splits, lp is better than the baseline")
    labels = ["majority class", "logistic regression", "label propagation", "MLP"]
    assert [line.aggr for line in found.references] == labels
    assert [line.n for line in found.references] == [8] * 4
    means = [30.35, 60.35, 70.35, 65.35]
    assert [line.mean for line in found.references] == pytest.approx(means)


def test_without_references_nothing_is_doubted():
    own = [*rows("none", 20.0), *rows("lp", 21.0)]
    found = compare(Selected(own, []), "gcn", ["none", "lp"], data="cora")
    assert (found.doubts, found.references) == ([], [])


def test_methods_at_chance():
    found = judged({"none": (30.9,), "lp": (85.0,)}, {**BESIDE, "logistic": 20.0})
    (doubt,) = found.doubts
    assert doubt == "none did not learn more than a single answer for all nodes does (30.4)."
    assert found.verdict.startswith("Not conclusive: none did not learn more")
    assert "What was measured: Over 8 paired splits, lp is better" in found.verdict
    assert findings(found) in found.verdict  # which the page shows
    assert judged({"none": (31.5,), "lp": (85.0,)}, {"majority": 30.0}).doubts == []


def test_methods_below_the_most_frequent_class_of_test_nodes():
    low = {aggr: rows(aggr, score, constant=90.0) for aggr, (score,) in GOOD.items()}
    (doubt,) = judged(low, BESIDE).doubts
    assert doubt == "Answering the most frequent class for every node scores 90.0."
    assert judged(low, BESIDE).verdict.startswith("Not conclusive: Answering")
    assert judged(low, BESIDE, name="ROC AUC").doubts == []


@pytest.mark.parametrize(
    ("best", "epochs", "doubted"),
    [(99, 100, True), (95, 100, True), (93, 100, False), (99, 120, False)],
)
def test_methods_that_were_still_improving(best, epochs, doubted):
    settings = {**SETTINGS, "epochs": epochs}
    late = rows("lp", 85.0, settings=settings, best_epoch=best, epochs=100)
    found = judged({"none": (80.0,), "lp": late}, BESIDE)
    if doubted:
        (doubt,) = found.doubts
        assert doubt.startswith("lp was still improving at the last epoch: raise it with --set")
        assert found.verdict.startswith("Not conclusive: lp was")
    else:
        assert found.doubts == []


def test_half_of_the_runs_may_be_late():
    late = rows("lp", 85.0, best_epoch=99, epochs=100)
    early = rows("lp", 85.0)
    assert judged({"none": (80.0,), "lp": [*late[:4], *early[4:]]}, BESIDE).doubts == []
    (doubt,) = judged({"none": (80.0,), "lp": [*late[:5], *early[5:]]}, BESIDE).doubts
    assert doubt.startswith("lp was still improving")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mlp", "MLP, without the graph, is better than all of them (+5.0 points)."),
        ("logistic", "logistic regression, without the graph, is better than all of them (+5.0 "),
        ("label-propagation", "label propagation, without features, is better than all of them"),
    ],
)
def test_a_reference_that_is_better_than_all_methods(name, text):
    found = judged(GOOD, {**BESIDE, name: 90.0})
    (doubt,) = found.doubts
    assert doubt.startswith(text)
    assert found.verdict.startswith("Not conclusive: ")
    between = judged(GOOD, {**BESIDE, name: 83.0})  # better than the baseline alone
    assert between.doubts == []


def test_a_majority_that_is_better_is_told_once():
    found = judged({"none": (80.0,), "lp": (85.0,)}, {"majority": 90.0})
    (doubt,) = found.doubts
    assert doubt.startswith("none and lp did not learn more")


def test_lower_errors_are_better_than_higher_ones():
    lower = {"name": "MAE", "higher_is_better": False, "percent": False}
    beside = {"majority": 9.0, "logistic": 8.0, "mlp": 8.0}
    sound = judged({"none": (5.0,), "lp": (3.0,)}, beside, **lower)
    assert sound.doubts == [] and sound.heading == "MAE"
    assert sound.verdict.startswith("Over 8 paired splits, lp is better than the baseline")
    assert sound.line("lp").paired.difference == pytest.approx(2.0)
    worse = judged({"none": (5.0,), "lp": (3.0,)}, {**beside, "mlp": 1.0}, **lower)
    (doubt,) = worse.doubts
    assert doubt == "MLP, without the graph, is better than all of them (+2.000 MAE)."


def test_an_mlp_is_no_reference_of_itself():
    listed = [*rows("none", 60.0, "mlp"), *rows("none", 30.0, "majority"), *rows("lp", 70.0)]
    assert list(reference_rows(listed, "mlp")) == ["majority class"]
    assert list(reference_rows(listed, "gcn")) == ["majority class", "MLP"]


def test_failed_runs_raise_no_doubt():
    bad = [row("lp", seed, status="failed", error="no", metrics={}) for seed in SPLITS]
    assert judged({"none": (80.0,), "lp": bad}, BESIDE).doubts == []
    none = [row("none", seed, status="failed", error="no", metrics={}) for seed in SPLITS]
    assert judged({"none": none, "lp": bad}, BESIDE).doubts == []


def test_the_comparison_for_json_has_references_and_doubts():
    facts = judged(GOOD, {**BESIDE, "mlp": 90.0}).as_dict()
    assert [line["aggr"] for line in facts["references"]][-1] == "MLP"
    assert len(facts["doubts"]) == 1 and facts["verdict"].startswith("Not conclusive: MLP")


def test_chance_is_measured_by_balanced_accuracy_where_rows_have_it():
    """A method that answers one class for all nodes is above a majority class of few nodes."""

    def balanced(listed, value):
        return [
            replace(one, metrics={**one.metrics, "test_balanced_accuracy": value}) for one in listed
        ]

    methods = {"none": balanced(rows("none", 60.0), 50.4), "lp": balanced(rows("lp", 85.0), 80.0)}
    own = [one for listed in methods.values() for one in listed]
    beside = {"majority class": balanced(rows("none", 5.0, "majority"), 50.0)}
    found = compare(Selected(own, []), "gcn", ["none", "lp"], data="cora", references=beside)
    assert found.doubts == [
        "none did not learn more than a single answer for all nodes does (balanced accuracy 50.0)."
    ]


def test_runs_that_are_cut_short_are_told_without_references():
    late = {"settings": {"epochs": 40}, "epochs": 40, "best_epoch": 39}
    own = [*rows("none", 70.0, **late), *rows("lp", 80.0, **late)]
    found = compare(Selected(own, []), "gcn", ["none", "lp"], data="cora", references={})
    (doubt,) = found.doubts
    assert doubt.startswith("none and lp were still improving at the last epoch")
