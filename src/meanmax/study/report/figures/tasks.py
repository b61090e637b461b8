r"""All tasks of the study on one axis."""

from __future__ import annotations

from matplotlib.figure import Figure

from meanmax.names import AGGREGATORS
from meanmax.study.report.evidence import Evidence
from meanmax.study.report.figures import style
from meanmax.study.report.figures.request import FigureRequest, NothingToShow
from meanmax.study.report.study import Study
from meanmax.study.stats.paired import FEW

HEIGHT = 0.13  # of a method in a task, in inches
GAP = 0.9  # between tasks, in methods


def tasks(evidence: Evidence, request: FigureRequest) -> Figure:
    r"""The mean difference of each aggregator to its equally tuned baseline on every task, paired
    over splits, with its 95 % interval.
    """
    # Differences of regression targets have other units.
    listed = [task for task in Study.of(evidence.rows).compared if task.group.comparison.percent]
    if not listed:
        raise NothingToShow(
            "there are no comparisons with searched settings of an aggregator and its baseline; "
            "this command makes one: meanmax compare --data digits"
        )
    places: list[float] = []
    names: list[str] = []
    drawn: dict[str, None] = {}
    top = 0.0
    figure, (axes,) = style.panels(1, width=6.4, height=1.0)
    for task in listed:
        lines = [
            (line, line.paired)
            for aggr in AGGREGATORS
            for line in [task.line(aggr)]
            if line is not None and line.paired is not None
        ]
        for k, (line, pair) in enumerate(lines):
            method, place = style.method_style(line.aggr), top + k
            drawn[line.aggr] = None
            if pair.n >= FEW:
                axes.plot([pair.low, pair.high], [place, place], color=method.colour, linewidth=1.2)
            (mark,) = axes.plot([pair.difference], [place], method.marker, color=method.colour)
            judged = line.judgement in ("better", "worse")
            mark.set(markersize=4, markerfacecolor=method.colour if judged else "white")
        places.append(top + (len(lines) - 1) / 2)
        names.append(f"{style.escaped(task.heading)}, {style.count_text(p.n for _, p in lines)}")
        top += len(lines) + GAP
        axes.axhline(top - (1 + GAP) / 2, color="0.93", linewidth=0.6, zorder=0)
    axes.axvline(0, color="0.5", linewidth=0.8, zorder=0)
    axes.set_yticks(places, names)
    axes.set_ylim(top - 0.5, -1)
    axes.grid(axis="x", color="0.92", linewidth=0.6)
    axes.set_axisbelow(True)
    style.labels(axes, "difference to the baseline, in points")
    figure.set_figheight(HEIGHT * top + 1.5)
    style.heading(
        figure,
        "Aggregators against the equally tuned baseline, all tasks",
        "Right of 0 the aggregator is better. Mean of paired differences over n splits with a 95 % "
        "bootstrap interval, not adjusted for the number of comparisons. Filled marks: significant "
        "after Holm's adjustment within the task.",
        style.handles([aggr for aggr in AGGREGATORS if aggr in drawn], markers=True, line="-"),
    )
    return figure
