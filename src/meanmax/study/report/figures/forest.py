r"""Paired differences to the baseline, with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meanmax.study.paper.result_tables import PPI, PPI_GO, SCHEMES, Claim, claims
from meanmax.study.report.evidence import Evidence
from meanmax.study.report.figures import style
from meanmax.study.report.figures.request import FigureRequest
from meanmax.study.stats.cells import shown_metric
from meanmax.study.stats.comparison import BASELINE, compare
from meanmax.study.stats.paired import FEW


def forest(evidence: Evidence, request: FigureRequest) -> Figure:
    r"""The mean difference of each aggregator to its baseline, paired over splits, with its 95 %
    interval; the paper's difference is an open diamond.
    """
    listed = {name: _claims(evidence, request, name) for name in request.data}
    shown = {name: own for name, own in listed.items() if own}
    if not shown:
        what = "runs of an aggregator and its baseline on the same splits of"
        raise request.missing(evidence, what)
    everything = [claim for own in shown.values() for claim in own]
    there = {(claim.backbone, claim.aggr) for claim in everything}
    methods = [(b, a) for b in request.backbones for a in request.aggrs if (b, a) in there]
    backbones = list(dict.fromkeys(backbone for backbone, _ in methods))
    # The height of each method, with a gap between backbones.
    places = {(b, a): k + 1 + 0.6 * backbones.index(b) for k, (b, a) in enumerate(methods)}
    width = 1.9 if len(shown) > 1 else 3.6
    height = 0.2 * len(methods) + 0.15 * len(backbones) + 0.6
    figure, grid = style.panels(len(shown), columns=5, width=width, height=height, share=True)
    kinds = {name: shown_metric(request.selected(evidence, name).rows) for name in shown}
    for axes, (name, own) in zip(grid, shown.items(), strict=True):
        _draw(axes, own, places, "points" if kinds[name].percent else kinds[name].label)
        style.title(axes, name, (claim.paired.n for claim in own))
    names = [f"{style.backbone_name(b)}, {style.method_style(a).label}" for b, a in methods]
    grid[0].set_yticks([places[method] for method in methods], names)
    grid[0].set_ylim(max(places.values()) + 0.7, min(places.values()) - 0.7)
    few = any(claim.paired.n < FEW for claim in everything)
    points = "points of " if all(kind.percent for kind in kinds.values()) else ""
    drawn = style.handles(dict.fromkeys(aggr for _, aggr in methods), markers=True, line="-")
    if any(math.isfinite(claim.paper) for claim in everything):
        diamond = {"color": "0.25", "marker": "d", "fillstyle": "none", "markersize": 5}
        drawn.append(style.handle("the paper's difference of means", **diamond))
    style.heading(
        figure,
        f"Difference to the baseline in {points}test score, {request.settings}",
        "Right of 0 the aggregator is better. Mean of paired differences over n splits with a 95 % "
        "bootstrap interval, not adjusted for the number of comparisons; random splits of one "
        "graph overlap, so intervals look narrower than they should be. "
        + (f"Open marks: fewer than {FEW} splits, too few for an interval. " if few else "")
        + (f"{PPI_GO} " if "ppi-go" in shown else "")
        + style.missing_note(request.data, shown),
        drawn,
    )
    return figure


def _claims(evidence: Evidence, request: FigureRequest, data: str) -> list[Claim]:
    chosen = request.selected(evidence, data, SCHEMES.get(data))
    higher = shown_metric(chosen.rows).higher_is_better
    comparisons = [
        compare(chosen, backbone, request.aggrs, data=data, higher_is_better=higher)
        for backbone in request.backbones
        if BASELINE in request.aggrs and chosen.of(backbone, BASELINE)
    ]
    return claims(4 if data in PPI else 2, comparisons)


def _draw(
    axes: Axes, own: Sequence[Claim], places: dict[tuple[str, str], float], unit: str
) -> None:
    axes.axvline(0, color="0.5", linewidth=0.8, zorder=0)
    for claim in own:
        drawn = style.method_style(claim.aggr)
        place, pair = places[claim.backbone, claim.aggr], claim.paired
        enough = pair.n >= FEW
        if enough:
            axes.plot([pair.low, pair.high], [place, place], color=drawn.colour, linewidth=1.4)
        (mark,) = axes.plot([pair.difference], [place], drawn.marker, color=drawn.colour)
        mark.set(markerfacecolor=drawn.colour if enough else "white", markersize=4.5)
        if math.isfinite(claim.paper):
            axes.plot([claim.paper], [place], "d", color="0.25", markersize=5, fillstyle="none")
    counts = {(claim.backbone, claim.aggr): claim.paired.n for claim in own}
    differ = len(set(counts.values())) > 1
    edge: dict[str, Any] = {"ha": "right", "transform": axes.get_yaxis_transform()}
    for method, place in places.items():
        if method not in counts or differ:
            text = f"n = {counts[method]}" if method in counts else "no runs yet"
            style.grey_text(axes, 0.99, place, text, fontsize=style.SIZE - 2, **edge)
    axes.margins(x=0.08)
    if differ:  # room for the counts
        left, right = axes.get_xlim()
        axes.set_xlim(left, right + 0.22 * (right - left))
    axes.grid(axis="x", color="0.92", linewidth=0.6)
    axes.set_axisbelow(True)
    style.labels(axes, unit)
