"""The study as tables, Markdown, JSON and a page."""

from __future__ import annotations

import dataclasses
import json

import pytest
from click.testing import CliRunner

from meanmax.cli import main
from meanmax.study.report.why import FILE
from meanmax.study.store.exports import export_rows
from tests.study.report.test_epochs import limited
from tests.study.report.test_study import MIXED, UP, compared
from tests.study.report.test_why import FACTS


@pytest.fixture
def rows(tmp_path):
    """A file of rows with facts beside it."""
    made = compared("wine", {"lp": UP, "max": MIXED}) + compared("cancer", {"softmax": MIXED})
    export_rows([*made, *limited(10, [70.0]), *limited(20, [82.0])], tmp_path / "rows.jsonl")
    other = dataclasses.replace(FACTS, data="cancer", data_hash="d-cancer", mean_degree=15.0)
    lines = [json.dumps(dataclasses.asdict(facts)) for facts in (FACTS, other)]
    (tmp_path / FILE).write_text("\n".join(lines), encoding="utf-8")
    return tmp_path / "rows.jsonl"


def run(*words):
    return CliRunner().invoke(main, ["reproduce", "study", *map(str, words)])


def test_all_tables_are_printed(rows):
    text = run("--store", rows).stdout
    assert text.startswith("Compared with an equally tuned baseline on 2 tasks")
    for title in ("Every task with equal", "Learned aggregator − baseline", "What predicts"):
        assert title in text
    assert "it passes the paper's 81.24 within 20 epochs; with 10 it has 70.00." in text
    assert "meanmax compare --data photo --backbone gcn" in text


def test_markdown_has_scores_marks_and_dashes(rows):
    lines = run("--store", rows, "--markdown").stdout.splitlines()
    (wine,) = [line for line in lines if line.startswith("| wine, gcn, accuracy")]
    assert wine.split(" | ")[1:] == [
        "10",
        "80.2 ± 1.5",
        "81.2 ± 1.4 ▲",
        *["–"] * 3,
        "80.3 ± 1.5",
        "–",
        "yes |",
    ]
    (first, *_) = [line for line in lines if line.startswith("| wine, gcn | lp")]
    assert "+1.00 [" in first
    assert "| mean degree | 2 | –" in "\n".join(lines) and "too few data sets" in "\n".join(lines)


def test_json_holds_tasks_points_and_epochs(rows):
    facts = json.loads(run("--store", rows, "--json").stdout)
    assert facts["counts"] == {"better": 1, "worse": 0, "both": 0, "level": 1, "too few": 0}
    assert {point["data"] for point in facts["why"]["points"]} == {"wine", "cancer"}
    assert facts["why"]["correlations"][0]["rho"] is None  # of two data sets
    assert facts["epochs"][0]["points"][1] == {"epochs": 20, "n": 1, "mean": 82.0, "std": None}
    assert len(facts["missing"]) > 30


def test_the_page_links_its_figures_and_rows(rows, tmp_path):
    page = tmp_path / "docs" / "results.md"
    page.parent.mkdir()
    result = run("--store", rows, "--page", page)
    assert result.exit_code == 0, result.output
    text = page.read_text("utf-8")
    assert text.startswith(
        "# Where learned aggregation helps\n\nMade from [the rows](../rows.jsonl)"
    )
    for name in ("tasks", "why"):
        assert f"](figures/{name}.png)" in text
        assert (page.parent / "figures" / f"{name}.png").stat().st_size > 10_000
    assert text.index("Compared with") < text.index("figures/tasks.png") < text.index("**Every")
    assert "## What would change our mind" in text and "\n\n\n" not in text


def test_a_page_without_comparisons_says_so(tmp_path):
    export_rows(limited(10, [70.0]), tmp_path / "rows.jsonl")
    result = run("--store", tmp_path / "rows.jsonl", "--page", tmp_path / "results.md")
    assert result.exit_code == 0, result.output
    text = (tmp_path / "results.md").read_text("utf-8")
    assert "No task has a learned aggregator" in text and "![" not in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--splits", "3"], "--splits has no effect on 'study'"),
        (["--data", "cora"], "--data has no effect on 'study'"),
        (["--figures-dir", "x"], "--figures-dir has no effect on 'study'"),
    ],
)
def test_options_without_effect_are_refused(rows, words, message):
    result = run("--store", rows, *words)
    assert result.exit_code == 2 and message in result.stderr


def test_only_the_study_is_a_page(rows):
    words = ["reproduce", "table2", "--no-run", "--store", str(rows), "--page", "x.md"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2 and "--page has no effect on 'table2'" in result.stderr
