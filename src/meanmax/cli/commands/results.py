r"""The commands :obj:`meanmax results show | export | merge`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from meanmax.cli import options
from meanmax.cli.tables import count, decimal, mean_std, print_out
from meanmax.study.runs.row import Row, json_safe
from meanmax.study.stats.cells import CellOfRows, cells, is_planned_from, score_form
from meanmax.study.store import exports
from meanmax.study.store.store import Store

HEADINGS = ("backbone", "aggr", "settings", "n", "failed", "test %", "val %", "s", "learned")
LEFT = ("backbone", "aggr", "settings", "learned")
LONG = {"settings": 22, "learned": 12}
r"""Columns that wrap, and their smallest width."""

NOTE = (
    "mean ± standard deviation of scores; median seconds, in brackets where runs shared the "
    "machine; settings: the file, and what differs from it"
)


def cells_tables(cells: Sequence[CellOfRows]) -> Group:
    r"""A table for each data set and kind of splits, with a line for each cell."""
    hashes = {(cell.data, cell.data_hash) for cell in cells}
    several = {data for data, _ in hashes if sum(name == data for name, _ in hashes) > 1}
    texts = [_texts(cell) for cell in cells]
    widths = [max(map(len, column)) for column in zip(HEADINGS, *texts, strict=True)]
    tables: dict[str, Table] = {}
    for cell, listed in zip(cells, texts, strict=True):
        data = f"{cell.data} ({cell.data_hash[:6]})" if cell.data in several else cell.data
        title = f"{data}, splits: {cell.split}"
        tables.setdefault(title, _empty(title, widths, cell.percent)).add_row(*listed)
    spaced = [Padding(table, (0, 0, 1, 0)) for table in tables.values()]
    return Group(*spaced, Text(NOTE, style="italic"))


def _empty(title: str, widths: Sequence[int], percent: bool) -> Table:
    table = Table(title=Text(title), title_justify="left", title_style="bold")
    for heading, width in zip(HEADINGS, widths, strict=True):
        table.add_column(
            heading if percent else heading.removesuffix(" %"),
            justify="left" if heading in LEFT else "right",
            no_wrap=heading not in LONG,
            overflow="fold",
            min_width=min(width, LONG.get(heading, width)),
        )
    return table


def _texts(cell: CellOfRows) -> list[str]:
    settings = "/".join(cell.settings_names)
    changed = ", ".join(f"{name}={_value(value)}" for name, value in cell.changed.items())
    failed = [f"{cell.failed}"] if cell.failed else []
    failed += [f"{cell.diverged} diverged"] if cell.diverged else []
    learned = ", ".join(
        f"{name.removeprefix('layers.')} {x:.2f}" for name, x in cell.learned.items()
    )
    seconds = decimal(cell.seconds, ".1f")
    return [
        cell.backbone,
        cell.aggr,
        f"{settings}, {changed}" if changed else settings,
        f"{cell.n}",
        ", ".join(failed) or "0",
        *(_score(own, cell.percent) for own in (cell.test, cell.val)),
        seconds if cell.alone or cell.seconds is None else f"({seconds})",
        learned or "–",
    ]


def _score(score: tuple[float, float | None] | None, percent: bool) -> str:
    mean, std = score or (None, None)
    return mean_std(mean, std, score_form(percent, mean, std))


def _value(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else f"{value}"


def _filter(name: str, what: str) -> Callable[[options.F], options.F]:
    return click.option(
        f"--{name}",
        multiple=True,
        callback=options.split_names,
        help=f"Only these {what}, separated by commas.",
    )


@click.group()
def results() -> None:
    r"""Stored runs: show them, export them, merge them."""


@results.command()
@options.stored_runs
@_filter("data", "data sets")
@_filter("backbone", "backbones")
@_filter("aggr", "aggregators")
@click.option("--settings", type=options.SETTINGS, help="Only runs with this settings file.")
@options.as_json
def show(store: Path, settings: str | None, print_json: bool, **wanted: tuple[str, ...]) -> None:
    r"""Show the results of runs, a line for each method and its settings."""
    with options.clear_errors():
        rows: Sequence[Row] = exports.read_rows(store)
    for fact, names in wanted.items():
        rows = _filtered(rows, fact, names) if names else rows
    if settings is not None:
        rows = [row for row in rows if is_planned_from(row, settings)]
    found = cells(rows)
    if print_json:
        click.echo(json.dumps([json_safe(cell) for cell in found], indent=1))
    elif found:
        print_out(cells_tables(found))
    else:
        click.echo(f"There are no such runs in {store}.")


@results.command()
@options.store
@options.out(options.FILE, "File for the rows: .jsonl, .parquet or .csv.", required=True)
@click.option(
    "--curves", type=options.FILE, help="File for losses and scores of each epoch: .parquet."
)
@options.raw
def export(store: Path, out: Path, curves: Path | None, raw: bool) -> None:
    r"""Write all runs to a file, one row for each."""
    if out.suffix != ".csv":
        options.refuse(("raw",), "on a file that is not csv")
    with options.clear_errors():
        exports.check_export(out)
        if curves is not None:
            exports.check_curves(curves)
        kept = Store(store, create=False)
        rows = kept.rows()
        exports.export_rows(rows, out, raw=raw)
        click.echo(f"{out}: {count(len(rows), 'run')}")
        if curves is not None:
            click.echo(
                f"{curves}: curves of {count(exports.export_curves(kept, rows, curves), 'run')}"
            )


@results.command()
@click.argument("sources", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@options.store
def merge(sources: tuple[Path, ...], store: Path) -> None:
    r"""Add the runs of exported files and of other folders that the store lacks.

    If anything is wrong with a source, none of its runs are added. Artefacts of folders are added
    too.
    """
    with options.clear_errors():
        exports.check_sources(store, sources)
        kept = Store(store)
        for source in sources:
            new = exports.merge_source(kept, source)
            click.echo(f"{source}: {count(new, 'new run')}")


def _filtered(rows: Sequence[Row], fact: str, names: Sequence[str]) -> Sequence[Row]:
    known = sorted({getattr(row, fact) for row in rows})
    for name in names:
        if name not in known:
            raise click.BadParameter(
                f"there are no runs with {name!r}: there are {', '.join(known) or 'none'}.",
                param_hint=f"--{fact}",
            )
    return [row for row in rows if getattr(row, fact) in names]
