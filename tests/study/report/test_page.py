"""The page from stores of every condition."""

import base64
import hashlib
import json
import re

import pytest

from meanmax.study.report.embeddings import LabelSource
from meanmax.study.report.page import (
    embedded,
    number,
    p_value,
    signed,
    write_report,
)
from meanmax.study.runs.row import Result
from meanmax.study.store.store import Store, StoreError

from ..made_runs import failed
from .made_pages import ATTACK, Reader, fill, hostile_store, page, run, shown


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


def test_failed_diverged_single_and_missing_runs_are_noted(tmp_path):
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


def test_the_caveat_is_for_several_splits(tmp_path):
    fill(tmp_path / "random")
    assert shown(tmp_path / "random")["caveat"].startswith("Splits of the same data")
    for seed in range(2):
        made = run(seed, "none", seed, split_hash="one", seed=seed)
        Store(tmp_path / "one").add(Result(made, {}))
    assert shown(tmp_path / "one")["caveat"] == ""
