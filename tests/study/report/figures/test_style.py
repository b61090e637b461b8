from meanmax.study.paper.depth import overrides
from meanmax.study.report.evidence import Evidence
from meanmax.study.report.figures.request import (
    FigureRequest,
)
from tests.study.rows import row

from ..stored import fill
from .drawn import draw


def test_no_legend_is_wider_than_its_figure(tmp_path):
    fill(tmp_path)
    for name in ("losses", "parameter", "maxness", "forest", "depth"):
        evidence = Evidence.of(tmp_path)
        if name == "depth":
            evidence = Evidence([row("lp", 0, 70.0, overrides=overrides(3))])
        figure = draw(name, evidence, FigureRequest(data=("cora",)))
        figure.canvas.draw()
        (legend,) = figure.legends
        box = legend.get_window_extent()
        assert 0 <= box.x0 and box.x1 <= figure.bbox.x1, name
