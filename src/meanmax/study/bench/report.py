r"""Table and files, made from the result alone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console, Group
from rich.table import Table

from meanmax.study.bench.competitors import (COMPETITORS, PASSES)
from meanmax.study.bench.plot import draw

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
