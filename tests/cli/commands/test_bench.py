import json

import pytest
import torch
from click.testing import CliRunner

from meanmax.cli import main
from meanmax.cli.commands.bench import tables
from meanmax.cli.tables import print_out
from meanmax.study.bench import cases
from meanmax.study.bench.competitors import COMPETITORS, PASSES, Competitor
from meanmax.study.bench.report import failures

from ...study.bench.small import full_result, small_result

SMALL = "bench --quick --nodes 60 --no-memory --repeats 1".split()


def invoke(*args, env=None):
    return CliRunner().invoke(main, [*args], env={"MEANMAX_DATA": None, **(env or {})})


def test_help_shows_defaults():
    result = invoke("bench", "--help")
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    for shown in ("[default: 13752;", "[default: 505000;", "[default: bench-results]",
                  "MEANMAX_DATA"):  # fmt: skip
        assert shown in text


def test_table_and_files(tmp_path):
    result = invoke(*SMALL, "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert all(competitor.label in result.stdout for competitor in COMPETITORS.values())
    assert "note: amazon-computers skipped" in result.stdout
    assert "quick sizes" in result.stdout
    assert "written:" in result.stderr
    written = json.loads((tmp_path / "out" / "bench.json").read_text())
    assert all(row["median_ms"] > 0 for row in written["graphs"][0]["results"])
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "bench.json",
        "bench.png",
        "bench.svg",
    }


def test_json_on_stdout_is_the_file(tmp_path):
    result = invoke(*SMALL, "--json", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == json.loads((tmp_path / "bench.json").read_text())


def test_a_competitor_that_fails_ends_with_an_error_after_writing(tmp_path, monkeypatch):
    def broken(inputs):
        return {key: lambda: torch.zeros(2) @ torch.zeros(3) for key in PASSES}

    monkeypatch.setitem(COMPETITORS, "max-torch", Competitor("max-torch", "max (torch)", broken))
    result = invoke(*SMALL, "--out", str(tmp_path))
    assert_message(result, "not everything could be measured", "power-law, max (torch), forward")
    assert (tmp_path / "bench.png").exists()


@pytest.mark.parametrize(
    "kind, shown",
    [
        ("cases", ["one graph", "512 graphs", "next to a process that does the same", "× alone"]),
        ("small", ["drop-in, fresh", "Graph, reused", "2,000", "1 of"]),
    ],
)
def test_cases_and_small_graphs(tmp_path, monkeypatch, kind, shown):
    monkeypatch.setattr(cases, "GROUPS", (cases.MANY,))
    monkeypatch.setattr(cases, "THREADS", (1,))
    result = invoke("bench", f"--{kind}", "--quick", "--repeats", "1", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert all(text in result.stdout for text in shown), result.stdout
    assert [path.name for path in tmp_path.iterdir()] == [f"{kind}.json"]
    assert json.loads((tmp_path / f"{kind}.json").read_text())[kind]


def test_one_bench_at_a_time():
    assert_message(invoke("bench", "--cases", "--small"), "choose one")


def test_unwritable_folder(tmp_path):
    (tmp_path / "file").write_text("in the way")
    result = invoke(*SMALL, "--out", str(tmp_path / "file" / "out"))
    assert_message(result, "cannot write to", "choose another folder with --out")


@pytest.mark.parametrize("by", ["option", "variable"])
def test_bad_data_file(tmp_path, by):
    (tmp_path / "amazon_electronics_computers.npz").write_bytes(b"broken")
    folder = str(tmp_path)
    out = ("--out", str(tmp_path / "out"))
    if by == "option":
        result = invoke(*SMALL, *out, "--data-dir", folder)
    else:
        result = invoke(*SMALL, *out, env={"MEANMAX_DATA": folder})
    assert_message(result, "is not a graph in gnn-benchmark's .npz format", "download it again")


def test_impossible_graph(tmp_path):
    result = invoke("bench", "--nodes", "10", "--edges", "5000", "--out", str(tmp_path))
    assert_message(result, "change --nodes or --edges")


def test_bad_option():
    result = invoke("bench", "--threads", "0")
    assert_message(result, "--threads")


def test_tables_name_everything(capsys):
    print_out(*tables(small_result()))
    text = capsys.readouterr().out
    assert all(competitor.label in text for competitor in COMPETITORS.values())
    assert all(f"power-law: {key}, 60 nodes, 400 edges, 4 channels" in text for key in PASSES)
    assert "[nodes, channels]" in text
    assert "float32" in text
    assert "note: amazon-computers skipped" in text


def test_tables_of_a_full_result(capsys):
    result = full_result()
    print_out(*tables(result))
    text = capsys.readouterr().out
    assert "failed" in text
    assert "power-law, linear sum (numba), forward: RuntimeError: broken" in failures(result)
    assert "sweep: forward+backward" in text
    assert "all three aggregators" in text


def assert_message(result, *parts):
    assert result.exit_code != 0
    assert isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    text = " ".join(result.stderr.split())
    assert all(part in text for part in parts), text


@pytest.mark.parametrize(
    "words",
    [
        ("--max-edges", "9"),
        ("--layers", "--nodes", "9"),
        ("--small", "--cold"),
        ("--accelerate", "--no-memory"),
    ],
)
def test_options_without_effect(words):
    assert_message(invoke("bench", *words), "has no effect", "leave it out")
