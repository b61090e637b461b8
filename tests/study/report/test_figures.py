"""Figures are read back from what was drawn: lines, dots and texts."""

import subprocess
import sys
from unittest import mock

import numpy as np
import pytest
from matplotlib.text import Text

from meanmax.data import loading
from meanmax.study.paper.depth import by_depth, overrides, plans
from meanmax.study.paper.reproduction import Reproduction
from meanmax.study.report.charts import quartile_band
from meanmax.study.report.evidence import Evidence, completed_runs
from meanmax.study.report.figures import (
    FIGURES,
    FigureRequest,
    NothingToShow,
    pictures,
    write_figure,
)
from meanmax.study.report.figures.tsne import _styles
from meanmax.study.store.exports import export_curves, export_rows
from meanmax.study.store.store import Store
from tests.study.rows import row

from .stored import AGGRS, fill

KARATE = FigureRequest(data=("karate",))


def draw(name, evidence, request=None):
    return FIGURES[name].draw(evidence, request)


def texts(figure):
    return " ".join(text.get_text().replace("\n", " ") for text in figure.findobj(Text))


def curve(axes, colour):
    lines = [line for line in axes.lines if line.get_color() == colour]
    return max(lines, key=lambda line: line.get_linewidth()).get_ydata()


def test_a_band_ends_where_fewer_than_half_are_left():
    found = quartile_band(
        [np.array([1.0, 1, 1, 1]), np.array([2.0, 2, 2]), np.array([3.0]), np.array([4])]
    )
    assert found.epoch.tolist() == [1, 2, 3]
    assert found.middle.tolist() == [2.5, 1.5, 1.5]
    assert (found.low[0], found.high[0]) == (1.75, 3.25)


def test_a_band_leaves_out_what_is_not_finite():
    assert quartile_band([np.array([1.0, np.inf]), np.array([3.0, 5.0])]).middle.tolist() == [
        2.0,
        5.0,
    ]


def test_losses_are_medians_over_splits(tmp_path):
    fill(tmp_path)
    figure = draw("losses", Evidence.of(tmp_path))
    (axes,) = figure.axes
    curves = [np.linspace(2, 0.5, 6 + seed, dtype=np.float32) for seed in range(3)]
    expected = [np.median([c[epoch] for c in curves]) for epoch in range(6)]
    np.testing.assert_allclose(curve(axes, "#444444")[:6], expected, rtol=1e-6)
    assert len(curve(axes, "#444444")) == 7, "the median ends with the second of three runs"
    assert axes.get_yscale() == "log"
    assert "Cora, n = 3" in texts(figure)
    assert "Nothing on Citeseer, Pubmed yet." in texts(figure)


def test_losses_come_from_curves_beside_an_export(tmp_path):
    store = fill(tmp_path / "store")
    export_rows(store.rows(), tmp_path / "rows.jsonl")
    without = Evidence.of(tmp_path / "rows.jsonl")
    assert without.folder is None
    assert without.artefact(without.rows[0].key) is None
    with pytest.raises(NothingToShow, match="reproduce table2 --data cora,citeseer,pubmed"):
        draw("losses", without)
    export_curves(store, store.rows(), tmp_path / "rows-curves.parquet")
    (axes,) = draw("losses", Evidence.of(tmp_path / "rows.jsonl")).axes
    assert curve(axes, "#0072B2")[0] == pytest.approx(2.1)


def test_only_runs_with_the_settings_asked_for_are_shown(tmp_path):
    fill(tmp_path, overrides={"patience": 7})
    evidence = Evidence.of(tmp_path)
    assert completed_runs(evidence.selected("cora"), "gcn", "none") == []
    assert (
        len(completed_runs(evidence.selected("cora", overrides={"patience": 7}), "gcn", "lp")) == 3
    )
    assert len(draw("losses", evidence, FigureRequest(overrides={"patience": 7})).axes) == 1
    with pytest.raises(NothingToShow, match="published settings"):
        draw("losses", evidence)


def test_the_parameter_is_the_median_over_heads_and_splits(tmp_path):
    fill(tmp_path, backbone="gat", heads=3)
    figure = draw("parameter", Evidence.of(tmp_path), FigureRequest(backbones=("gat",)))
    (axes,) = figure.axes
    assert curve(axes, "#D55E00")[0] == pytest.approx(1.1), "the second of heads at 1.0, 1.1, 1.2"
    low, high = (edge(axes.collections[0].get_paths()[0].vertices[:, 1]) for edge in (min, max))
    assert (low, high) == pytest.approx((1.0, 1.7))
    assert {"p", "α", "γ"} <= {text.get_text() for text in axes.texts}


def test_maxness_has_a_dot_for_each_split(tmp_path):
    fill(tmp_path)
    (axes,) = draw("maxness", Evidence.of(tmp_path)).axes
    dots = [line.get_ydata() for line in axes.lines if line.get_marker() == "^"]
    assert [list(values) for values in dots] == [[0.2] * 3, [0.0] * 3]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["layer 1", "layer 2"]


def test_the_forest_shows_ours_and_the_papers_difference(tmp_path):
    fill(tmp_path)
    figure = draw("forest", Evidence.of(tmp_path))
    (axes,) = figure.axes
    marked = {m: [] for m in "s^Dd"}
    for line in axes.lines:
        if line.get_marker() in marked:
            marked[line.get_marker()] += list(line.get_xdata())
    assert [marked[m] for m in "s^D"] == [[1.0], [2.0], [3.0]]
    assert marked["d"][0] == pytest.approx(82.57 - 81.24)
    assert axes.get_yticklabels()[0].get_text() == "GCN, Lp norm"
    lower, upper = axes.get_ylim()
    assert lower > upper, "the first method is on top"


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
    told = texts(figure)
    assert "Missing runs, of 100 each: Cora 88, Citeseer 100, Pubmed 100." in told, "12 are there"
    assert "This command makes them: meanmax reproduce figures" in told
    assert str(tmp_path) not in told


def test_depths_of_some_sets_and_splits_are_asked_for_alone():
    wish = Reproduction(figures=True, data=["citeseer", "photo"], splits=2)
    planned = [
        (p.data.source, *p.backbones, len(p.splits), dict(p.overrides)) for p in wish.plans()
    ]
    assert planned[:2] == [("citeseer", "gcn", 2, {}), ("photo", "gcn", 1, {})]
    assert planned[2:] == [("citeseer", "gcn", 2, overrides(n)) for n in (2, 3, 4, 6, 8)]
    assert {len(p.splits) for p in Reproduction(figures=True).plans()} == {10, 1, 5}


def test_rows_without_artefacts_are_made_again_by_the_command_that_is_named(tmp_path):
    rows = fill(tmp_path / "full").rows()
    Store(tmp_path / "bare").merge(rows)
    for name in ("losses", "parameter"):
        with pytest.raises(NothingToShow, match="--artefacts --store"):
            draw(name, Evidence.of(tmp_path / "bare"))
    with pytest.raises(NothingToShow, match="--data cora --backbone gcn --splits 1 --artefacts"):
        draw("tsne", Evidence.of(tmp_path / "bare"), FigureRequest(data=("cora",)))
    with pytest.raises(NothingToShow, match="--data pubmed --backbone gcn --splits 1 --store"):
        draw("tsne", Evidence.of(tmp_path / "bare"), FigureRequest(data=("pubmed",)))


def test_no_legend_is_wider_than_its_figure(tmp_path):
    fill(tmp_path)
    for name in ("losses", "parameter", "maxness", "forest", "depth"):
        evidence = Evidence.of(tmp_path)
        if name == "depth":
            evidence = Evidence([row("lp", 0, 70.0, overrides=overrides(3))])
        figure = draw(name, evidence, FigureRequest(data=("cora",)))
        figure.canvas.draw()
        (legend,) = figure.legends
        box = legend.get_window_extent()
        assert 0 <= box.x0 and box.x1 <= figure.bbox.x1, name


def test_runs_that_failed_are_told_of_at_their_depth():
    bad = row("lp", 1, settings=None, overrides=overrides(3), status="failed", metrics={})
    rows = [row("lp", 0, 70.0, overrides=overrides(3)), bad]
    (point,) = by_depth(rows, "cora")
    assert (point.scores, point.failed) == ((70.0,), 1)
    figure = draw("depth", Evidence(rows))
    assert "1 unsuccessful runs" in texts(figure)


def test_tsne_has_a_panel_for_each_method_and_says_how_compact(tmp_path):
    fill(tmp_path, data="karate", aggrs=AGGRS[:3], splits=2)
    figure = draw("tsne", Evidence.of(tmp_path), KARATE)
    assert [axes.get_title() for axes in figure.axes] == [
        "baseline",
        "Lp norm",
        "polynomial",
        "softmax",
    ]
    assert figure.axes[0].get_xlabel().startswith("silhouette ")
    assert figure.axes[0].get_xlabel().endswith("test 80.0 %"), "split 0"
    assert "no run yet" in texts(figure)
    assert "n = 34 nodes" in texts(figure)
    points = figure.axes[1].collections[1].get_offsets()
    assert points.shape == (34, 2)
    assert len(list((tmp_path / "derived").glob("tsne-*.npz"))) == 3
    assert len(list((tmp_path / "derived").glob("silhouette-*.npz"))) == 3


def test_tsne_takes_the_first_split_on_which_most_methods_have_embeddings(tmp_path):
    store = fill(tmp_path, data="karate", splits=3)
    for made in store.rows():
        if made.split_seed == 0 or (made.split_seed == 2 and made.aggr == "lp"):
            store.artefact_path(made.key).unlink()
    figure = draw("tsne", Evidence.of(tmp_path), KARATE)
    assert "split 1, seed 1" in texts(figure)
    assert "no run yet" not in texts(figure)


def test_tsne_refuses_data_that_the_runs_are_not_of(tmp_path):
    fill(tmp_path, data="karate", splits=1, data_hash="another")
    with pytest.raises(NothingToShow, match="not those that the runs"):
        draw("tsne", Evidence.of(tmp_path), KARATE)


def test_classes_differ_in_colour_or_marker():
    for count in (8, 10, 25):
        assert len(set(zip(*_styles(count), strict=True))) == count


def test_the_path_runs_from_mean_to_max():
    (axes,) = draw("path", Evidence()).axes
    for line in axes.lines[:3]:
        height = line.get_ydata()
        assert height[0] == pytest.approx(0.425, abs=1e-5)
        assert 1.8 < height[-1] <= 2.0


@pytest.mark.parametrize("name", [name for name, kind in FIGURES.items() if kind.needs_runs])
def test_without_runs_the_command_that_makes_them_is_named(name):
    with pytest.raises(NothingToShow, match="meanmax (reproduce|compare)"):
        draw(name, Evidence())


def test_the_same_figure_is_the_same_file_with_letters_in_it(tmp_path):
    evidence = Evidence([row(a, s, 80.0 + s) for a in AGGRS for s in range(2)])
    for folder in ("a", "b"):
        write_figure(draw("forest", evidence), tmp_path / folder, "forest")
    for kind in ("svg", "png"):
        one, two = ((tmp_path / f / f"forest.{kind}").read_bytes() for f in "ab")
        assert one == two
    assert b">Cora, n = 2</text>" in (tmp_path / "a" / "forest.svg").read_bytes()


def test_a_request_comes_to_pictures_with_names_of_their_own():
    both = FigureRequest(data=("cora", "my/own $graph"), backbones=("gcn", "gat"))
    assert len(pictures("tsne", both)) == 4
    assert "tsne-gat-own__graph" in pictures("tsne", both)
    assert list(pictures("losses", both)) == [
        "losses-gcn-cora-own__graph",
        "losses-gat-cora-own__graph",
    ]
    assert list(pictures("path", both)) == ["path"]


def test_figures_show_the_data_and_settings_that_the_store_holds(tmp_path):
    fill(tmp_path, data="karate", backbone="gat", settings_name="tuned", aggrs=("none", "lp"))
    evidence = Evidence.of(tmp_path)
    for name in ("losses", "parameter", "maxness", "forest"):
        (request,) = pictures(name, FigureRequest(), evidence).values()
        figure = draw(name, evidence, request)
        assert "tuned settings" in texts(figure) and "karate, n = 3" in texts(figure)
    assert list(pictures("tsne", FigureRequest(), evidence)) == ["tsne-gat-karate"]
    assert list(pictures("losses", FigureRequest(), evidence)) == ["losses-gat"]
    with pytest.raises(NothingToShow, match="there are runs with --settings tuned"):
        draw("losses", evidence, FigureRequest(data=("karate",), settings_name="published"))


def test_published_runs_come_before_others(tmp_path):
    fill(tmp_path, settings_name="tuned", splits=4, tag="tuned")
    fill(tmp_path, splits=2)
    assert "Cora, n = 2" in texts(draw("losses", Evidence.of(tmp_path)))


def test_runs_of_a_settings_file_that_is_not_here_are_shown(tmp_path):
    fill(tmp_path, settings_name="mine.toml", splits=2)
    figure = draw("maxness", Evidence.of(tmp_path))
    assert "mine.toml settings" in texts(figure) and "Cora, n = 2" in texts(figure)


def test_the_data_of_several_pictures_are_loaded_once(tmp_path):
    for backbone in ("gcn", "gat"):
        fill(tmp_path, data="karate", backbone=backbone, splits=1)
    evidence = Evidence.of(tmp_path)
    request = FigureRequest(data=("karate",), backbones=("gcn", "gat")).named(evidence)
    with mock.patch("meanmax.data.loading.load", wraps=loading.load) as load:
        with mock.patch("meanmax.data.load", load):
            drawn = [draw("tsne", evidence, one) for one in pictures("tsne", request).values()]
    assert len(drawn) == 2 and load.call_count == 1


def test_the_list_of_figures_needs_neither_torch_nor_matplotlib():
    code = (
        "import sys, meanmax.study.report.figures as f; assert len(f.FIGURES) == 7; "
        "print(sorted({'torch', 'torch_geometric', 'matplotlib', 'sklearn'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
