r"""What predicts a gain: a panel for each predictor."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from meanmax.study.report.evidence import Evidence
from meanmax.study.report.figures import style
from meanmax.study.report.figures.request import FigureRequest, NothingToShow
from meanmax.study.report.study import Study
from meanmax.study.report.why import (
    ENOUGH,
    FILE,
    LEVEL,
    LOGARITHMIC,
    PREDICTORS,
    correlations,
    points,
)
from meanmax.study.stats.paired import FEW

MARKERS = {"node": "o", "graph": "s"}


def why(evidence: Evidence, request: FigureRequest) -> Figure:
    r"""The difference of the aggregator that validation chooses against each predictor, a mark for
    each task, round for labels of nodes and square for labels of graphs.
    """
    listed = points(Study.of(evidence.rows), evidence.facts)
    found = {one.predictor: one for one in correlations(listed)}
    shown = [name for name in PREDICTORS if name != LEVEL and found[name].n > 1]
    if not shown:
        raise NothingToShow(
            f"there are no two data sets with searched settings of an aggregator and its baseline "
            f"whose facts are in {FILE} next to the rows; `meanmax reproduce study` names the "
            f"commands that make them"
        )
    figure, grid = style.panels(len(shown), share=True)
    for axes, name in zip(grid, shown, strict=True):
        axes.axhline(0, color="0.5", linewidth=0.8, zorder=0)
        for point in listed:
            if name in point.values:
                drawn, place = style.method_style(point.aggr), point.values[name]
                if point.n >= FEW:
                    ends = [point.low, point.high]
                    axes.plot([place, place], ends, color=drawn.colour, linewidth=0.8, alpha=0.5)
                marker = MARKERS[point.level]
                axes.plot([place], [point.difference], marker, color=drawn.colour, markersize=4)
        if name in LOGARITHMIC:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
            axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axes.xaxis.set_minor_formatter(NullFormatter())
        one = found[name]
        text = f"ρ = {one.rho:+.2f}, n = {one.n} data sets".replace("-", "−")
        axes.set_title(text, fontsize=style.SIZE, loc="left")
        first = axes.get_subplotspec().is_first_col()  # type: ignore[union-attr]
        style.labels(axes, PREDICTORS[name], "difference, points" if first else "")
    aggrs = dict.fromkeys(point.aggr for point in listed)
    legend = style.handles(aggrs, line="-")
    for level in dict.fromkeys(point.level for point in listed):
        text = f"labels of {level}s"
        legend.append(style.handle(text, marker=MARKERS[level], color="0.4"))
    style.heading(
        figure,
        "What predicts the difference to the equally tuned baseline",
        "A mark for each task: the learned aggregator with the best validation score, with the 95 "
        "% bootstrap interval of its difference in test scores. ρ: Spearman's, over data sets"
        + (
            f"; nothing is claimed below {ENOUGH}."
            if any(one.n < ENOUGH for one in found.values())
            else "."
        ),
        legend,
    )
    return figure
