"""The page and its content, from stores of every condition."""

import base64
import dataclasses
import hashlib
import json
import re
import shlex
from html.parser import HTMLParser
from unittest import mock

import numpy as np
import pytest

from meanmax.study.paper.depth import overrides
from meanmax.study.report.embeddings import LabelSource, Layout
from meanmax.study.report.evidence import Evidence
from meanmax.study.report.groups import groups
from meanmax.study.report.page import (
    content,
    embedded,
    number,
    p_value,
    render,
    signed,
    write_report,
)
from meanmax.study.runs.row import Result
from meanmax.study.store.exports import export_rows
from meanmax.study.store.store import Store, StoreError

from ..made_runs import failed
from .made_pages import ATTACK, arrays, fill, hostile_store, run


class Reader(HTMLParser):
    """Elements, texts and addresses of a page."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.texts, self.addresses = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data):
        self.texts.append(data)


def page(folder, **options):
    return write_report(folder, **options).read_text("utf-8")


def shown(folder, **options):
    return content(Evidence.of(folder, tolerant=True), **options)


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
    assert shown(tmp_path, settings_name="tuned")["sections"] == []


def test_curves_are_medians_thinned_to_200_epochs(tmp_path):
    fill(tmp_path)
    (section,) = shown(tmp_path)["sections"]
    loss = section["charts"][0]
    assert loss["title"] == "Training loss"
    line = loss["lines"][1]
    assert len(line["x"]) == 200 and line["x"][0] == 1 and line["x"][-1] == 300
    assert line["mid"][0] == 1.0 and line["mid"][-1] == pytest.approx(1 / 300, rel=1e-3)
    assert [chart["title"] for chart in section["charts"]][-1] == "Learned parameter"


def test_attacks_in_names_stay_text(tmp_path):
    store, data = hostile_store(tmp_path)
    html = page(store.folder, datasets=[data], title=ATTACK)
    assert ATTACK not in html and "alert(1)</script>" not in html
    reader = Reader(html)
    assert reader.tags.count("script") == 2
    assert ATTACK in "".join(reader.texts)
    (section,) = shown(store.folder, labels=LabelSource([data]))["sections"]
    scatter = section["scatter"]
    assert scatter["ids"][3] == f"{ATTACK}3" and scatter["class_names"][0] == ATTACK
    assert [panel["aggr"] for panel in scatter["panels"]] == ["none", "lp", "softmax"]


def test_embedded_json_is_what_it_was():
    value = {"text": "</script><!-- & \u2028\u2029 é", "numbers": [1, None, 0.5]}
    text = str(embedded(value))
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == value
    with pytest.raises(ValueError, match="JSON"):
        embedded(float("nan"))


def test_only_the_pages_own_script_may_run_and_nothing_is_loaded(tmp_path):
    fill(tmp_path, splits=1)
    html = page(tmp_path)
    script = html.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1]
    assert f"sha256-{digest}" in policy.replace("&#43;", "+")
    assert "unsafe" not in policy and "default-src &#39;none&#39;" in policy
    assert all(address.startswith("#") for address in Reader(html).addresses)


def test_an_empty_store_says_so(tmp_path):
    Store(tmp_path)
    texts = " ".join(Reader(page(tmp_path)).texts)
    assert "There are no runs here yet" in texts and "meanmax compare --data digits" in texts


def test_failed_diverged_single_and_missing_runs_are_told(tmp_path):
    store = fill(tmp_path, aggrs=("none",), splits=2)
    store.add(Result(run(300, "lp", 0, score=81.0), {}))
    for key, split, status in ((301, 1, "failed"), (302, 2, "diverged")):
        settings = run(0, "lp", 0).settings
        facts = {"data": "cora", "aggr": "lp", "settings": settings, "status": status}
        facts |= {"split_seed": split, "split_hash": f"split {split}"}
        store.add(Result(failed(key, **facts), {}))
    text = " ".join(" ".join(Reader(page(tmp_path)).texts).split())
    assert "2 failed (1 diverged)" in text
    assert "failed on split 1: ValueError: no" in text
    assert "missing runs: none 1" in text
    assert "A single run says nothing about the spread over splits: lp." in text


def test_without_a_baseline_nothing_is_compared(tmp_path):
    fill(tmp_path, aggrs=("lp", "softmax"))
    found = shown(tmp_path)
    assert found["sections"][0]["forest"] is None
    assert "was not run" in found["sections"][0]["notes"][0]
    assert "was not run" in page(tmp_path)


def test_an_export_gives_a_page_without_curves(tmp_path):
    store = fill(tmp_path / "store", splits=2)
    export_rows(store.rows(), tmp_path / "rows.jsonl")
    path = write_report(tmp_path / "rows.jsonl")
    assert path == tmp_path / "report.html"
    assert "Curves need the artefacts" in path.read_text("utf-8")


def test_a_damaged_artefact_is_a_note(tmp_path):
    store = fill(tmp_path, splits=2)
    store.artefact_path(store.rows()[0].key).write_bytes(b"no archive")
    found = shown(tmp_path)
    assert len(found["problems"]) == 1 and "damaged" in found["problems"][0]
    assert found["sections"][0]["charts"][0]["lines"][0]["runs"] == 1


def test_several_data_sets_become_the_papers_tables(tmp_path):
    fill(tmp_path)
    store = Store(tmp_path)
    for place, aggr in enumerate(("none", "lp")):
        for split in range(6):
            made = run(500 + 100 * place + split, aggr, split, data="photo", data_hash="e" * 20)
            store.add(Result(made, arrays(aggr)))
    found = shown(tmp_path)
    second, third = found["matrices"]
    assert second["sets"] == ["cora", "photo"] and third["title"].startswith("Table 3")
    assert second["rows"][0]["cells"][1]["ours"] == 80.0
    assert second["rows"][2]["cells"][1] is None
    assert found["sentences"][0]["text"].startswith("Of 3 comparisons")


def test_comparisons_with_one_name_are_told_apart_by_their_splits(tmp_path):
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


def test_each_data_set_has_a_forest_that_tells_splits_apart_and_counts_them(tmp_path):
    fill(tmp_path, splits=6)
    for place, (split, data) in enumerate((("public", "cora"), ("citation", "photo"))):
        for seed in range(3):
            for aggr, score in (("none", 70.0), ("lp", 71.0 + seed)):
                number = 5000 + 100 * place + 10 * seed + (aggr == "lp")
                made = run(number, aggr, seed, score=score, data=data, split_hash=f"{split}{seed}")
                Store(tmp_path).add(Result(dataclasses.replace(made, split=split), {}))
    cora, photo = shown(tmp_path)["forests"]
    assert (cora["data"], photo["data"]) == ("cora", "photo")
    places = list(dict.fromkeys(line["place"] for line in cora["plot"]["lines"]))
    assert len(places) == 2 and any("public" in place for place in places)
    lines = {(line["place"], line["aggr"]): line for line in cora["plot"]["lines"]}
    many = next(line for line in lines.values() if line["pairs"] == 6 and line["aggr"] == "lp")
    few = next(line for line in lines.values() if line["pairs"] == 3)
    assert (many["few"], few["few"]) == (False, True)
    assert many["from"] is not None and few["from"] is None, "three splits have no interval"
    assert "n 3</span>" in page(tmp_path)


def test_layers_of_one_method_have_dashes_of_their_own(tmp_path):
    both = arrays("lp")
    both["learned/layers.1.p"] = 2 * both["learned/layers.0.p"]
    Store(tmp_path).add(Result(run(1, "lp", 0), both))
    Store(tmp_path).add(Result(run(2, "softmax", 0), arrays("softmax")))
    (chart,) = [c for c in shown(tmp_path)["sections"][0]["charts"] if "Learned" in c["title"]]
    dashes = [(line["label"], line.get("dash")) for line in chart["lines"]]
    assert dashes == [("lp: p, layer 1", 0), ("lp: p, layer 2", 1), ("softmax: γ, layer 1", None)]


def test_maxness_is_told_for_each_layer(tmp_path):
    for split, value in enumerate((0.2, 0.4)):
        deep = {f"layers.{layer}": value + layer for layer in (0, 10, 2)}
        Store(tmp_path).add(Result(run(split, "lp", split, maxness=deep), {}))
    (line,) = shown(tmp_path)["sections"][0]["lines"]
    assert line["layers"] == pytest.approx([0.3, 2.3, 10.3]), "the tenth comes after the second"
    assert "0.30 · 2.30 · 10.30" in page(tmp_path)


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


def test_numbers_are_written_for_people():
    assert [number(-1.234), number(None), signed(0.5), signed(-0.25, 1)] == [
        "−1.23",
        "–",
        "+0.50",
        "−0.2",
    ]
    assert [p_value(None), p_value(0.0004), p_value(0.04321)] == ["–", "< 0.001", "0.043"]


def test_a_page_that_cannot_be_written_is_a_clear_error(tmp_path):
    fill(tmp_path, splits=1)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file"):
        write_report(tmp_path, tmp_path / "file" / "report.html")


def test_the_page_shows_the_comparison_of_the_table(tmp_path):
    store = fill(tmp_path)
    (group,) = groups(store.rows())
    lines = [dataclasses.replace(line, mean=12.5) for line in group.comparison.lines]
    table = dataclasses.replace(group.comparison, lines=lines, metric="micro-F1")
    known = {frozenset(row.key for row in store.rows()): table}
    with mock.patch("meanmax.study.report.groups.compare") as compare:
        (section,) = shown(tmp_path, comparisons=known)["sections"]
    assert compare.call_count == 0
    assert section["metric"] == "micro-F1" and {x["mean"] for x in section["lines"]} == {12.5}
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


def test_the_caveat_is_for_random_splits(tmp_path):
    fill(tmp_path / "random")
    assert shown(tmp_path / "random")["caveat"].startswith("Random splits")
    for seed in range(2):
        made = run(seed, "none", seed, split_hash="one", seed=seed)
        Store(tmp_path / "one").add(Result(made, {}))
    assert shown(tmp_path / "one")["caveat"] == ""
