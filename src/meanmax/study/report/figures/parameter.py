r"""The learned parameter over epochs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meanmax.study.paper.tables import SETS
from meanmax.study.report.evidence import (Evidence, good)
from meanmax.study.report.figures import style
from meanmax.study.report.figures.request import (Asked, NothingToShow)
from meanmax.study.report.figures.bands import (NOTE, band, stacked)

BACKBONE = "gcn"
SYMBOLS = {"p": "p", "alpha": "α", "gamma": "γ"}
LEARNED = "learned/"


class Course(NamedTuple):
    r"""One parameter of one method: an array :obj:`[epochs, values]` for each split."""

    aggr: str
    layer: int
    symbol: str
    runs: list[np.ndarray]


def parameter(evidence: Evidence, asked: Asked | None = None) -> Figure:
    r"""What each aggregator learned, epoch by epoch: a faint line for each split and their median.
    Where a layer has several values (one for each head or channel), lines are medians over them
    and a band shows from the least to the largest.

    Args:
        evidence (Evidence): Runs with their artefacts.
        asked (Asked, optional): One backbone and any data sets.
            (default: GCN on the five sets of Table 2)
    """
    asked = asked or Asked()
    backbone = (asked.backbones or (BACKBONE,))[0]
    data = asked.data or SETS
    shown = {name: _courses(evidence, asked, name, backbone) for name in data}
    missing = [style.data_name(name) for name, courses in shown.items() if not courses]
    shown = {name: courses for name, courses in shown.items() if courses}
    if not shown:
        why = "" if evidence.folder else " (an exported file holds no parameters by epoch)"
        raise NothingToShow(
            f"there are no learned parameters of {style.backbone_name(backbone)} on "
            f"{', '.join(data)} with {asked.what}{why}; "
            + asked.remedy(evidence, data, [backbone], *asked.artefacts(evidence, data, backbone))
        )
    figure, grid = style.panels(len(shown))
    for axes, (name, courses) in zip(grid, shown.items(), strict=True):
        for course in courses:
            _draw(axes, course, layered=len({c.layer for c in courses}) > 1)
        counts = [len(course.runs) for course in courses]
        style.title(axes, f"{style.data_name(name)}, {style.count_text(counts)}")
        style.labels(axes, "epoch", "learned parameter")
        axes.margins(x=0.02)
    several = any(runs.shape[1] > 1 for cs in shown.values() for c in cs for runs in c.runs)
    each = "the median over heads or channels of one split; band: all of them. " if several else ""
    aggrs = [a for a in asked.aggrs if any(c.aggr == a for cs in shown.values() for c in cs)]
    style.heading(
        figure,
        f"{style.backbone_name(backbone)}: the learned parameter over epochs, {asked.what}",
        f"Faint: {each or 'one split. '}Bold: median over n splits. {NOTE} "
        + (f"Nothing on {', '.join(missing)} yet." if missing else ""),
        style.handles(aggrs),
    )
    return figure


def _draw(axes: Axes, course: Course, *, layered: bool) -> None:
    drawn = style.look_of(course.aggr)
    middles = [np.median(run, axis=1) for run in course.runs]
    if any(run.shape[1] > 1 for run in course.runs):
        low = np.nanmin(stacked([run.min(axis=1) for run in course.runs]), axis=0)
        high = np.nanmax(stacked([run.max(axis=1) for run in course.runs]), axis=0)
        epochs = np.arange(1, len(low) + 1)
        axes.fill_between(epochs, low, high, color=drawn.colour, alpha=0.1, linewidth=0)
    for curve in middles:
        axes.plot(np.arange(1, len(curve) + 1), curve, color=drawn.colour, alpha=0.3, linewidth=0.6)
    bold = band(middles)
    axes.plot(bold.epoch, bold.middle, drawn.line, color=drawn.colour, linewidth=1.8)
    name = f"{course.symbol}, layer {course.layer + 1}" if layered else course.symbol
    axes.annotate(
        name,
        (bold.epoch[-1], bold.middle[-1]),
        xytext=(3, 3),
        textcoords="offset points",
        color=drawn.colour,
        fontsize=style.SIZE - 1 if layered else style.SIZE + 1,
    )


def _courses(evidence: Evidence, asked: Asked, data: str, backbone: str) -> list[Course]:
    found: dict[tuple[str, int, str], list[np.ndarray]] = {}
    chosen = asked.selected(evidence, data)
    for aggr in asked.aggrs:
        for row in good(chosen, backbone, aggr):
            for name, values in (evidence.artefact(row.key) or {}).items():
                if name.startswith(LEARNED):
                    _, layer, symbol = name.removeprefix(LEARNED).split(".", 2)
                    key = (aggr, int(layer), SYMBOLS.get(symbol, symbol))
                    found.setdefault(key, []).append(values.reshape(len(values), -1))
    return [Course(*key, runs) for key, runs in sorted(found.items())]
