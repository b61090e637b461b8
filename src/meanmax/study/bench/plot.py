r"""The figure of a result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from meanmax.study.bench.competitors import (COMPETITORS, FORWARD, LINEAR, PASSES, TRAIN)

COLOURS = {FORWARD: "#9ecae1", TRAIN: "#2171b5"}


def draw(result: dict[str, Any], path: Path, kind: str) -> None:
    r"""Draws bars of ratios per graph and, after a sweep, ratios by size.

    Args:
        result (dict): The result.
        path (Path): The file.
        kind (str): :obj:`"png"` or :obj:`"svg"`.
    """
    sweep = {name: series for name, series in (result["sweep"] or {}).items() if series}
    panels = len(result["graphs"]) + len(sweep)
    figure = Figure(figsize=(10, 5 * panels), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(panels, 1, squeeze=False)[:, 0])
    for graph in result["graphs"]:
        _bars(axes.pop(0), graph)
    for name, series in sweep.items():
        _lines(axes.pop(0), name, series)
    figure.suptitle(
        f"{result['machine']['cpu']}, {result['settings']['threads']} threads, "
        f"{result['settings']['dtype']}, {result['created'][:10]}"
    )
    figure.savefig(path, format=kind, dpi=120)


def _bars(axes: Axes, graph: dict[str, Any]) -> None:
    names = [row["competitor"] for row in graph["results"] if row["pass"] == TRAIN]
    for shift, key in zip((-0.2, 0.2), PASSES, strict=True):
        rows = [
            row
            for row in graph["results"]
            if row["pass"] == key and row["ratio_to_floor"] is not None
        ]
        places = [names.index(row["competitor"]) + shift for row in rows]
        ratios = [row["ratio_to_floor"] for row in rows]
        drawn = axes.barh(places, ratios, height=0.38, color=COLOURS[key], label=key)
        axes.bar_label(drawn, fmt="%.2f", fontsize=7, padding=2)
    axes.set_yticks(range(len(names)), [COMPETITORS[name].label for name in names], fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.margins(x=0.1)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("median time as a ratio to the faster linear product")
    axes.set_title(
        f"{graph['name']}: {graph['num_nodes']:,} nodes, {graph['num_edges']:,} edges, "
        f"{graph['channels']} channels"
    )
    axes.legend()


def _lines(axes: Axes, name: str, series: list[dict[str, Any]]) -> None:
    size = {"edges": "num_edges", "channels": "channels"}[name]
    swept = dict.fromkeys(row["competitor"] for point in series for row in point["results"])
    for competitor in swept:
        points = [
            (point[size], row["ratio_to_floor"])
            for point in series
            for row in point["results"]
            if (row["competitor"], row["pass"]) == (competitor, TRAIN) and row["ratio_to_floor"]
        ]
        style = "--" if competitor in LINEAR else "-"
        sizes, ratios = [size for size, _ in points], [ratio for _, ratio in points]
        axes.plot(sizes, ratios, style, marker="o", label=COMPETITORS[competitor].label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    ticks = [point[size] for point in series]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel(name)
    axes.set_ylabel("ratio to the floor")
    fixed = "64 channels" if name == "edges" else f"{series[0]['num_edges']:,} edges"
    axes.set_title(f"{TRAIN} by {name}, {fixed}")
    axes.legend(fontsize=8)
