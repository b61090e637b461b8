import dataclasses
from unittest import mock

import numpy as np
import pytest

from meanmax.study.paper.depth import overrides
from meanmax.study.report.charts import quartile_band
from meanmax.study.report.embeddings import LabelSource, Layout
from meanmax.study.report.evidence import Evidence
from meanmax.study.report.page import content, render
from meanmax.study.runs.row import Result
from meanmax.study.store.store import Store

from .made_pages import NODES, arrays, fill, hostile_store, page, run, shown


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


@pytest.mark.parametrize("kind", ["several labels", "many classes", "few methods"])
def test_scatters_say_what_they_cannot_show(tmp_path, kind):
    store, data = hostile_store(tmp_path)
    labels = LabelSource([data])
    ((data_hash, nodes),) = labels.known.items()
    if kind == "several labels":
        nodes = dataclasses.replace(nodes, classes=None)
    if kind == "many classes":
        nodes = dataclasses.replace(nodes, class_names=tuple(map(str, range(60))))
    labels.known[data_hash] = nodes
    with mock.patch("meanmax.study.report.charts.PANELS", 1 if kind == "few methods" else 8):
        found = content(Evidence.of(store.folder), labels=labels)
    text, scatter = render(found), found["sections"][0]["scatter"]
    assert (scatter["classes"] is None) == (kind == "several labels")
    assert ("coloured by class" in text) == (kind != "several labels")
    assert ("some look alike" in text) == (kind == "many classes")
    assert ("Not shown: lp, softmax." in text) == (kind == "few methods")


def test_panels_of_many_comparisons_share_the_points_of_the_page(tmp_path):
    rows = []
    for place, data in enumerate(("cora", "photo")):
        rows.append(run(place, "none", 0, data=data, data_hash=str(place) * 20))
        Store(tmp_path).add(Result(rows[-1], arrays("none", nodes=400)))
    (tmp_path / "derived").mkdir()
    for made in rows:
        xy = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)
        np.savez(Layout().file_of(tmp_path / "derived", made.key), coordinates=xy)
    with mock.patch("meanmax.study.report.charts.ALL_POINTS", 2400):
        found = [section["scatter"]["shown"] for section in shown(tmp_path)["sections"]]
    assert found == [300, 300], "four panels each"


def test_large_scatters_are_sampled(tmp_path):
    store = Store(tmp_path)
    made = run(1, "none", 0)
    store.add(Result(made, arrays("none", nodes=4000)))
    (tmp_path / "derived").mkdir()
    xy = np.random.default_rng(0).normal(size=(4000, 2)).astype(np.float32)
    np.savez(Layout().file_of(tmp_path / "derived", made.key), coordinates=xy)
    scatter = shown(tmp_path)["sections"][0]["scatter"]
    assert (scatter["nodes"], scatter["shown"]) == (4000, 3000)
    assert scatter["classes"] is None  # these are not the data that are called cora
    (panel,) = scatter["panels"]
    assert 0 <= min(panel["x"]) and max(panel["y"]) <= 1000


def test_predicted_numbers_are_no_classes(tmp_path):
    made = run(1, "none", 0, metrics={"test_score": -0.5, "test_r2": -0.5})
    found = {**arrays("none"), "prediction": np.linspace(0, 9, NODES, dtype=np.float32)}
    Store(tmp_path).add(Result(made, found))
    (tmp_path / "derived").mkdir()
    xy = np.random.default_rng(0).normal(size=(NODES, 2)).astype(np.float32)
    np.savez(Layout().file_of(tmp_path / "derived", made.key), coordinates=xy)
    (panel,) = shown(tmp_path)["sections"][0]["scatter"]["panels"]
    assert (panel["predicted"], panel["score"]) == (None, "R² −0.5")
