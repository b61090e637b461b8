"""The tables of README.md and the site are those of the stored results."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("generated", ROOT / "docs" / "generated.py")
generated = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generated)

pytestmark = pytest.mark.skipif(not generated.ROWS.is_file(), reason="an sdist has no results")


@pytest.mark.parametrize("page", generated.PAGES)
def test_tables_are_those_of_the_stored_results(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert text == generated.filled(text), "run `make tables`"


def test_a_changed_table_is_seen():
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    name = generated.compared()[0].heading
    changed = text.replace(f"| {name}", "| another one")
    assert changed != text
    assert generated.filled(changed) == text


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """An empty folder in place of the stored benches."""
    monkeypatch.setattr(generated, "BENCH", tmp_path)
    generated.benches.cache_clear()
    yield tmp_path
    generated.benches.cache_clear()


def test_benches_that_were_not_run_are_said_to_be_missing(bench):
    for part in ("speed", "accelerated", "layers", "small", "aggregators"):
        assert generated.PARTS[part]() == "No run is stored yet: `make bench-docs` measures it.\n"


def test_one_bench_is_enough(bench):
    shutil.copy(ROOT / "results" / "bench" / "small.json", bench)
    assert "aggregators by size on 1 thread" in generated.speed()
    assert generated.layers().startswith("No run")


def test_a_changed_bench_is_seen(bench):
    result = json.loads((ROOT / "results" / "bench" / "small.json").read_text())
    (row,) = (
        row
        for row in result["small"][-1]["results"]
        if (row["aggregator"], row["route"]) == ("softmax", "Graph, reused")
    )
    row["ratio_to_pyg_softmax"] = 1 / 12345
    (bench / "small.json").write_text(json.dumps(result))
    for page in ("README.md", "docs/speed.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert "12345 (200,000 edges)" not in text
        assert "12345 (200,000 edges)" in generated.filled(text)


def test_what_could_not_be_measured_is_a_dash(bench):
    result = json.loads((ROOT / "results" / "bench" / "small.json").read_text())
    for row in result["small"][0]["results"]:
        row["ratio_to_pyg_softmax"] = None
    (bench / "small.json").write_text(json.dumps(result))
    assert "| 200 | – | – | – | – |\n" in generated.small()
    assert "(200 edges)" not in generated.speed()
