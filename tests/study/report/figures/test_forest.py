import pytest

from meanmax.study.report.evidence import Evidence

from ..stored import fill
from .drawn import draw


def test_the_forest_shows_ours_and_the_papers_difference(tmp_path):
    fill(tmp_path)
    figure = draw("forest", Evidence.of(tmp_path))
    (axes,) = figure.axes
    marked = {m: [] for m in "s^Dd"}
    for line in axes.lines:
        if line.get_marker() in marked:
            marked[line.get_marker()] += list(line.get_xdata())
    assert [marked[m] for m in "s^D"] == [[1.0], [2.0], [3.0]]
    assert marked["d"][0] == pytest.approx(82.57 - 81.24)
    assert axes.get_yticklabels()[0].get_text() == "GCN, Lp norm"
    lower, upper = axes.get_ylim()
    assert lower > upper, "the first method is on top"
