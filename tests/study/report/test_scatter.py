import dataclasses
from unittest import mock

import numpy as np
import pytest

from meanmax.study.report.embeddings import LabelSource, Layout
from meanmax.study.report.evidence import Evidence
from meanmax.study.report.page import (
    content,
    render,
)
from meanmax.study.runs.row import Result
from meanmax.study.store.store import Store

from .made_pages import arrays, hostile_store, run, shown


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
    with mock.patch("meanmax.study.report.scatter.PANELS", 1 if kind == "few methods" else 8):
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
    with mock.patch("meanmax.study.report.scatter.ALL_POINTS", 2400):
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
