r"""Accuracy against depth as a chart of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from meanmax.study.paper.depth import (SETS, SPLITS, Depth, by_depth, comparable)
from meanmax.study.runs.row import Row
from meanmax.study.paper.tables import AGGRS
from meanmax.study.report.lines import colour


def depths(rows: Sequence[Row]) -> dict[str, Any] | None:
    r"""A chart for each data set that was run at several depths, or :obj:`None`.

    The runs are those of :mod:`meanmax.study.paper.depth`; a line is the mean over splits with the
    least and the largest score.

    Args:
        rows (sequence): The runs of the page.
    """
    charts = []
    for data in SETS:
        points = comparable(by_depth(rows, data))
        if len({point.layers for point in points}) > 1:
            lines = [_line(aggr, [p for p in points if p.aggr == aggr]) for aggr in AGGRS]
            splits = max(len(point.scores) for point in points)
            title = f"{data} ({splits} split{'' if splits == 1 else 's'})"
            charts.append({"title": title, "axis": "layers", "lines": [x for x in lines if x["x"]]})
    return {"id": "depths", "charts": charts, "wanted": SPLITS} if charts else None


def _line(aggr: str, points: Sequence[Depth]) -> dict[str, Any]:
    return {
        "aggr": aggr,
        "label": aggr,
        "colour": colour(aggr, list(AGGRS)),
        "runs": sum(len(point.scores) for point in points),  # at all depths together
        "x": [point.layers for point in points],
        "mid": [round(point.mean, 2) for point in points],
        "low": [round(min(point.scores), 2) for point in points],
        "high": [round(max(point.scores), 2) for point in points],
    }
