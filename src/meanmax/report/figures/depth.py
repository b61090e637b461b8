r"""Accuracy against depth."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meanmax.experiments.depth import SETS, SPLITS, Depth, by_depth
from meanmax.report.evidence import Evidence
from meanmax.report.figures import look
from meanmax.report.figures.asked import Asked, NothingToShow

BACKBONE = "gcn"
COMMAND = "meanmax reproduce figures"


def depth(evidence: Evidence, asked: Asked | None = None) -> Figure:
    r"""Test accuracy of each method against its number of layers, the mean over splits with the
    range as a band.

    The runs are those of :mod:`meanmax.experiments.depth`: hidden activation off, the aggregator
    in every layer but the last, otherwise the published settings.

    Args:
        evidence (Evidence): The runs.
        asked (Asked, optional): One backbone and any data sets.
            (default: GCN on Cora, Citeseer and Pubmed)
    """
    asked = asked or Asked()
    backbone = (asked.backbones or (BACKBONE,))[0]
    data = asked.data or SETS
    if asked.settings_name != "published" or asked.overrides:
        raise NothingToShow(
            f"depth is shown with published settings alone (got {asked.what}): leave them out"
        )
    found = {
        name: by_depth(evidence.rows, name, backbone=backbone, aggrs=asked.aggrs) for name in data
    }
    shown = {name: points for name, points in found.items() if any(p.scores for p in points)}
    if not shown:
        raise NothingToShow(
            f"there are no runs of {look.backbone_name(backbone)} at several depths on "
            f"{', '.join(data)}; this makes them: {COMMAND}"
        )
    figure, grid = look.panels(len(shown))
    for axes, (name, points) in zip(grid, shown.items(), strict=True):
        _draw(axes, points, asked.aggrs)
        counts = [len(point.scores) for point in points]
        look.title(axes, f"{look.data_name(name)}, {look.count_text(counts)}")
        look.labels(axes, "layers", "test accuracy, %" if axes is grid[0] else "")
    aggrs = [a for a in asked.aggrs if any(p.aggr == a for ps in shown.values() for p in ps)]
    look.heading(
        figure,
        f"{look.backbone_name(backbone)}: accuracy against depth, hidden activation off",
        "Mean over n splits; band: least to largest. Published settings, but no hidden activation "
        "and the aggregator in every layer except the last. " + _notes(found),
        look.handles(aggrs, markers=True),
    )
    return figure


def _draw(axes: Axes, points: list[Depth], aggrs: tuple[str, ...]) -> None:
    for aggr in aggrs:
        own = [point for point in points if point.aggr == aggr and point.scores]
        layers = np.array([point.layers for point in own])
        look_ = look.look_of(aggr)
        low = [min(point.scores) for point in own]
        high = [max(point.scores) for point in own]
        axes.fill_between(layers, low, high, color=look_.colour, alpha=0.13, linewidth=0)
        axes.plot(
            layers,
            [point.mean for point in own],
            look_.line,
            color=look_.colour,
            marker=look_.marker,
            markersize=4,
            linewidth=1.4,
        )
    axes.set_xticks(sorted({point.layers for point in points}))


def _notes(found: dict[str, list[Depth]]) -> str:
    missing = [look.data_name(name) for name, points in found.items() if not points]
    notes = [f"Nothing on {', '.join(missing)} yet."] if missing else []
    fewer = [point for points in found.values() for point in points if len(point.scores) < SPLITS]
    failed = sum(point.failed for point in fewer)
    if failed:
        notes.append(f"{failed} runs did not end well and are left out.")
    return " ".join(notes)
