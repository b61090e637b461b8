import subprocess
import sys

import pytest

from meanmax.study.report.evidence import Evidence
from meanmax.study.report.figures.request import (
    FIGURES,
    FigureRequest,
    NothingToShow,
    pictures,
    write_figure,
)
from meanmax.study.store.store import Store
from tests.study.rows import row

from ..stored import AGGRS, fill
from .drawn import draw, texts


def test_the_command_repeats_rows_without_artefacts(tmp_path):
    rows = fill(tmp_path / "full").rows()
    Store(tmp_path / "bare").merge(rows)
    for name in ("losses", "parameter"):
        with pytest.raises(NothingToShow, match="--artefacts --store"):
            draw(name, Evidence.of(tmp_path / "bare"))
    with pytest.raises(NothingToShow, match="--data cora --backbone gcn --splits 1 --artefacts"):
        draw("tsne", Evidence.of(tmp_path / "bare"), FigureRequest(data=("cora",)))
    with pytest.raises(NothingToShow, match="--data pubmed --backbone gcn --splits 1 --store"):
        draw("tsne", Evidence.of(tmp_path / "bare"), FigureRequest(data=("pubmed",)))


@pytest.mark.parametrize("name", [name for name, kind in FIGURES.items() if kind.needs_runs])
def test_without_runs_the_command_that_makes_them_is_named(name):
    with pytest.raises(NothingToShow, match="meanmax (reproduce|compare)"):
        draw(name, Evidence())


def test_equal_figures_are_equal_files_that_hold_text(tmp_path):
    evidence = Evidence([row(a, s, 80.0 + s) for a in AGGRS for s in range(2)])
    for folder in ("a", "b"):
        write_figure(draw("forest", evidence), tmp_path / folder, "forest")
    for kind in ("svg", "png"):
        one, two = ((tmp_path / f / f"forest.{kind}").read_bytes() for f in "ab")
        assert one == two
    assert b">Cora, n = 2</text>" in (tmp_path / "a" / "forest.svg").read_bytes()


def test_each_picture_of_a_request_has_a_name():
    both = FigureRequest(data=("cora", "my/own $graph"), backbones=("gcn", "gat"))
    assert len(pictures("tsne", both)) == 4
    assert "tsne-gat-own__graph" in pictures("tsne", both)
    assert list(pictures("losses", both)) == [
        "losses-gcn-cora-own__graph",
        "losses-gat-cora-own__graph",
    ]
    assert list(pictures("path", both)) == ["path"]


def test_figures_show_the_data_and_settings_that_the_store_holds(tmp_path):
    fill(tmp_path, data="karate", backbone="gat", settings_name="default", aggrs=("none", "lp"))
    evidence = Evidence.of(tmp_path)
    for name in ("losses", "parameter", "maxness", "forest"):
        (request,) = pictures(name, FigureRequest(), evidence).values()
        figure = draw(name, evidence, request)
        assert "default settings" in texts(figure) and "karate, n = 3" in texts(figure)
    assert list(pictures("tsne", FigureRequest(), evidence)) == ["tsne-gat-karate"]
    assert list(pictures("losses", FigureRequest(), evidence)) == ["losses-gat"]
    with pytest.raises(NothingToShow, match="there are runs with --settings default"):
        draw("losses", evidence, FigureRequest(data=("karate",), settings_name="published"))


def test_published_runs_come_before_others(tmp_path):
    fill(tmp_path, settings_name="default", splits=4, tag="default")
    fill(tmp_path, splits=2)
    assert "Cora, n = 2" in texts(draw("losses", Evidence.of(tmp_path)))


def test_runs_of_a_settings_file_that_is_not_here_are_shown(tmp_path):
    fill(tmp_path, settings_name="mine.toml", splits=2)
    figure = draw("maxness", Evidence.of(tmp_path))
    assert "mine.toml settings" in texts(figure) and "Cora, n = 2" in texts(figure)


def test_the_list_of_figures_needs_neither_torch_nor_matplotlib():
    code = (
        "import sys, meanmax.study.report.figures.request as f; assert len(f.FIGURES) == 9; "
        "print(sorted({'torch', 'torch_geometric', 'matplotlib', 'sklearn'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
