import io
import json

import pytest
from click.testing import CliRunner
from rich.console import Console

from meanmax.cli import main
from meanmax.cli.commands.results import cells_tables
from meanmax.study.runs.row import Result
from meanmax.study.settings.settings import settings_for
from meanmax.study.stats.cells import cells
from meanmax.study.store.exports import export_rows, read_curves, read_rows
from meanmax.study.store.store import Store

from ...study.made_runs import failed, result, row


def invoke(*args):
    return CliRunner().invoke(main, ["results", *map(str, args)])


def lines(result):
    """The cells of a printed table, line by line."""
    assert result.exit_code == 0, result.output
    found = [line for line in result.stdout.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in found]


def settings(aggr="softmax", name="published", **overrides):
    return settings_for(name, "gcn", aggr, "karate", overrides)


@pytest.fixture
def folder(tmp_path):
    store = Store(tmp_path / "runs")
    for number, score in enumerate((70.0, 72.0, 74.0)):
        metrics = {"test_score": score, "val_score": 60.0}
        store.add(
            result(
                number,
                settings=settings(),
                metrics=metrics,
                learned={"layers.0.gamma": [1.0 + number, 2.0 + number]},
                seconds=(1.0, 2.0, 9.0)[number],
                alone=number < 2,
            )
        )
    store.add(Result(failed(3, settings=settings()), {}))
    store.add(Result(failed(4, settings=settings(), status="diverged"), {}))
    changed = settings(lr=0.5, learn=False, edge_dropout=None)
    store.add(result(5, settings=changed, alone=False))
    store.add(result(6, aggr="none", settings=settings("none"), learned={}, alone=False))
    return tmp_path / "runs"


def test_show_has_a_line_for_each_method_and_its_settings(folder):
    result = invoke("show", "--store", folder)
    baseline, published, changed, *more = lines(result)
    assert result.stdout.startswith("karate, splits: balanced")
    assert published == [
        "gcn",
        "softmax",
        "published",
        "3",
        "1, 1 diverged",
        "72.00 ± 2.00",
        "60.00 ± 0.00",
        "1.5",
        "0.gamma 2.50",
    ]
    assert baseline[1:6] == ["none", "published", "1", "0", "72.00"]
    assert baseline[7:] == ["(1.5)", "–"]
    assert changed[3:6] == ["1", "0", "71.67"]
    settings = "".join([changed[2], *(line[2] for line in more)]).replace(" ", "")
    assert settings == "published,learn=false,lr=0.5,edge_dropout=none"


def test_settings_are_not_broken_inside_a_word_in_120_columns(tmp_path):
    store = Store(tmp_path)
    changed = settings(aggregator_lr=0.001, aggregator_loss="val")
    facts = {"aggr": "softmax", "data": "a-data-set-of-ones-own", "split": "file:some_splits.npz"}
    learned = {f"layers.{layer}.gamma": [1.0] for layer in range(3)}
    made = row(1, settings=changed, backbone="masked_gcn", learned=learned, seconds=123.4, **facts)
    store.add(Result(made, {}))
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(cells_tables(cells(store.rows())))
    words = {word.strip(",") for word in console.export_text().split()}
    assert {"aggregator_lr=0.001", "aggregator_loss=val", "2.gamma"} <= words
    assert facts["split"] in words


def test_show_as_json(folder):
    found = json.loads(invoke("show", "--store", folder, "--json").stdout)
    assert [cell["aggr"] for cell in found] == ["none", "softmax", "softmax"]
    published, changed = found[1:]
    assert published["test"] == [72.0, 2.0] and changed["test"][1] is None
    assert (published["n"], published["failed"], published["diverged"]) == (3, 1, 1)
    assert (published["seconds"], published["alone"]) == (1.5, True)
    assert published["settings"] == settings() and published["changed"] == {}
    assert changed["changed"] == {"lr": 0.5, "learn": False, "edge_dropout": None}
    assert published["learned"] == {"layers.0.gamma": 2.5}


def test_show_filters(folder, tmp_path):
    shown = invoke("show", "--store", folder, "--aggr", "none", "--backbone", "gcn,", "--json")
    assert [cell["aggr"] for cell in json.loads(shown.stdout)] == ["none"]
    refused = invoke("show", "--store", folder, "--aggr", "lp")
    assert refused.exit_code == 2
    assert "no runs with 'lp': there are none, softmax" in " ".join(refused.output.split())
    assert "no such runs" in invoke("show", "--store", folder, "--settings", "default").stdout


def test_settings_of_two_files_that_are_the_same_are_one_cell(tmp_path):
    store = Store(tmp_path)
    for number, name in enumerate(("published", "default")):
        store.add(result(number, settings=settings(name="default"), settings_name=name))
    (cell,) = json.loads(
        invoke("show", "--store", tmp_path, "--settings", "default", "--json").stdout
    )
    assert cell["n"] == 2 and cell["settings_names"] == ["default", "published"]


def test_data_of_one_name_are_told_apart(tmp_path):
    store = Store(tmp_path)
    store.add(result(0))
    store.add(result(1, data_hash="e" * 20))
    shown = invoke("show", "--store", tmp_path)
    assert shown.exit_code == 0
    titles = [line.partition(",")[0] for line in shown.stdout.splitlines() if "splits:" in line]
    assert titles == ["karate (dddddd)", "karate (eeeeee)"]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_exports_can_be_shown_and_merged(folder, tmp_path, suffix):
    out, curves, new = tmp_path / f"rows{suffix}", tmp_path / "curves.parquet", tmp_path / "new"
    exported = invoke("export", "--store", folder, "--out", out, "--curves", curves)
    assert exported.exit_code == 0, exported.output
    assert f"{out}: 7 runs" in exported.stdout and "curves of 5 runs" in exported.stdout
    assert len(read_curves(curves)) == 5
    assert lines(invoke("show", "--store", out)) == lines(invoke("show", "--store", folder))
    merged = invoke("merge", out, folder, "--store", new)
    assert merged.exit_code == 0, merged.output
    assert merged.stdout.splitlines() == [f"{out}: 7 new runs", f"{folder}: 0 new runs"]
    assert sorted(read_rows(new), key=lambda one: one.key) == sorted(
        read_rows(folder), key=lambda one: one.key
    )


def test_merge_of_folders_brings_artefacts(folder, tmp_path):
    assert invoke("merge", folder, "--store", tmp_path / "new").exit_code == 0
    assert Store(tmp_path / "new").artefact(row(5).key)["val_loss"].tolist() == [2.5, 3, 3.5]


def test_errors_say_what_to_do(folder, tmp_path):
    def said(*args):
        answer = invoke(*args)
        assert answer.exit_code in (1, 2)
        return " ".join(answer.output.split())

    assert "there is no file or folder" in said("show", "--store", tmp_path / "none")
    assert "no store of runs" in said("export", "--store", tmp_path, "--out", "rows.jsonl")
    assert ".jsonl, .parquet or .csv" in said("export", "--store", folder, "--out", "rows.txt")
    assert "is the store itself" in said("merge", folder, "--store", folder)
    export_rows([row(9)], tmp_path / "good.jsonl")
    (tmp_path / "bad.jsonl").write_text("{}\n")
    new = tmp_path / "new"
    answer = said("merge", tmp_path / "good.jsonl", tmp_path / "bad.jsonl", "--store", new)
    assert "good.jsonl: 1 new run" in answer and "bad.jsonl:1 is damaged" in answer
    assert read_rows(new) == [row(9)]
