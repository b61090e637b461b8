r"""The files of a bench, and what it could not measure, from the result alone."""

from __future__ import annotations

import json
import os
from itertools import chain
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from meanmax.data.files import replacing, write_text
from meanmax.study.bench.competitors import COMPETITORS, FORWARD, LINEAR, PASSES, TRAIN

MEASURED = ("graphs", "shapes", "cases", "small")
r"""The keys of a result that may hold what was measured."""

PARTS = ("pass", "route")
r"""What tells the rows of one label apart."""

COLOURS = {FORWARD: "#9ecae1", TRAIN: "#2171b5"}


def as_json(result: dict[str, Any]) -> str:
    r"""The result as text."""
    return json.dumps(result, indent=1, allow_nan=False)


def check_folder(folder: Path) -> None:
    r"""Creates the folder; raises an :class:`OSError` unless files can be written to it."""
    folder.mkdir(parents=True, exist_ok=True)
    trial = folder / f".trial-{os.getpid()}"
    trial.touch()
    trial.unlink()


def write_files(result: dict[str, Any], folder: Path, name: str) -> list[Path]:
    r"""Writes :obj:`name.json`, and pictures beside it if aggregators were measured on graphs,
    each file completely or not at all.
    """
    paths = [folder / f"{name}.json"]
    write_text(paths[0], as_json(result) + "\n")
    if "graphs" in result:
        figure = draw(result)
        for kind in ("png", "svg"):
            paths.append(folder / f"{name}.{kind}")
            with replacing(paths[-1]) as temporary:
                figure.savefig(temporary, format=kind, dpi=120)
    return paths


def failures(result: dict[str, Any]) -> list[str]:
    r"""A line for everything that could not be measured."""
    if "graphs" in result:
        entries = [*result["graphs"], *chain(*(result["sweep"] or {}).values())]
        parts = {f"{graph['name']}, memory": graph["memory_error"] for graph in result["graphs"]}
    else:
        (entries,) = (result[key] for key in MEASURED if key in result)
        parts = {"memory": result.get("memory_error")}
    parts["cold start"] = (result.get("cold") or {"error": None})["error"]
    found = [
        (", ".join([entry["name"], row["label"], *(row[k] for k in PARTS if row.get(k))]), row)
        for entry in entries
        for row in entry["results"]
    ]
    errors = [*((name, row["error"]) for name, row in found), *parts.items()]
    return [f"{part}: {error}" for part, error in errors if error is not None]


def draw(result: dict[str, Any]) -> Figure:
    r"""Draws bars of ratios for each graph and, after a sweep, ratios by size."""
    sweep = {name: series for name, series in (result["sweep"] or {}).items() if series}
    panels = len(result["graphs"]) + len(sweep)
    figure = Figure(figsize=(10, 5 * panels), layout="constrained")
    axes = list(figure.subplots(panels, 1, squeeze=False)[:, 0])
    for graph in result["graphs"]:
        _bars(axes.pop(0), graph)
    for name, series in sweep.items():
        _lines(axes.pop(0), name, series)
    figure.suptitle(
        f"{result['machine']['cpu']}, {result['settings']['threads']} threads, "
        f"{result['settings']['dtype']}, {result['created'][:10]}"
    )
    return figure


def _bars(axes: Axes, graph: dict[str, Any]) -> None:
    names = [row["competitor"] for row in graph["results"] if row["pass"] == TRAIN]
    for shift, key in zip((-0.2, 0.2), PASSES, strict=True):
        own = (row for row in graph["results"] if row["pass"] == key)
        rows = [row for row in own if row["ratio_to_floor"] is not None]
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
