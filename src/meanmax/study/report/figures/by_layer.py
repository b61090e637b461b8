r"""Accuracy against the number of layers, and the maxness of every layer."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meanmax.study.paper.depth import DEPTHS, SETS, SPLITS, Depth, by_depth, comparable, overrides
from meanmax.study.report.charts import Band
from meanmax.study.report.evidence import Evidence, completed_runs
from meanmax.study.report.figures import style
from meanmax.study.report.figures.request import PUBLISHED, FigureRequest, NothingToShow
from meanmax.study.report.groups import maxness_by_layer

BACKBONE = "gcn"
Place: TypeAlias = tuple[float, str]
SPREAD = 0.8  # the part of a layer's width that its methods take


def depth(evidence: Evidence, request: FigureRequest) -> Figure:
    r"""Test accuracy of each method against its number of layers, the mean over splits with the
    range as a band, of the runs of :mod:`meanmax.study.paper.depth`. Data sets without runs keep an
    empty panel, and the note names the command that makes the missing runs.
    """
    name = style.backbone_name(request.backbones[0])
    if request.settings_name != PUBLISHED or request.overrides:
        raise NothingToShow(
            f"depth is shown with published settings only (got {request.settings}): leave out "
            f"--settings and --set"
        )
    found = {
        data: by_depth(evidence.rows, data, backbone=request.backbones[0], aggrs=request.aggrs)
        for data in request.data
    }
    if not any(point.scores for points in found.values() for point in points):
        raise NothingToShow(
            f"there are no runs of {name} at several depths on {', '.join(request.data)}; this "
            f"command makes them: {_command(evidence, request)}"
        )
    figure, grid = style.panels(len(found))
    for axes, (data, points) in zip(grid, found.items(), strict=True):
        shared = comparable(points)
        _draw_depths(axes, shared, request.aggrs)
        style.title(axes, data, (len(point.scores) for point in shared))
        style.labels(axes, "layers", "test accuracy, %" if axes is grid[0] else "")
    style.heading(
        figure,
        f"{name}: accuracy against depth, hidden activation off",
        "Mean over the n splits that all points have; band: least to largest. Published settings, "
        "but no hidden activation and the aggregator in every layer except the last. "
        + _depth_notes(found, request),
        style.handles(request.aggrs, markers=True),
    )
    return figure


def _draw_depths(axes: Axes, points: list[Depth], aggrs: tuple[str, ...]) -> None:
    for aggr in aggrs:
        own = [point for point in points if point.aggr == aggr and point.scores]
        values = [(p.layers, min(p.scores), p.mean, max(p.scores)) for p in own]
        band = Band(*np.array(values).reshape(-1, 4).T)
        marker = style.method_style(aggr).marker
        style.band(axes, aggr, band, alpha=0.13, marker=marker, markersize=4)
    axes.set_xticks(DEPTHS)
    axes.set_xlim(min(DEPTHS) - 0.4, max(DEPTHS) + 0.4)
    if not any(point.scores for point in points):
        axes.set_yticks([])
        style.absent(axes)


def _depth_notes(found: dict[str, list[Depth]], request: FigureRequest) -> str:
    r"""Unsuccessful runs, and missing ones with the command that makes them."""
    failed = sum(point.failed for points in found.values() for point in points)
    notes = [f"{failed} unsuccessful runs are left out."] if failed else []
    wanted = len(DEPTHS) * len(request.aggrs) * SPLITS
    short = {
        name: wanted - sum(min(SPLITS, len(p.scores) + p.failed) for p in points)
        for name, points in found.items()
    }
    missing = {name: runs for name, runs in short.items() if runs}
    if missing:
        listed = ", ".join(f"{style.data_name(name)} {runs}" for name, runs in missing.items())
        notes.append(f"Missing runs, of {wanted} each: {listed}.")
        if request.backbones[0] == BACKBONE and set(missing) <= set(SETS):
            # Without the store: its path means nothing to those who see the picture.
            command = _command(Evidence(), replace(request, data=tuple(missing)))
            notes.append(f"This command makes them: {command}")
    return " ".join(notes)


def _command(evidence: Evidence, request: FigureRequest) -> str:
    if request.backbones[0] != BACKBONE or not set(request.data) <= set(SETS):
        return " && ".join(
            replace(request, overrides=overrides(layers)).command(evidence, "--splits", str(SPLITS))
            for layers in DEPTHS
        )
    words = ["meanmax", "reproduce", "figures"]
    words += [] if request.data == SETS else ["--data", ",".join(request.data)]
    return shlex.join(words + evidence.store_option("--store"))


def maxness(evidence: Evidence, request: FigureRequest) -> Figure:
    r"""The maxness of every layer, from 0 (mean) to 1 (max): a dot for each split and a bar for
    their median, by method and data set.
    """
    name = style.backbone_name(request.backbones[0])
    shown: dict[str, dict[tuple[str, Place], list[float]]] = {}
    for data in request.data:
        chosen = request.selected(evidence, data)
        for aggr in request.aggrs:
            layers = maxness_by_layer(completed_runs(chosen, request.backbones[0], aggr))
            for layer, values in layers.items():
                if values:
                    shown.setdefault(data, {})[aggr, layer] = values
    if not shown:
        raise request.missing(evidence, f"runs of {name} on")
    figure, grid = style.panels(len(shown), share=True)
    there = {aggr for own in shown.values() for aggr, _ in own}
    aggrs = [aggr for aggr in request.aggrs if aggr in there]
    for axes, (data, own) in zip(grid, shown.items(), strict=True):
        _draw_maxness(axes, own, aggrs)
        style.title(axes, data, map(len, own.values()))
        first = axes.get_subplotspec().is_first_col()  # type: ignore[union-attr]
        style.labels(axes, "", "maxness" if first else "")
    style.heading(
        figure,
        f"{name}: maxness of every layer, {request.settings}",
        "0: the weighted mean of the neighbours; 1: their maximum. Mean over channels; a dot for "
        "each of n splits, the bar is their median. " + style.missing_note(request.data, shown),
        style.handles(aggrs, markers=True, line="none"),
    )
    return figure


def _draw_maxness(axes: Axes, own: dict[tuple[str, Place], list[float]], aggrs: list[str]) -> None:
    places = sorted({place for _, place in own})
    step = SPREAD / max(1, len(aggrs))
    for (aggr, layer), values in own.items():
        drawn = style.method_style(aggr)
        place = places.index(layer) + 1 + (aggrs.index(aggr) - (len(aggrs) - 1) / 2) * step
        # Equal values lie beside each other, always in the same places.
        beside = np.linspace(-0.3, 0.3, len(values)) * step if len(values) > 1 else np.zeros(1)
        (dots,) = axes.plot(place + beside, values, drawn.marker, color=drawn.colour, alpha=0.6)
        dots.set(markersize=3, markeredgewidth=0)
        middle = float(np.median(values))
        ends = [place - 0.42 * step, place + 0.42 * step]
        axes.plot(ends, [middle, middle], color=drawn.colour, linewidth=1.6)
    axes.set_xticks(range(1, len(places) + 1), [words for _, words in places])
    axes.axhline(0, color="0.7", linewidth=0.6, zorder=0)
