import pytest

from meanmax.study.settings.settings import settings_for
from meanmax.study.stats.cells import cells, score_form, shown_metric
from tests.study.rows import row


@pytest.mark.parametrize(
    ("settings", "metrics", "label"),
    [
        ({"metric": "mse"}, {"test_r2": 0.5}, "MSE"),
        ({}, {"test_r2": 0.5, "test_mse": 2.0}, "R²"),
        ({}, {"test_accuracy": 50.0, "test_macro_f1": 40.0}, "accuracy"),
        ({}, {"test_micro_f1": 50.0, "test_macro_f1": 40.0}, "micro-F1"),
        ({}, {"kmeans_accuracy": 50.0}, "accuracy"),
        ({}, {}, "score"),
    ],
)
def test_the_metric_of_rows(settings, metrics, label):
    made = row(settings=settings, metrics={"test_score": 0.5, **metrics})
    kind = shown_metric([made])
    assert kind.label == label
    assert kind.percent == (label not in ("MSE", "R²"))
    assert kind.higher_is_better == (label != "MSE")


def test_scores_that_stand_together_have_the_same_decimals():
    texts = [f"{value:{score_form(False, 12.3456, -0.01)}}" for value in (12.3456, -0.01, 0.0)]
    assert texts == ["12.35", "-0.01", "0.00"]
    assert f"{0.0:{score_form(False, 0.0, None, float('nan'))}}" == "0.000"
    assert f"{1.5e-20:{score_form(False, 1.5e-20)}}" == "0.000000000000"
    assert score_form(True, 1e9) == ".2f"


def test_searched_settings_of_one_method_are_one_cell():
    facts = {"settings_name": "auto", "data": "mine"}
    base = settings_for("default", "gcn", "none", "mine")
    found = [{**base, "hidden": 128, "lr": rate, "metric": "accuracy"} for rate in (0.1, 0.2)]
    rows = [row(seed=seed, settings=own, **facts) for seed, own in enumerate(found)]
    other = row(seed=0, settings={**base, "metric": "macro_f1"}, tag="f1", **facts)
    one, two = sorted(cells([*rows, other]), key=lambda cell: -cell.n)
    assert (one.n, one.changed) == (2, {"hidden": 128, "metric": "accuracy"})
    assert (two.n, two.changed) == (1, {"metric": "macro_f1"})
