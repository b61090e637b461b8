r"""The commands :obj:`meanmax results show | export | merge`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from meanmax.cli import options
from meanmax.cli.data_tables import (count, print_out)
from meanmax.cli.commands.results_table import cells_tables
from meanmax.study.stats.cells import (cells, is_planned_from)
from meanmax.study.store.curves import (check_curves, export_curves)
from meanmax.study.store.exports import (check_export, export_rows, read_rows)
from meanmax.study.store.merge import (check_sources, merge_source)
from meanmax.study.runs.row import Row
from meanmax.study.store.store import (DEFAULT_STORE, Store)


def _split(
    ctx: click.Context, param: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...] | None:
    names = tuple(name.strip() for text in value for name in text.split(",") if name.strip())
    return names or None


def _filter(name: str, what: str) -> Callable[[options.F], options.F]:
    return click.option(
        f"--{name}", multiple=True, callback=_split, help=f"Only these {what}, with commas."
    )


@click.group()
def results() -> None:
    r"""Runs that were made: look at them, write them to files, gather them."""


@results.command()
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    default=Path(DEFAULT_STORE),
    help="Folder of the runs, or a file that they were exported to.",
)
@_filter("data", "data sets")
@_filter("backbone", "backbones")
@_filter("aggr", "aggregators")
@click.option("--settings", type=options.SETTINGS, help="Only runs of this settings file.")
@options.as_json
def show(
    store: Path,
    data: tuple[str, ...] | None,
    backbone: tuple[str, ...] | None,
    aggr: tuple[str, ...] | None,
    settings: str | None,
    print_json: bool,
) -> None:
    r"""Show what runs gave, a line for each method and its settings."""
    with options.clear_errors():
        rows: Sequence[Row] = read_rows(store)
    for fact, wanted in (("data", data), ("backbone", backbone), ("aggr", aggr)):
        rows = _chosen(rows, fact, wanted)
    if settings is not None:
        rows = [row for row in rows if is_planned_from(row, settings)]
    found = cells(rows)
    if print_json:
        click.echo(json.dumps([cell.as_dict() for cell in found], indent=1))
    elif found:
        print_out(cells_tables(found))
    else:
        click.echo(f"There are no such runs in {store}.")


@results.command()
@options.store
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="File for the rows: .jsonl, .parquet or .csv.",
)
@click.option(
    "--curves",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for losses and scores epoch by epoch: .parquet.",
)
def export(store: Path, out: Path, curves: Path | None) -> None:
    r"""Write all runs to a file, one row for each."""
    with options.clear_errors():
        check_export(out)
        if curves is not None:
            check_curves(curves)
        kept = Store(store, create=False)
        rows = kept.rows()
        export_rows(rows, out)
        click.echo(f"{out}: {count(len(rows), 'run')}")
        if curves is not None:
            click.echo(f"{curves}: curves of {count(export_curves(kept, rows, curves), 'run')}")


@results.command()
@click.argument("sources", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@options.store
def merge(sources: tuple[Path, ...], store: Path) -> None:
    r"""Add the runs of exported files and of other folders that are not there yet.

    Of each source all are added or, if anything is wrong with it, none. Folders give their
    artefacts too.
    """
    with options.clear_errors():
        check_sources(store, sources)
        kept = Store(store)
        for source in sources:
            new = merge_source(kept, source)
            click.echo(f"{source}: {count(new, 'new run')}")


def _chosen(rows: Sequence[Row], fact: str, wanted: tuple[str, ...] | None) -> Sequence[Row]:
    if wanted is None:
        return rows
    there = {getattr(row, fact) for row in rows}
    for name in wanted:
        if name not in there:
            raise click.BadParameter(
                f"there are no runs with {name!r}: there are {', '.join(sorted(there)) or 'none'}.",
                param_hint=f"--{fact}",
            )
    return [row for row in rows if getattr(row, fact) in wanted]
