r"""Training loss against epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from meanmax.study.paper.tables import SETS
from meanmax.study.report.evidence import Evidence, good
from meanmax.study.report.figures import style
from meanmax.study.report.figures.request import FigureRequest, NothingToShow
from meanmax.study.stats.cells import Selected

NOTE = (
    "At each epoch the runs that are still training count, up to where half of them have stopped."
)


class Band(NamedTuple):
    r"""The quartiles over runs, each :obj:`[epochs]`."""

    epoch: np.ndarray
    low: np.ndarray
    middle: np.ndarray
    high: np.ndarray


def band(curves: Sequence[np.ndarray]) -> Band:
    r"""The median and the other quartiles of curves at each epoch, counted from 1.

    Runs stop at different epochs, and what the last few do is not to be compared with what all
    did: the band ends where fewer than half of them are left.

    Example:
        >>> band([np.array([1.0, 2.0]), np.array([3.0])]).middle
        array([2., 2.])

    Args:
        curves (sequence): One array for each run; values that are not finite do not count.
    """
    table = stacked(curves)
    there = np.isfinite(table).sum(axis=0)
    enough = 2 * there >= max(1, len(curves))
    enough &= there > 0
    table = table[:, enough]
    low, middle, high = np.nanquantile(table, (0.25, 0.5, 0.75), axis=0)
    return Band(np.flatnonzero(enough) + 1, low, middle, high)


def stacked(curves: Sequence[np.ndarray]) -> np.ndarray:
    r"""Curves as rows of one array, with NaN after their ends and for what is not finite."""
    longest = max((len(curve) for curve in curves), default=0)
    table = np.full((len(curves), longest), np.nan)
    for row, curve in zip(table, curves, strict=True):
        row[: len(curve)] = np.where(np.isfinite(curve), curve, np.nan)
    return table


DATA = ("cora", "citeseer", "pubmed")
BACKBONE = "gcn"


def losses(evidence: Evidence, asked: FigureRequest | None = None) -> Figure:
    r"""The training loss of each method, the median over splits with the quartiles as a band.

    Args:
        evidence (Evidence): Runs with their curves.
        asked (FigureRequest, optional): One backbone and any data sets.
            (default: GCN on Cora, Citeseer and Pubmed)
    """
    asked = asked or FigureRequest()
    backbone = (asked.backbones or (BACKBONE,))[0]
    data = asked.data or DATA
    shown, notes = {}, []
    for name in data:
        chosen = asked.selected(evidence, name)
        found = _bands(evidence, asked, chosen, backbone)
        if found:
            shown[name] = found
            notes += chosen.notes
    if not shown:
        raise NothingToShow(
            f"there are no training curves of {style.backbone_name(backbone)} on {', '.join(data)} "
            f"with {asked.what}; "
            + asked.remedy(evidence, data, [backbone], *asked.artefacts(evidence, data, backbone))
        )
    figure, grid = style.panels(len(shown))
    for axes, (name, found) in zip(grid, shown.items(), strict=True):
        for aggr, (_, curve) in found.items():
            drawn = style.look_of(aggr)
            axes.fill_between(
                curve.epoch, curve.low, curve.high, color=drawn.colour, alpha=0.18, linewidth=0
            )
            axes.plot(curve.epoch, curve.middle, drawn.line, color=drawn.colour, linewidth=1.4)
        _logarithmic(axes)
        style.title(
            axes, f"{style.data_name(name)}, {style.count_text(n for n, _ in found.values())}"
        )
        style.labels(axes, "epoch", "training loss" if axes is grid[0] else "")
    missing = [style.data_name(name) for name in data if name not in shown]
    notes += [f"Nothing on {', '.join(missing)} yet."] if missing else []
    style.heading(
        figure,
        f"{style.backbone_name(backbone)}: training loss against epoch, {asked.what}",
        f"Line: median over n splits; band: quartiles. The loss is taken with dropout. {NOTE} "
        + " ".join(notes),
        style.handles(_methods(asked, shown)),
    )
    return figure


def _bands(
    evidence: Evidence, asked: FigureRequest, chosen: Selected, backbone: str
) -> dict[str, tuple[int, Band]]:
    found = {}
    for aggr in asked.aggrs:
        arrays = [evidence.artefact(row.key) for row in good(chosen, backbone, aggr)]
        curves = [own["train_loss"] for own in arrays if own is not None and "train_loss" in own]
        if curves:
            found[aggr] = (len(curves), band(curves))
    return found


def _methods(asked: FigureRequest, shown: dict[str, dict[str, tuple[int, Band]]]) -> list[str]:
    return [aggr for aggr in asked.aggrs if any(aggr in found for found in shown.values())]


def _logarithmic(axes: Axes) -> None:
    r"""Plain numbers at 1, 2 and 5 on a logarithmic y axis, which often spans no power of ten."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


SYMBOLS = {"p": "p", "alpha": "α", "gamma": "γ"}
LEARNED = "learned/"


class Course(NamedTuple):
    r"""One parameter of one method: an array :obj:`[epochs, values]` for each split."""

    aggr: str
    layer: int
    symbol: str
    runs: list[np.ndarray]


def parameter(evidence: Evidence, asked: FigureRequest | None = None) -> Figure:
    r"""What each aggregator learned, epoch by epoch: a faint line for each split and their median.
    Where a layer has several values (one for each head or channel), lines are medians over them
    and a band shows from the least to the largest.

    Args:
        evidence (Evidence): Runs with their artefacts.
        asked (FigureRequest, optional): One backbone and any data sets.
            (default: GCN on the five sets of Table 2)
    """
    asked = asked or FigureRequest()
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


def _courses(evidence: Evidence, asked: FigureRequest, data: str, backbone: str) -> list[Course]:
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
