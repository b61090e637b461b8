import numpy as np
import pytest

from meanmax.study.paper.depth import overrides
from meanmax.study.report.charts import quartile_band
from meanmax.study.runs.row import Result
from meanmax.study.store.store import Store

from .made_pages import arrays, fill, page, run, shown


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


def test_curves_are_medians_thinned_to_200_epochs(tmp_path):
    fill(tmp_path)
    (section,) = shown(tmp_path)["sections"]
    loss = section["charts"][0]
    assert loss["title"] == "Training loss"
    line = loss["lines"][1]
    assert len(line["x"]) == 200 and line["x"][0] == 1 and line["x"][-1] == 300
    assert line["mid"][0] == 1.0 and line["mid"][-1] == pytest.approx(1 / 300, rel=1e-3)
    assert [chart["title"] for chart in section["charts"]][-1] == "Learned parameter"


def test_depths_become_a_chart_of_the_splits_that_all_have(tmp_path):
    store = Store(tmp_path)
    for layers, splits in ((2, 2), (4, 1)):
        for split in range(splits):
            number = 10 * layers + split
            made = run(number, "none", split, score=80.0 - split, overrides=overrides(layers))
            store.add(Result(made, {}))
    (chart,) = shown(tmp_path)["depths"]["charts"]
    (line,) = chart["lines"]
    assert (chart["title"], chart["axis"]) == ("cora (1 split)", "layers")
    assert (line["x"], line["mid"], line["runs"]) == ([2, 4], [80.0, 80.0], 2)
    assert "Accuracy against depth" in page(tmp_path)


def test_layers_of_one_method_have_dashes_of_their_own(tmp_path):
    both = arrays("lp")
    both["learned/layers.1.p"] = 2 * both["learned/layers.0.p"]
    Store(tmp_path).add(Result(run(1, "lp", 0), both))
    Store(tmp_path).add(Result(run(2, "softmax", 0), arrays("softmax")))
    (chart,) = [c for c in shown(tmp_path)["sections"][0]["charts"] if "Learned" in c["title"]]
    dashes = [(line["label"], line.get("dash")) for line in chart["lines"]]
    assert dashes == [("lp: p, layer 1", 0), ("lp: p, layer 2", 1), ("softmax: γ, layer 1", None)]
