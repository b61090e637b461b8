import dataclasses
import shlex
from unittest import mock

import pytest

from meanmax.study.report.groups import groups
from meanmax.study.runs.row import Result
from meanmax.study.store.store import Store

from .made_pages import Reader, arrays, fill, page, run, shown


def test_lines_hold_scores_differences_and_the_papers_numbers(tmp_path):
    fill(tmp_path)
    (section,) = shown(tmp_path)["sections"]
    none, lp, softmax = section["lines"]
    assert [none["n"], none["mean"], none["difference"]] == [6, 82.5, None]
    assert none["paper"]["mean"] == 81.24 and none["paper"]["mark"] == "at or above"
    assert lp["difference"] == pytest.approx(1.25)
    assert lp["gain"] == pytest.approx(82.57 - 81.24)
    assert lp["learned"] == [{"name": "p, layer 1", "mean": 1.5, "low": 1.5, "high": 1.5}]
    assert softmax["difference"] == pytest.approx(-1.5)
    assert none["all"]["ours"] == 81.5
    texts = Reader(page(tmp_path)).texts
    assert "82.50" in texts and "+1.25" in texts and "−1.50" in texts


def test_changed_settings_share_the_baseline_and_have_no_paper(tmp_path):
    store = fill(tmp_path, splits=2)
    for split in range(2):
        made = run(700 + split, "lp", split, overrides={"start": 1.5}, score=90.0)
        store.add(Result(made, {}))
    plain, changed = shown(tmp_path)["sections"]
    assert [line["aggr"] for line in plain["lines"]] == ["none", "lp", "softmax"]
    assert [line["aggr"] for line in changed["lines"]] == ["none", "lp"]
    assert changed["lines"][1]["difference"] == pytest.approx(9.5)
    assert changed["overrides"] == [{"name": "start", "value": "1.5"}]
    assert changed["lines"][0]["paper"] is None
    assert shlex.split(changed["command"])[-2:] == ["--set", "start=1.5"]
    assert shown(tmp_path, settings_name="default")["sections"] == []


def test_comparisons_of_one_name_are_distinguished_by_their_splits(tmp_path):
    fill(tmp_path)
    store = Store(tmp_path)
    for split in range(2):
        made = run(700 + split, "none", split, split_hash=f"other {split}")
        made = dataclasses.replace(made, split="file:theirs.npz")
        store.add(Result(made, arrays("none")))
    found = shown(tmp_path)
    headings = [section["heading"] for section in found["sections"]]
    common = "cora, gcn, settings published, splits"
    assert headings == [f"{common} balanced", f"{common} file:theirs.npz"]
    texts = [sentence["text"] for sentence in found["sentences"]]
    assert not any("only the baseline" in text for text in texts), "others are compared"


def test_maxness_is_shown_for_each_layer(tmp_path):
    for split, value in enumerate((0.2, 0.4)):
        deep = {f"layers.{layer}": value + layer for layer in (0, 10, 2)}
        Store(tmp_path).add(Result(run(split, "lp", split, maxness=deep), {}))
    (line,) = shown(tmp_path)["sections"][0]["lines"]
    assert line["layers"] == pytest.approx([0.3, 2.3, 10.3]), "the tenth comes after the second"
    assert "0.30 · 2.30 · 10.30" in page(tmp_path)


def test_the_page_shows_the_comparison_of_the_table(tmp_path):
    store = fill(tmp_path)
    (group,) = groups(store.rows())
    lines = [dataclasses.replace(line, mean=12.5) for line in group.comparison.lines]
    table = dataclasses.replace(group.comparison, lines=lines, metric="micro-F1")
    known = {frozenset(row.key for row in store.rows()): table}
    with mock.patch("meanmax.study.report.groups.compare") as compare:
        (section,) = shown(tmp_path, comparisons=known)["sections"]
    assert compare.call_count == 0
    assert section["scores"] == "micro-F1 %" and {x["mean"] for x in section["lines"]} == {12.5}
    other = {frozenset(row.key for row in store.rows()[1:]): table}
    (section,) = shown(tmp_path, comparisons=other)["sections"]
    assert section["lines"][0]["mean"] == 82.5, "a comparison of other rows is not used"


def test_runs_on_other_splits_of_one_name_are_left_out(tmp_path):
    store = fill(tmp_path, splits=2)
    store.add(Result(run(700, "softmax", 2, split_hash="a"), {}))
    for place, aggr in ((701, "none"), (702, "lp")):
        store.add(Result(run(place, aggr, 2, split_hash="b"), {}))
    (section,) = shown(tmp_path)["sections"]
    assert [line["n"] for line in section["lines"]] == [3, 3, 2]
    assert "1 runs on other splits of the same name are left out." in section["notes"]


def test_numbers_have_their_own_unit_and_errors_the_other_sign(tmp_path):
    store = Store(tmp_path)
    scores = {"none": 0.5, "lp": 0.25}
    for place, metric in enumerate(("r2", "mse")):
        for number, (aggr, score) in enumerate(scores.items()):
            for split in range(2):
                made = run(10 * (2 * place + number) + split, aggr, split, data="prices")
                made = dataclasses.replace(
                    made,
                    settings={"metric": metric},
                    settings_name="auto",
                    metrics={"test_score": score, "val_score": score},
                )
                store.add(Result(made, {}))
    r2, mse = shown(tmp_path)["sections"]
    assert r2["heading"] == "prices, gcn, settings auto"
    assert mse["heading"] == "prices, gcn, settings auto, by MSE"
    assert [r2["scores"], mse["scores"], mse["unit"]] == ["R²", "MSE", "MSE"]
    assert [s["lines"][1]["difference"] for s in (r2, mse)] == [-0.25, 0.25]
    assert "--metric r2" in r2["command"] and "--metric mse" in mse["command"]
    texts = Reader(page(tmp_path)).texts
    assert "0.5000" in texts and "+0.2500" in texts and "−0.2500" in texts
    assert [one["data"] for one in shown(tmp_path)["forests"]] == ["prices, R²", "prices, MSE"]
