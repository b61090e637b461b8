from meanmax.study.paper.depth import by_depth, overrides, plans
from meanmax.study.paper.reproduction import Reproduction
from meanmax.study.report.evidence import Evidence
from tests.study.rows import row

from ..stored import fill
from .drawn import draw, texts


def test_maxness_has_a_dot_for_each_split(tmp_path):
    fill(tmp_path)
    (axes,) = draw("maxness", Evidence.of(tmp_path)).axes
    dots = [line.get_ydata() for line in axes.lines if line.get_marker() == "^"]
    assert [list(values) for values in dots] == [[0.2] * 3, [0.0] * 3]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["layer 1", "layer 2"]


def test_depths_are_planned_and_drawn_with_their_settings(tmp_path):
    planned = plans(["cora"], splits=2)
    assert [plan.overrides["layers"] for plan in planned] == [2, 3, 4, 6, 8]
    assert planned[1].settings("gcn", "lp", "cora")["nonlinear"] == "hidden"
    assert "nonlinear" not in planned[1].settings("gcn", "none", "cora")
    for layers in (2, 4):
        fill(tmp_path, aggrs=("none", "lp"), overrides=overrides(layers), tag=layers)
    evidence = Evidence.of(tmp_path)
    points = by_depth(evidence.rows, "cora")
    assert [(p.aggr, p.layers, p.mean) for p in points] == [
        ("none", 2, 81.0),
        ("lp", 2, 82.0),
        ("none", 4, 81.0),
        ("lp", 4, 82.0),
    ]
    figure = draw("depth", evidence)
    assert figure.axes[0].lines[0].get_xdata().tolist() == [2, 4]
    assert [text.get_text() for text in figure.axes[2].texts] == ["no runs yet"]
    text = texts(figure)
    assert "Missing runs, of 100 each: Cora 88, Citeseer 100, Pubmed 100." in text, "12 are there"
    assert "This command makes them: meanmax reproduce figures" in text
    assert str(tmp_path) not in text


def test_depths_of_some_sets_and_splits_are_planned_alone():
    wish = Reproduction(figures=True, data=["citeseer", "photo"], splits=2)
    planned = [
        (p.data.source, *p.backbones, len(p.splits), dict(p.overrides)) for p in wish.plans()
    ]
    assert planned[:2] == [("citeseer", "gcn", 2, {}), ("photo", "gcn", 1, {})]
    assert planned[2:] == [("citeseer", "gcn", 2, overrides(n)) for n in (2, 3, 4, 6, 8)]
    assert {len(p.splits) for p in Reproduction(figures=True).plans()} == {10, 1, 5}


def test_failed_runs_are_counted_at_their_depth():
    bad = row("lp", 1, settings=None, overrides=overrides(3), status="failed", metrics={})
    rows = [row("lp", 0, 70.0, overrides=overrides(3)), bad]
    (point,) = by_depth(rows, "cora")
    assert (point.scores, point.failed) == ((70.0,), 1)
    figure = draw("depth", Evidence(rows))
    assert "1 unsuccessful runs" in texts(figure)
