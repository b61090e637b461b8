r"""Paired differences to the baseline, with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from meanmax.study.paper.claims import Claim, claims
from meanmax.study.paper.tables import BACKBONES, PPI_GO, SETS, table
from meanmax.study.report.evidence import Evidence
from meanmax.study.report.figures import style
from meanmax.study.report.figures.request import FigureRequest, NothingToShow
from meanmax.study.stats.paired import FEW

PPI = ("ppi", "ppi-go")


def forest(evidence: Evidence, asked: FigureRequest | None = None) -> Figure:
    r"""The mean difference of each aggregator to its baseline, paired over splits, with its 95 %
    interval; the paper's difference is an open diamond.

    Args:
        evidence (Evidence): The runs; artefacts are not needed.
        asked (FigureRequest, optional): Any backbones and data sets. (default: all of Table 2)
    """
    asked = asked or FigureRequest()
    data = asked.data or SETS
    backbones = asked.backbones or BACKBONES
    listed = {name: _claims(evidence, asked, name, backbones) for name in data}
    shown = {name: own for name, own in listed.items() if own}
    if not shown:
        raise NothingToShow(
            f"there are no runs of an aggregator and its baseline on the same splits of "
            f"{', '.join(data)} with {asked.what}; "
            f"{asked.remedy(evidence, data, backbones)}"
        )
    methods = [
        (backbone, aggr)
        for backbone in backbones
        for aggr in asked.aggrs
        if any((c.backbone, c.aggr) == (backbone, aggr) for own in shown.values() for c in own)
    ]
    figure, grid = style.panels(
        len(shown),
        columns=5,
        width=1.9 if len(shown) > 1 else 3.6,
        height=0.2 * len(methods) + 0.15 * len({b for b, _ in methods}) + 0.6,
        share=True,
    )
    places = _places(methods)
    for axes, (name, own) in zip(grid, shown.items(), strict=True):
        _draw(axes, own, places)
        counts = [claim.paired.n for claim in own]
        style.title(axes, f"{style.data_name(name)}, {style.count_text(counts)}")
    names = [f"{style.backbone_name(b)}, {style.look_of(a).label}" for b, a in methods]
    grid[0].set_yticks([places[method] for method in methods], names)
    grid[0].set_ylim(max(places.values()) + 0.7, min(places.values()) - 0.7)
    missing = [style.data_name(name) for name in data if name not in shown]
    style.heading(
        figure,
        f"Difference to the baseline in points of test score, {asked.what}",
        "Right of 0 the aggregator is better. Mean of paired differences over n splits with a 95 % "
        "bootstrap interval, not adjusted for the number of comparisons; random splits of one "
        "graph overlap, so that intervals look surer than they are. "
        + (f"Open marks: fewer than {FEW} splits, too few for an interval. " if _few(shown) else "")
        + (f"{PPI_GO} " if "ppi-go" in shown else "")
        + (f"Nothing on {', '.join(missing)} yet." if missing else ""),
        _handles(methods, paper=any(math.isfinite(c.paper) for own in shown.values() for c in own)),
    )
    return figure


def _few(shown: dict[str, list[Claim]]) -> bool:
    return any(claim.paired.n < FEW for own in shown.values() for claim in own)


def _claims(
    evidence: Evidence, asked: FigureRequest, data: str, backbones: Sequence[str]
) -> list[Claim]:
    number = 4 if data in PPI else 2
    tabled = table(
        evidence.rows,
        number,
        data=[data],
        backbones=backbones,
        aggrs=asked.aggrs,
        settings_name=asked.settings_name,
        overrides=asked.overrides,
    )
    return claims(number, tabled.comparisons)


def _places(methods: Sequence[tuple[str, str]]) -> dict[tuple[str, str], float]:
    r"""A line for each method, with a gap between backbones."""
    found: dict[tuple[str, str], float] = {}
    place, before = 0.0, ""
    for backbone, aggr in methods:
        place += 1.6 if before and backbone != before else 1.0
        found[backbone, aggr] = place
        before = backbone
    return found


def _draw(axes: Axes, own: Sequence[Claim], places: dict[tuple[str, str], float]) -> None:
    axes.axvline(0, color="0.5", linewidth=0.8, zorder=0)
    for claim in own:
        drawn = style.look_of(claim.aggr)
        place, pair = places[claim.backbone, claim.aggr], claim.paired
        enough = pair.n >= FEW
        if enough:
            axes.plot([pair.low, pair.high], [place, place], color=drawn.colour, linewidth=1.4)
        face = drawn.colour if enough else "white"
        axes.plot([pair.difference], [place], drawn.marker, color=drawn.colour,
                  markerfacecolor=face, markersize=4.5)  # fmt: skip
        if math.isfinite(claim.paper):
            axes.plot([claim.paper], [place], "d", color="0.25", markersize=5, fillstyle="none")
    counts = {(claim.backbone, claim.aggr): claim.paired.n for claim in own}
    differ = len(set(counts.values())) > 1
    for method, place in places.items():
        if method not in counts:
            _at_the_edge(axes, place, "no runs yet")
        elif differ:
            _at_the_edge(axes, place, f"n = {counts[method]}")
    axes.margins(x=0.08)
    if differ:  # room for the counts
        left, right = axes.get_xlim()
        axes.set_xlim(left, right + 0.22 * (right - left))
    axes.grid(axis="x", color="0.92", linewidth=0.6)
    axes.set_axisbelow(True)
    style.labels(axes, "points")


def _at_the_edge(axes: Axes, place: float, text: str) -> None:
    axes.text(
        0.99,
        place,
        text,
        transform=axes.get_yaxis_transform(),
        ha="right",
        va="center",
        color="0.45",
        fontsize=style.SIZE - 2,
    )


def _handles(methods: Sequence[tuple[str, str]], *, paper: bool) -> list[Line2D]:
    aggrs = dict.fromkeys(aggr for _, aggr in methods)
    diamond = Line2D(
        [],
        [],
        color="0.25",
        linestyle="none",
        marker="d",
        fillstyle="none",
        markersize=5,
        label="the paper's difference of means",
    )
    drawn = style.handles(aggrs, markers=True)
    for handle in drawn:
        handle.set_linestyle("-")
    return [*drawn, diamond] if paper else drawn
