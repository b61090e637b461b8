r"""Tables and file of the bench of layers, made from the result alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TextIO

from rich.console import Console, Group
from rich.table import Table

from meanmax.study.bench.report import (as_json, cell, facts, write_at_once)

WIDTH = 150
COLUMNS = (
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
    width = None if file.isatty() else WIDTH
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
        column for column in COLUMNS if any(row[column[0]] is not None for row in shape["results"])
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
