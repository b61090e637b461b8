r"""The path from mean to max: one neighbourhood, three aggregators, a growing parameter."""

from __future__ import annotations

from collections.abc import Callable

import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from meanmax.functional import lp, polynomial, softmax
from meanmax.graph import Graph
from meanmax.study.report.evidence import Evidence
from meanmax.study.report.figures.request import FigureRequest
from meanmax.study.report.figures.style import method_style

VALUES = [-1.0, 0.2, 0.5, 2.0]
LOWEST = -1.5
CURVES: list[tuple[str, Callable[..., torch.Tensor], float, str]] = [
    ("lp", lp, 1.0, "$p$"),
    ("poly", polynomial, 0.0, r"$1 + \alpha$"),
    ("softmax", softmax, 0.0, r"$1 + \gamma$"),
]


def path(evidence: Evidence | None = None, request: FigureRequest | None = None) -> Figure:
    r"""Three aggregates of four values, which rise from their mean to their maximum."""
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    _draw(figure.subplots())
    return figure


def _draw(axes: Axes) -> None:
    x, graph = _neighbourhood()
    grid = torch.logspace(0, 2, 200)
    for name, rule, lowest, symbol in CURVES:
        label, colour, style, _ = method_style(name)
        out = [rule(x, graph, float(t) - 1 + lowest)[-1].item() for t in grid]
        axes.plot(grid, out, style, color=colour, label=f"{label}, {symbol}", linewidth=2)
    for value in VALUES:
        axes.plot([0.87], [value], "o", color="0.3", clip_on=False)
    ends = {"mean": sum(VALUES) / len(VALUES), "max": max(VALUES)}
    for word, height in ends.items():
        axes.axhline(height, color="0.6", linewidth=1, linestyle=":")
        axes.text(105, height, word, va="center", color="0.3")
    axes.set_xscale("log")
    axes.set_xlim(0.87, 100)
    axes.set_xlabel("parameter (each shifted so that the path begins at 1)")
    axes.set_ylabel("aggregate of the four neighbours (dots)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")


def _neighbourhood() -> tuple[torch.Tensor, Graph]:
    r"""Four neighbours of one node, with equal weights that sum to one."""
    count = len(VALUES)
    edges = torch.tensor([list(range(count)), [count] * count])
    graph = Graph.from_edge_index(edges, num_nodes=count + 1, normalize="row")
    # The node itself is no neighbour; its value, below all of them, is the minimum.
    return torch.tensor([*VALUES, LOWEST]).unsqueeze(1), graph
