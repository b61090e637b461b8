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
from meanmax.study.report.figures.style import look_of

VALUES = [-1.0, 0.2, 0.5, 2.0]
LOWEST = -1.5
CURVES: list[tuple[str, Callable[..., torch.Tensor], float, str]] = [
    ("lp", lp, 1.0, "$p$"),
    ("poly", polynomial, 0.0, r"$1 + \alpha$"),
    ("softmax", softmax, 0.0, r"$1 + \gamma$"),
]


def path(evidence: Evidence | None = None, asked: FigureRequest | None = None) -> Figure:
    r"""One neighbourhood of four values, whose three aggregates rise from its mean to its maximum.

    Args:
        evidence (Evidence, optional): Not looked at: the picture needs no runs.
        asked (FigureRequest, optional): Not looked at.
    """
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    draw_path(figure.subplots())
    return figure


def draw_path(axes: Axes) -> None:
    r"""Draws the three curves between the mean and the maximum.

    Args:
        axes (Axes): Where.
    """
    x, graph = _neighbourhood()
    grid = torch.logspace(0, 2, 200)
    for name, rule, lowest, symbol in CURVES:
        label, colour, style, _ = look_of(name)
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
    r"""Four neighbours of one node, all of equal weight that sums to one."""
    count = len(VALUES)
    edges = torch.tensor([list(range(count)), [count] * count])
    graph = Graph.from_edge_index(edges, num_nodes=count + 1, normalize="row")
    # The node itself is no neighbour; below all of them, it sets the minimum.
    return torch.tensor([*VALUES, LOWEST]).unsqueeze(1), graph
