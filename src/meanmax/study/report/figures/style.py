r"""The style of all figures: colour-blind readers can distinguish colours, lines and markers."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Container, Iterable, Sequence
from typing import Any, Literal, NamedTuple

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from meanmax.study.paper.result_tables import SETS
from meanmax.study.report.charts import Band

# Palettes that colour-blind readers can distinguish, by Okabe and Ito and by Tol (muted).
OKABE_ITO = "#0072B2 #E69F00 #009E73 #CC79A7 #56B4E9 #D55E00 #F0E442 #444444".split()
TOL = "#332288 #88CCEE #44AA99 #117733 #999933 #DDCC77 #CC6677 #882255 #AA4499 #777777".split()
BACKBONE_NAMES = {"masked_gcn": "Masked GCN", "sage": "GraphSAGE", "gen": "GENConv"}
LONGEST = 24  # letters of a data set's name above a panel
SIZE = 8  # of text, in points


class MethodStyle(NamedTuple):
    r"""How a method is drawn."""

    label: str
    colour: str
    line: Literal["-", "--", "-.", ":"]
    marker: str


METHODS = {
    "none": MethodStyle("baseline", "#444444", "-", "o"),
    "lp": MethodStyle("Lp norm", "#0072B2", "--", "s"),
    "poly": MethodStyle("polynomial", "#D55E00", "-.", "^"),
    "softmax": MethodStyle("softmax", "#009E73", ":", "D"),
    "spread": MethodStyle("spread", "#8C6BB1", "-.", "p"),
    "max": MethodStyle("max", "#CC79A7", "-", "v"),
    "pna": MethodStyle("PNA", "#E69F00", "--", "P"),
    "pyg-softmax": MethodStyle("PyG's softmax", "#56B4E9", ":", "X"),
    "pyg-powermean": MethodStyle("PyG's power mean", "#8C564B", "-.", "*"),
}


def method_style(aggr: str) -> MethodStyle:
    r"""The style of an aggregator; those without one of their own are grey."""
    return METHODS.get(aggr, MethodStyle(aggr, "#999999", "-", "x"))


def data_name(data: str) -> str:
    r"""The name of a data set in print; that of a user's own data is escaped and shortened."""
    if data in SETS:
        return data.capitalize()
    if data == "ppi":
        return "PPI"
    return escaped(data if len(data) <= LONGEST else f"{data[: LONGEST - 1]}…")


def backbone_name(backbone: str) -> str:
    r"""The name of a backbone in print."""
    return BACKBONE_NAMES.get(backbone, backbone.upper())


def escaped(text: str) -> str:
    r"""Text of a user's own data, in which a dollar sign begins no formula."""
    return text.replace("$", r"\$")


def panels(
    count: int, *, columns: int = 3, width: float = 2.6, height: float = 2.3, share: bool = False
) -> tuple[Figure, list[Axes]]:
    r"""A figure with panels of equal size."""
    columns = 2 if (count, columns) == (4, 3) else min(count, columns)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(width * columns + 0.4, height * rows + 0.9), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False, sharey=share).ravel()
    for axes in grid[count:]:
        axes.remove()
    for axes in grid[:count]:
        axes.tick_params(labelsize=SIZE - 1)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, list(grid[:count])


def title(axes: Axes, data: str, counts: Iterable[int]) -> None:
    r"""The title of a panel: a data set, and the numbers of runs that it shows."""
    axes.set_title(f"{data_name(data)}, {count_text(counts)}", fontsize=SIZE, loc="left")


def labels(axes: Axes, x: str = "", y: str = "") -> None:
    r"""The labels of axes."""
    axes.set_xlabel(x, fontsize=SIZE)
    axes.set_ylabel(y, fontsize=SIZE)


def heading(
    figure: Figure, text: str, note: str, drawn: Sequence[Line2D], *, columns: int | None = None
) -> None:
    r"""The title and the legend above all panels, and a note in small print below."""
    width = figure.get_figwidth()
    title = textwrap.wrap(text, int(width * 12))
    small = textwrap.wrap(note, int(width * 21))
    labels = [str(handle.get_label()) for handle in drawn]
    columns = columns or fitting(labels, width)
    # Panels leave room for a line of each and two of the note: more lines need a higher figure.
    more = (len(title) - 1, math.ceil(len(labels) / columns) - 1, len(small) - 2)
    inches = sum(max(0, lines) * size for lines, size in zip(more, (0.17, 0.17, 0.11), strict=True))
    figure.set_figheight(figure.get_figheight() + inches)
    # One artist for both: a separate title would be drawn over the legend.
    figure.legend(
        handles=list(drawn),
        title="\n".join(title),
        title_fontproperties={"size": SIZE + 1, "weight": "bold"},
        loc="outside upper center",
        ncols=columns,
        frameon=False,
        fontsize=SIZE,
        handlelength=2.6,
    )
    figure.supxlabel("\n".join(small), fontsize=SIZE - 2, color="0.35", ha="left", x=0.01)


def fitting(labels: Sequence[str], width: float) -> int:
    r"""The number of legend columns that fit.

    Example:
        >>> fitting(["Lp norm", "polynomial", "softmax"], 9.0), fitting(["a" * 20] * 3, 4.0)
        (3, 2)
    """
    letter, line = 0.0085 * SIZE, 0.075 * SIZE  # inches per letter, per line with its gaps
    columns = [letter * len(label) + line for label in labels]
    fit = len(labels) if sum(columns) <= width else int(width / max(columns))
    return max(1, fit)


def grey_text(axes: Axes, x: float, y: float, text: str, **options: Any) -> None:
    r"""A remark in a panel."""
    axes.text(x, y, text, va="center", color="0.45", **{"fontsize": SIZE, **options})


def absent(axes: Axes, text: str = "no runs yet") -> None:
    r"""Text in a panel that has nothing to show."""
    grey_text(axes, 0.5, 0.5, text, ha="center", transform=axes.transAxes)


def band(axes: Axes, aggr: str, values: Band, *, alpha: float, **options: Any) -> None:
    r"""The line of a method with a shaded band around it."""
    method = method_style(aggr)
    x, low, middle, high = values
    axes.fill_between(x, low, high, color=method.colour, alpha=alpha, linewidth=0)
    axes.plot(x, middle, method.line, color=method.colour, linewidth=1.4, **options)


def handle(label: str, **options: Any) -> Line2D:
    r"""One entry of a legend."""
    return Line2D([], [], label=label, **{"markersize": 4, "linestyle": "none", **options})


def handles(
    aggrs: Iterable[str], *, markers: bool = False, line: str | None = None
) -> list[Line2D]:
    r"""Legend entries of aggregators, with their own lines or another one for all."""
    return [
        handle(
            method.label,
            color=method.colour,
            linestyle=line or method.line,
            marker=method.marker if markers else "none",
        )
        for method in map(method_style, aggrs)
    ]


def count_text(counts: Iterable[int]) -> str:
    r"""The number of runs, or the range of numbers where methods differ.

    Example:
        >>> count_text([10, 10]), count_text([9, 10])
        ('n = 10', 'n = 9–10')
    """
    known = list(counts) or [0]
    return "n = " + "–".join(map(str, sorted({min(known), max(known)})))


def missing_note(data: Iterable[str], shown: Container[str]) -> str:
    r"""Names the data sets without runs."""
    missing = [data_name(name) for name in data if name not in shown]
    return f"Nothing on {', '.join(missing)} yet." if missing else ""
