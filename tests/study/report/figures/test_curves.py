import numpy as np
import pytest

from meanmax.study.report.evidence import Evidence, completed_runs
from meanmax.study.report.figures.request import (
    FigureRequest,
    NothingToShow,
)
from meanmax.study.store.exports import export_curves, export_rows

from ..stored import fill
from .drawn import curve, draw, texts


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


def test_only_runs_with_the_requested_settings_are_shown(tmp_path):
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


def test_the_path_runs_from_mean_to_max():
    (axes,) = draw("path", Evidence()).axes
    for line in axes.lines[:3]:
        height = line.get_ydata()
        assert height[0] == pytest.approx(0.425, abs=1e-5)
        assert 1.8 < height[-1] <= 2.0
