from __future__ import annotations

import pytest
from click.testing import CliRunner

from meanmax.cli import main

from ...study.report.stored import fill


def run(*words):
    return CliRunner().invoke(main, ["figure", *map(str, words)])


def test_a_figure_is_written_in_both_formats(tmp_path):
    fill(tmp_path / "runs")
    result = run("losses", "--store", tmp_path / "runs", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    files = [tmp_path / "out" / f"losses-gcn.{kind}" for kind in ("svg", "png")]
    assert result.stdout.split() == [str(file) for file in files]
    assert files[0].read_text("utf-8").startswith("<?xml")
    assert files[1].read_bytes().startswith(b"\x89PNG")
    assert sorted((tmp_path / "out").iterdir()) == sorted(files), "nothing else is left"


def test_missing_runs_are_an_error_with_the_command_that_makes_them(tmp_path):
    fill(tmp_path / "runs")
    words = ["--store", tmp_path / "runs", "--out", tmp_path / "out", "--settings", "default"]
    result = run("losses", *words, "--data", "pubmed")
    assert result.exit_code == 1
    expected = "meanmax reproduce table2 --data pubmed --backbone gcn --settings default --store "
    assert expected + str(tmp_path / "runs") in result.stderr
    assert not (tmp_path / "out").exists()


def test_of_several_pictures_those_that_can_be_are_drawn(tmp_path):
    fill(tmp_path / "runs")
    words = ["--store", tmp_path / "runs", "--out", tmp_path / "out", "--format", "svg"]
    result = run("maxness", *words)
    assert result.exit_code == 1
    assert result.stdout.split() == [str(tmp_path / "out" / "maxness-gcn.svg")]
    assert "maxness-gat: there are no runs of GAT" in result.stderr


def test_all_draws_what_there_is_and_lists_the_rest(tmp_path):
    fill(tmp_path / "runs", splits=2)
    words = ["--store", tmp_path / "runs", "--out", tmp_path / "out", "--format", "svg"]
    result = run("all", *words)
    assert result.exit_code == 0, result.output
    names = {path.stem for path in (tmp_path / "out").iterdir()}
    assert names == {"losses-gcn", "parameter-gcn", "maxness-gcn", "forest", "path"}
    for name in ("tsne-gcn-cora", "depth-gcn", "parameter-gat"):
        assert f"\n{name}: " in result.stderr


def test_a_graph_of_one_s_own_is_named_by_its_path(tmp_path):
    fill(tmp_path / "runs", data="my_graph")
    words = ["--store", tmp_path / "runs", "--out", tmp_path / "out", "--format", "svg"]
    for name in ("losses", "parameter", "maxness", "forest"):
        result = run(name, *words, "--data", f"{tmp_path}/my_graph/", "--backbone", "gcn")
        assert result.exit_code == 0, result.output
        text = (tmp_path / "out" / result.stdout.split()[0].rpartition("/")[2]).read_text("utf-8")
        assert "my_graph, n = 3" in text
    result = run("losses", *words, "--data", f"{tmp_path}/my_graph", "--settings", "default")
    assert result.exit_code == 1
    assert f"meanmax compare --data {tmp_path}/my_graph --backbone gcn" in result.stderr
    assert "there are runs with --settings published" in result.stderr


def test_other_aggregators_are_drawn_on_request(tmp_path):
    fill(tmp_path / "runs")
    words = ["--store", tmp_path / "runs", "--out", tmp_path, "--format", "svg"]
    assert run("losses", *words, "--aggr", "none,softmax").exit_code == 0
    text = (tmp_path / "losses-gcn.svg").read_text("utf-8")
    assert "softmax" in text and "Lp norm" not in text


def test_the_path_needs_no_runs(tmp_path):
    result = run("path", "--store", tmp_path / "none", "--out", tmp_path, "--format", "png")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "path.png").exists()
    assert not (tmp_path / "none").exists()


def test_fewer_dots_make_a_smaller_picture(tmp_path):
    sizes = []
    for dpi in (50, 100):
        result = run("path", "--out", tmp_path / str(dpi), "--format", "png", "--dpi", dpi)
        assert result.exit_code == 0, result.output
        header = (tmp_path / str(dpi) / "path.png").read_bytes()[16:24]
        sizes.append((int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")))
    assert sizes == [(350, 180), (700, 360)]


def test_a_store_that_is_not_there_is_an_error(tmp_path):
    result = run("all", "--store", tmp_path / "none", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "there is no file or folder" in result.stderr


def test_the_list_says_what_each_shows():
    result = run("--list")
    assert result.exit_code == 0
    assert "training loss against epoch" in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a figure: tsne, losses"),
        (["lossses"], "lossses"),
        (["losses", "--format", "pdf"], "there is no format 'pdf'"),
        (["losses", "--aggr", "softmx"], "did you mean 'softmax'"),
        (["losses", "--set", "epoch=3"], "did you mean 'epochs'"),
    ],
)
def test_wrong_words_are_refused(words, message):
    result = run(*words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_dots_per_inch_of_a_vector_format():
    result = run("losses", "--format", "svg", "--dpi", 300)
    assert result.exit_code == 2 and "--dpi has no effect without --format png" in result.stderr
