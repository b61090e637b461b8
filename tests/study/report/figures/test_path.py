import pytest

from meanmax.study.report.evidence import Evidence

from .drawn import draw


def test_the_path_runs_from_mean_to_max():
    (axes,) = draw("path", Evidence()).axes
    for line in axes.lines[:3]:
        height = line.get_ydata()
        assert height[0] == pytest.approx(0.425, abs=1e-5)
        assert 1.8 < height[-1] <= 2.0
