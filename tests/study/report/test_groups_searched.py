"""Comparisons whose settings were searched in each split."""

from __future__ import annotations

import dataclasses
import shlex

import pytest

from meanmax.study.report.evidence import Evidence
from meanmax.study.report.groups import groups
from meanmax.study.runs.row import Result
from meanmax.study.stats.cells import scores
from meanmax.study.store.store import Store
from tests.study.rows import row

from .made_pages import Reader, page, shown

LABELS = ["majority class", "logistic regression", "label propagation", "MLP"]
REFERENCES = {"majority": 30.0, "logistic": 60.0, "label-propagation": 70.0, "mlp": 65.0}


def made(aggr, seed, score, backbone="gcn", *, metric="accuracy", **facts):
    """A run whose settings differ from those of other splits."""
    settings = {"metric": metric, "lr": 0.01 * (1 + seed), "epochs": 400, "hidden": 8}
    given = {"data": "mine", "settings_name": "auto", "epochs": 300, "best_epoch": 200}
    given |= {"finished": "2026-01-01T00:00:00+00:00", "split": "balanced"}
    found = row(aggr, seed, score, backbone=backbone, settings=settings, **(given | facts))
    key = f"{found.key}-{metric}-{facts.get('finished', '')}"
    return dataclasses.replace(found, key=key)


def fill(folder, references=REFERENCES, **facts):
    store = Store(folder)
    for seed in range(6):
        for aggr, score in (("none", 80.0), ("lp", 82.0)):
            store.add(Result(made(aggr, seed, score + seed, **facts), {}))
        for name, score in references.items():
            store.add(Result(made("none", seed, score + seed, name, **facts), {}))
    return store


def test_searched_runs_are_one_comparison_though_settings_differ(tmp_path):
    fill(tmp_path)
    (section,) = shown(tmp_path)["sections"]
    assert [(line["aggr"], line["n"]) for line in section["lines"]] == [("none", 6), ("lp", 6)]
    assert section["lines"][1]["difference"] == pytest.approx(2.0)
    assert [(line["aggr"], line["n"]) for line in section["references"]] == [
        (label, 6) for label in LABELS
    ]
    assert [line["mean"] for line in section["references"]] == [32.5, 62.5, 72.5, 67.5]
    assert section["heading"] == "mine, gcn, settings auto" and section["overrides"] == []
    listed = {item["name"]: item["values"] for item in section["settings"]}
    assert listed["hidden"] == ["8"] * 6 and listed["lr"] == ["0.01", "0.02", "0.03"] * 2


def test_whole_sets_of_chosen_settings_are_shown(tmp_path):
    store = Store(tmp_path)
    chosen = [(0.1, 8), (0.1, 16), (0.2, 8), (0.2, 8)]  # 0.1 and 8 were never chosen together
    for seed, (lr, hidden) in enumerate(chosen):
        one = made("none", seed, 80.0)
        settings = {**one.settings, "lr": lr, "hidden": hidden}
        store.add(Result(dataclasses.replace(one, settings=settings), {}))
    (section,) = shown(tmp_path)["sections"]
    names = [f"none, {count} of 4 splits" for count in (2, 1, 1)]
    assert section["settings_names"] == names
    listed = {item["name"]: item["values"] for item in section["settings"]}
    assert listed["lr"] == ["0.2", "0.1", "0.1"] and listed["hidden"] == ["8", "8", "16"]
    heads = [text for text in Reader(page(tmp_path)).texts if " of 4 splits" in text]
    assert heads == names


def test_references_stand_in_grey_rows(tmp_path):
    fill(tmp_path)
    html = page(tmp_path)
    body = html.partition("<tbody>")[2].partition("</tbody>")[0]
    grey = body.split('<tr class="reference">')[1:]
    assert [label in text for label, text in zip(LABELS, grey, strict=True)] == [True] * 4
    assert "72.50" in grey[2] and "Grey: references without a graph network." in html
    cells = {
        text.split("</tr>")[0].count("<td") + text.split("</tr>")[0].count("<th") for text in grey
    }
    first = body.partition("</tr>")[0]
    assert cells == {first.count("<td") + first.count("<th")}, "as many cells as other rows"


def test_the_page_says_that_a_comparison_is_not_conclusive(tmp_path):
    fill(tmp_path / "sound")
    assert "Not conclusive" not in page(tmp_path / "sound")
    fill(tmp_path / "doubted", {**REFERENCES, "mlp": 90.0})
    texts = " ".join(Reader(page(tmp_path / "doubted")).texts)
    assert "Not conclusive: MLP, without the graph, is better than all of them" in texts


def test_each_metric_is_a_comparison_and_names_its_direction(tmp_path):
    fill(tmp_path)
    fill(tmp_path, {}, metric="mae")
    sections = {section["scores"]: section for section in shown(tmp_path)["sections"]}
    assert sections.keys() == {"accuracy %", "MAE"}
    headings = [sections[metric]["heading"] for metric in ("accuracy %", "MAE")]
    assert headings == ["mine, gcn, settings auto", "mine, gcn, settings auto, by MAE"]
    assert sections["accuracy %"]["lines"][1]["difference"] == pytest.approx(2.0)
    assert sections["MAE"]["lines"][1]["difference"] == pytest.approx(-2.0)


def test_other_settings_have_the_direction_of_their_metric_too(tmp_path):
    fill(tmp_path, {}, metric="mse", settings_name="default")
    sections = shown(tmp_path)["sections"]
    assert sections and {section["metric"] for section in sections} == {"MSE"}


def test_the_last_search_is_shown_unless_another_is_known(tmp_path):
    store = fill(tmp_path)
    late = "2026-02-01T00:00:00+00:00"
    for seed in range(6):
        store.add(Result(made("lp", seed, 95.0 + seed, finished=late), {}))
    (section,) = shown(tmp_path)["sections"]
    assert section["lines"][1]["mean"] == pytest.approx(97.5)
    early = [r for r in store.rows() if r.backbone == "gcn" and r.finished != late]
    (group,) = groups(early)
    known = {frozenset(r.key for r in early): group.comparison}
    (section,) = shown(tmp_path, comparisons=known)["sections"]
    assert section["lines"][1]["mean"] == pytest.approx(84.5)


def test_figures_show_all_splits_of_the_last_metric(tmp_path):
    fill(tmp_path, finished="2026-01-02T00:00:00+00:00")
    fill(tmp_path, {}, metric="mae")  # earlier
    chosen = Evidence.of(tmp_path).selected("mine", "auto")
    for aggr, first in (("none", 80.0), ("lp", 82.0)):
        found = scores(chosen.of("gcn", aggr).values(), "test_score")
        assert found == {seed: first + seed for seed in range(6)}
    assert {row.settings["metric"] for row in chosen.rows} == {"accuracy"}


def test_the_command_repeats_the_search(tmp_path):
    fill(tmp_path, metric="macro_f1", split="random, pool")
    (section,) = shown(tmp_path)["sections"]
    words = shlex.split(section["command"])
    assert words[words.index("--split") + 1] == "random"
    assert words[words.index("--search") + 1] == "shared"
    assert words[words.index("--metric") + 1] == "macro_f1"
    assert "--settings" not in words


def test_an_mlp_alone_is_a_comparison(tmp_path):
    store = Store(tmp_path)
    for seed in range(2):
        for name in ("mlp", "majority"):
            store.add(Result(made("none", seed, 50.0, name), {}))
    (section,) = shown(tmp_path)["sections"]
    assert section["heading"].startswith("mine, mlp")
    assert [line["aggr"] for line in section["references"]] == ["majority class"]
