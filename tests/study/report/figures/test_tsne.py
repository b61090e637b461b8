from unittest import mock

import pytest

from meanmax.data import loading
from meanmax.study.report.evidence import Evidence
from meanmax.study.report.figures.request import (
    FigureRequest,
    NothingToShow,
    pictures,
)
from meanmax.study.report.figures.tsne import _styles

from ..stored import AGGRS, fill
from .drawn import draw, texts

KARATE = FigureRequest(data=("karate",))


def test_tsne_has_a_panel_and_a_silhouette_for_each_method(tmp_path):
    fill(tmp_path, data="karate", aggrs=AGGRS[:3], splits=2)
    figure = draw("tsne", Evidence.of(tmp_path), KARATE)
    assert [axes.get_title() for axes in figure.axes] == [
        "baseline",
        "Lp norm",
        "polynomial",
        "softmax",
    ]
    assert figure.axes[0].get_xlabel().startswith("silhouette ")
    assert figure.axes[0].get_xlabel().endswith("test 80.0 %"), "split 0"
    assert "no run yet" in texts(figure)
    assert "n = 34 nodes" in texts(figure)
    points = figure.axes[1].collections[1].get_offsets()
    assert points.shape == (34, 2)
    assert len(list((tmp_path / "derived").glob("tsne-*.npz"))) == 3
    assert len(list((tmp_path / "derived").glob("silhouette-*.npz"))) == 3


def test_tsne_takes_the_first_split_on_which_most_methods_have_embeddings(tmp_path):
    store = fill(tmp_path, data="karate", splits=3)
    for made in store.rows():
        if made.split_seed == 0 or (made.split_seed == 2 and made.aggr == "lp"):
            store.artefact_path(made.key).unlink()
    figure = draw("tsne", Evidence.of(tmp_path), KARATE)
    assert "split 1, seed 1" in texts(figure)
    assert "no run yet" not in texts(figure)


def test_tsne_refuses_data_that_the_runs_are_not_of(tmp_path):
    fill(tmp_path, data="karate", splits=1, data_hash="another")
    with pytest.raises(NothingToShow, match="not those that the runs"):
        draw("tsne", Evidence.of(tmp_path), KARATE)


def test_classes_differ_in_colour_or_marker():
    for count in (8, 10, 25):
        assert len(set(zip(*_styles(count), strict=True))) == count


def test_the_data_of_several_pictures_are_loaded_once(tmp_path):
    for backbone in ("gcn", "gat"):
        fill(tmp_path, data="karate", backbone=backbone, splits=1)
    evidence = Evidence.of(tmp_path)
    request = FigureRequest(data=("karate",), backbones=("gcn", "gat")).named(evidence)
    with mock.patch("meanmax.data.loading.load", wraps=loading.load) as load:
        with mock.patch("meanmax.data.load", load):
            drawn = [draw("tsne", evidence, one) for one in pictures("tsne", request).values()]
    assert len(drawn) == 2 and load.call_count == 1
