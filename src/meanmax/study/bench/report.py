r"""Table and files, made from the result alone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console, Group
from rich.table import Table

from meanmax.study.bench.competitors import COMPETITORS, FORWARD, LINEAR, PASSES, TRAIN

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


COLUMNS = (
    ("median_ms", "median ms", ".3f"),
    ("ratio_to_floor", "× floor", ".2f"),
    ("faster_than_pyg_softmax", "× faster than\nPyG softmax", ".2f"),
    ("faster_than_pyg_powermean", "× faster than\nPyG power mean", ".2f"),
    ("memory_mb", "peak MB", ".1f"),
    ("memory_arrays", "peak arrays of\n\\[nodes, channels]", ".1f"),
    ("n", "n", "d"),
)
WIDTH = 130


def as_json(result: dict[str, Any]) -> str:
    r"""The result as text."""
    return json.dumps(result, indent=1, allow_nan=False)


def failures(result: dict[str, Any]) -> list[str]:
    r"""A line for everything that could not be measured."""
    sweep = result["sweep"] or {}
    entries = [*result["graphs"], *(point for series in sweep.values() for point in series)]
    found = [
        f"{entry['name']}, {row['label']}, {row['pass']}: {row['error']}"
        for entry in entries
        for row in entry["results"]
        if row["error"] is not None
    ]
    parts = {f"{graph['name']}, memory": graph["memory_error"] for graph in result["graphs"]}
    parts["cold start"] = (result["cold"] or {"error": None})["error"]
    return found + [f"{part}: {error}" for part, error in parts.items() if error is not None]


def write_files(result: dict[str, Any], folder: Path) -> list[Path]:
    r"""Writes :obj:`bench.json`, :obj:`bench.png` and :obj:`bench.svg`, each at once or not at all.

    Args:
        result (dict): The result.
        folder (Path): The folder, which exists.
    """
    writers: dict[str, Callable[[Path], object]] = {
        "bench.json": lambda path: path.write_text(as_json(result) + "\n", encoding="utf-8"),
        "bench.png": lambda path: draw(result, path, "png"),
        "bench.svg": lambda path: draw(result, path, "svg"),
    }
    for name, write in writers.items():
        write_at_once(folder / name, write)
    return [folder / name for name in writers]


def check_folder(folder: Path) -> None:
    r"""Makes the folder and raises an :class:`OSError` unless files can be written to it."""
    folder.mkdir(parents=True, exist_ok=True)
    trial = folder / f".trial-{os.getpid()}"
    trial.touch()
    trial.unlink()


def as_tables(result: dict[str, Any]) -> Group:
    r"""The result for the eyes: facts, a table per graph and pass, sweep, cold start, notes."""
    parts: list[Table | str] = [facts(result)]
    for graph in result["graphs"]:
        parts += [_graph_table(graph, key) for key in PASSES]
    for series in (result["sweep"] or {}).values():
        parts += [_sweep_table(series, key) for key in PASSES if series]
    if result["cold"] is not None and result["cold"]["error"] is None:
        parts.append(_cold_table(result["cold"]))
    parts += [f"note: {note}" for note in result["notes"]]
    return Group(*parts)


def print_tables(result: dict[str, Any], file: TextIO) -> None:
    r"""Prints :func:`as_tables`, wide enough for them where the file is no terminal."""
    width = None if file.isatty() else WIDTH
    Console(file=file, width=width, highlight=False).print(as_tables(result))


def facts(result: dict[str, Any]) -> str:
    r"""Machine and versions in two lines."""
    machine, settings = result["machine"], result["settings"]
    versions = ", ".join(f"{name} {value}" for name, value in machine["versions"].items())
    return (
        f"{result['created']}  {machine['cpu']}, {settings['threads']} of {machine['cores']} "
        f"threads, {settings['dtype']}\nPython {machine['python']}, {versions}\n"
    )


def _graph_table(graph: dict[str, Any], key: str) -> Table:
    floor = graph["floor"][key]["competitor"]
    table = Table(
        title=f"{graph['name']}: {key}, {_size(graph)}",
        caption=f"floor: {COMPETITORS[floor].label if floor else 'not measured'}",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("competitor")
    for _, heading, _ in COLUMNS:
        table.add_column(heading, justify="right")
    for row in _rows(graph, key):
        if row["error"] is not None:
            table.add_row(row["label"], "failed")
        else:
            table.add_row(row["label"], *(cell(row[name], form) for name, _, form in COLUMNS))
    return table


def _sweep_table(series: list[dict[str, Any]], key: str) -> Table:
    r"""Ratios to the floor by size; a competitor that a size was too large for has none."""
    table = Table(title=f"sweep: {key}, median as a ratio to the floor", title_justify="left")
    table.add_column("size")
    table.add_column("floor ms", justify="right")
    names = list(dict.fromkeys(row["competitor"] for point in series for row in _rows(point, key)))
    for name in names:
        table.add_column(COMPETITORS[name].label, justify="right")
    for point in series:
        ratios = {row["competitor"]: row["ratio_to_floor"] for row in _rows(point, key)}
        cells = [cell(ratios.get(name), ".2f") for name in names]
        table.add_row(_size(point), cell(point["floor"][key]["median_ms"], ".3f"), *cells)
    return table


def _cold_table(cold: dict[str, Any]) -> Table:
    table = Table(
        title="cold start: seconds of the first forward+backward pass",
        caption="exact: what rows on the exact path need on top",
        title_justify="left",
        caption_justify="left",
    )
    for heading in ("", "empty cache", "warm cache, new process"):
        table.add_column(heading, justify="right" if heading else "left")
    both = [cold[key] for key in ("compile", "cached")]
    for name in both[0]["first_call_seconds"]:
        seconds = (f"{run['first_call_seconds'][name]:.3f}" for run in both)
        table.add_row(COMPETITORS[name].label, *seconds)
    totals = (f"{run['three_aggregators_seconds']:.3f}" for run in both)
    table.add_row("all three aggregators", *totals)
    return table


def _rows(graph: dict[str, Any], key: str) -> list[dict[str, Any]]:
    return [row for row in graph["results"] if row["pass"] == key]


def _size(graph: dict[str, Any]) -> str:
    return (
        f"{graph['num_nodes']:,} nodes, {graph['num_edges']:,} edges, {graph['channels']} channels"
    )


def cell(value: float | None, form: str) -> str:
    r"""A number, or a dash where there is none."""
    return "–" if value is None else format(value, form)


def write_at_once(path: Path, write: Callable[[Path], object]) -> None:
    r"""Writes to a temporary name and renames."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


LAYER_WIDTH = 150
LAYER_COLUMNS = (
    ("median_ms", "ms per epoch", ".2f"),
    ("ratio_to_own", "× its linear\n(or dense) self", ".2f"),
    ("faster_than_gen_softmax", "× faster than PyG\nGENConv softmax", ".1f"),
    ("faster_than_gen_powermean", "× faster than PyG\nGENConv power mean", ".1f"),
    ("faster_than_pyg_gat", "× faster than\nPyG GATConv", ".1f"),
    ("faster_than_pyg_gcn", "× faster than\nPyG GCNConv", ".1f"),
    ("n", "n", "d"),
)


def print_layer_tables(result: dict[str, Any], file: TextIO) -> None:
    r"""Prints a table for each shape and one of memory."""
    parts: list[Table | str] = [facts(result)]
    parts += [_shape_table(shape) for shape in result["shapes"]]
    if result["memory"] is not None:
        parts.append(_memory_table(result["memory"]))
    parts += [f"note: {note}" for note in result["notes"]]
    width = None if file.isatty() else LAYER_WIDTH
    Console(file=file, width=width, highlight=False).print(Group(*parts))


def layer_failures(result: dict[str, Any]) -> list[str]:
    r"""A line for everything that could not be measured."""
    found = [
        f"{shape['name']}, {row['label']}: {row['error']}"
        for shape in result["shapes"]
        for row in shape["results"]
        if row["error"] is not None
    ]
    return found + ([f"memory: {result['memory_error']}"] if result["memory_error"] else [])


def write_layer_file(result: dict[str, Any], folder: Path) -> list[Path]:
    r"""Writes :obj:`layers.json`, at once or not at all."""
    path = folder / "layers.json"
    write_at_once(path, lambda path: path.write_text(as_json(result) + "\n", encoding="utf-8"))
    return [path]


def _shape_table(shape: dict[str, Any]) -> Table:
    table = Table(
        title=f"{shape['name']}: a training epoch, {shape['num_nodes']:,} nodes, "
        f"{shape['num_edges']:,} edges, {shape['features']:,} features, "
        f"{100 * shape['filled']:.2g} % filled",
        title_justify="left",
    )
    shown = [
        column
        for column in LAYER_COLUMNS
        if any(row[column[0]] is not None for row in shape["results"])
    ]
    table.add_column("model")
    for _, heading, _ in shown:
        table.add_column(heading, justify="right")
    for row in shape["results"]:
        if row["error"] is not None:
            table.add_row(row["label"], "failed")
        else:
            table.add_row(row["label"], *(cell(row[name], form) for name, _, form in shown))
    return table


def _memory_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="peak memory of a layer, forward and backward", title_justify="left")
    for heading in ("layer", "aggregator", "nodes", "edges", "peak MB", "× linear"):
        table.add_column(heading, justify="left" if heading in ("layer", "aggregator") else "right")
    for row in rows:
        table.add_row(
            row["layer"],
            row["aggr"],
            f"{row['num_nodes']:,}",
            f"{row['num_edges']:,}",
            cell(row["peak_mb"], ".1f"),
            cell(row["ratio_to_linear"], ".2f"),
        )
    return table
