r"""Where between mean and max every layer stands."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meanmax.study.paper.tables import SETS
from meanmax.study.report.evidence import Evidence, good
from meanmax.study.report.figures import style
from meanmax.study.report.figures.request import FigureRequest, NothingToShow
from meanmax.study.stats.cells import Selected

BACKBONE = "gcn"
SPREAD = 0.8


def maxness(evidence: Evidence, asked: FigureRequest | None = None) -> Figure:
    r"""The maxness of every layer, from 0 (mean) to 1 (max): a dot for each split and a bar for
    their median, by method and data set.

    Args:
        evidence (Evidence): The runs; artefacts are not needed.
        asked (FigureRequest, optional): One backbone and any data sets.
            (default: GCN on the five sets of Table 2)
    """
    asked = asked or FigureRequest()
    backbone = (asked.backbones or (BACKBONE,))[0]
    data = asked.data or SETS
    found = {name: _values(asked.selected(evidence, name), backbone, asked.aggrs) for name in data}
    shown = {name: own for name, own in found.items() if own}
    if not shown:
        raise NothingToShow(
            f"there are no runs of {style.backbone_name(backbone)} on {', '.join(data)} with "
            f"{asked.what}; {asked.remedy(evidence, data, [backbone])}"
        )
    figure, grid = style.panels(len(shown), share=True)
    aggrs = [a for a in asked.aggrs if any(aggr == a for own in shown.values() for aggr, _ in own)]
    for axes, (name, own) in zip(grid, shown.items(), strict=True):
        _draw(axes, own, aggrs)
        counts = [len(values) for values in own.values()]
        style.title(axes, f"{style.data_name(name)}, {style.count_text(counts)}")
        style.labels(axes, "", "maxness" if axes.get_subplotspec().is_first_col() else "")  # type: ignore[union-attr]
    missing = [style.data_name(name) for name in data if name not in shown]
    style.heading(
        figure,
        f"{style.backbone_name(backbone)}: maxness of every layer, {asked.what}",
        "0: the weighted mean of the neighbours; 1: their maximum. Mean over channels; a dot for "
        "each of n splits, the bar is their median. "
        + (f"Nothing on {', '.join(missing)} yet." if missing else ""),
        style.handles(aggrs, markers=True, lines=False),
    )
    return figure


def _draw(axes: Axes, own: dict[tuple[str, int], list[float]], aggrs: list[str]) -> None:
    step = SPREAD / max(1, len(aggrs))
    for (aggr, layer), values in own.items():
        drawn = style.look_of(aggr)
        place = layer + 1 + (aggrs.index(aggr) - (len(aggrs) - 1) / 2) * step
        # Dots beside each other where values are equal, always in the same places.
        beside = np.linspace(-0.3, 0.3, len(values)) * step if len(values) > 1 else [0.0]
        axes.plot(
            place + np.asarray(beside),
            values,
            drawn.marker,
            color=drawn.colour,
            markersize=3,
            alpha=0.6,
            markeredgewidth=0,
        )
        middle = float(np.median(values))
        axes.plot(
            [place - 0.42 * step, place + 0.42 * step],
            [middle, middle],
            color=drawn.colour,
            linewidth=1.6,
        )
    layers = sorted({layer for _, layer in own})
    axes.set_xticks([layer + 1 for layer in layers], [f"layer {layer + 1}" for layer in layers])
    axes.axhline(0, color="0.7", linewidth=0.6, zorder=0)


def _values(
    chosen: Selected, backbone: str, aggrs: tuple[str, ...]
) -> dict[tuple[str, int], list[float]]:
    found: dict[tuple[str, int], list[float]] = {}
    for aggr in aggrs:
        for row in good(chosen, backbone, aggr):
            for name, value in row.maxness.items():
                if value is not None:
                    found.setdefault((aggr, int(name.split(".")[1])), []).append(value)
    return found
