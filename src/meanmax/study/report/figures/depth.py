r"""Accuracy against depth."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meanmax.study.paper.depth import DEPTHS, SETS, SPLITS, Depth, by_depth, comparable, overrides
from meanmax.study.report.evidence import Evidence
from meanmax.study.report.figures import style
from meanmax.study.report.figures.request import FigureRequest, NothingToShow
from meanmax.study.store.store import DEFAULT_STORE

BACKBONE = "gcn"


def depth(evidence: Evidence, asked: FigureRequest | None = None) -> Figure:
    r"""Test accuracy of each method against its number of layers, the mean over splits with the
    range as a band.

    The runs are those of :mod:`meanmax.study.paper.depth`: hidden activation off, the aggregator
    in every layer but the last, otherwise the published settings. Data sets without runs keep an
    empty panel, and the note says what fills what is missing.

    Args:
        evidence (Evidence): The runs.
        asked (FigureRequest, optional): One backbone and any data sets.
            (default: GCN on Cora, Citeseer and Pubmed)
    """
    asked = asked or FigureRequest()
    backbone = (asked.backbones or (BACKBONE,))[0]
    data = asked.data or SETS
    if asked.settings_name != "published" or asked.overrides:
        raise NothingToShow(
            f"depth is shown with published settings alone (got {asked.what}): leave them out"
        )
    found = {
        name: by_depth(evidence.rows, name, backbone=backbone, aggrs=asked.aggrs) for name in data
    }
    if not any(point.scores for points in found.values() for point in points):
        raise NothingToShow(
            f"there are no runs of {style.backbone_name(backbone)} at several depths on "
            f"{', '.join(data)}; this makes them: {_command(evidence, data, backbone)}"
        )
    figure, grid = style.panels(len(data))
    for axes, (name, points) in zip(grid, found.items(), strict=True):
        shared = comparable(points)
        _draw(axes, shared, asked.aggrs)
        counts = [len(point.scores) for point in shared]
        style.title(axes, f"{style.data_name(name)}, {style.count_text(counts)}")
        style.labels(axes, "layers", "test accuracy, %" if axes is grid[0] else "")
    style.heading(
        figure,
        f"{style.backbone_name(backbone)}: accuracy against depth, hidden activation off",
        "Mean over the n splits that all points have; band: least to largest. Published settings, "
        "but no hidden activation and the aggregator in every layer except the last. "
        + _notes(found, backbone, len(asked.aggrs)),
        style.handles(asked.aggrs, markers=True),
    )
    return figure


def _draw(axes: Axes, points: list[Depth], aggrs: tuple[str, ...]) -> None:
    for aggr in aggrs:
        own = [point for point in points if point.aggr == aggr and point.scores]
        layers = np.array([point.layers for point in own])
        drawn = style.look_of(aggr)
        low = [min(point.scores) for point in own]
        high = [max(point.scores) for point in own]
        axes.fill_between(layers, low, high, color=drawn.colour, alpha=0.13, linewidth=0)
        axes.plot(
            layers,
            [point.mean for point in own],
            drawn.line,
            color=drawn.colour,
            marker=drawn.marker,
            markersize=4,
            linewidth=1.4,
        )
    axes.set_xticks(DEPTHS)
    axes.set_xlim(min(DEPTHS) - 0.4, max(DEPTHS) + 0.4)
    if not any(point.scores for point in points):
        axes.set_yticks([])
        style.absent(axes)


def _notes(found: dict[str, list[Depth]], backbone: str, methods: int) -> str:
    r"""What did not end well, and what is missing with the command that makes it."""
    notes = []
    failed = sum(point.failed for points in found.values() for point in points)
    if failed:
        notes.append(f"{failed} runs did not end well and are left out.")
    wanted = len(DEPTHS) * methods * SPLITS
    short = {
        name: wanted - sum(min(SPLITS, len(p.scores) + p.failed) for p in points)
        for name, points in found.items()
    }
    missing = {name: runs for name, runs in short.items() if runs}
    if missing:
        listed = ", ".join(f"{style.data_name(name)} {runs}" for name, runs in missing.items())
        notes.append(f"Runs that are missing of {wanted} each: {listed}.")
        if backbone == BACKBONE and set(missing) <= set(SETS):
            # Not where: the place of a store says nothing to those who see the picture.
            made = _command(Evidence.nothing(), list(missing), backbone)
            notes.append(f"This makes them: {made}")
    return " ".join(notes)


def _command(evidence: Evidence, data: Sequence[str], backbone: str) -> str:
    if backbone != BACKBONE or not set(data) <= set(SETS):
        return " && ".join(
            FigureRequest(overrides=overrides(layers)).command(
                evidence, data, [backbone], "--splits", str(SPLITS)
            )
            for layers in DEPTHS
        )
    words = ["meanmax", "reproduce", "figures"]
    words += [] if tuple(data) == SETS else ["--data", ",".join(data)]
    if evidence.folder is not None and str(evidence.folder) != DEFAULT_STORE:
        words += ["--store", str(evidence.folder)]
    return shlex.join(words)
