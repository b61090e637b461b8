r"""The command :obj:`meanmax reproduce`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click

from meanmax.cli import options
from meanmax.cli.data_bars import data_bars
from meanmax.cli.data_tables import print_out
from meanmax.cli.paper_table import claims_table, counts_table, effects_table, results_table
from meanmax.cli.run_bars import run_bar
from meanmax.data import CATALOG, load, statistics
from meanmax.experiments.ablation import SETTINGS, effects, variants
from meanmax.experiments.check import check_methods
from meanmax.experiments.claims import claims, summary
from meanmax.experiments.execute import DataRef, Task
from meanmax.experiments.exports import read_rows
from meanmax.experiments.fill import Workers, fill
from meanmax.experiments.paper_tables import paper_counts
from meanmax.experiments.plan import Plan
from meanmax.experiments.row import Row
from meanmax.experiments.settings_files import NAMES
from meanmax.experiments.store import DEFAULT_STORE, Store
from meanmax.experiments.tables import AGGRS, BACKBONES, SETS, Cell, Tabled, table

WHAT = ("table1", "table2", "table3", "table4", "ablation", "all")
ABLATION = ("cora", "photo")
PPI = ("ppi", "ppi-go")


@dataclass(frozen=True)
class Request:
    r"""What was asked for.

    Args:
        what (str): Which table, or all.
        data (sequence): The data sets; empty for those of the table.
        backbones (sequence): The backbones.
        aggrs (sequence): The aggregators.
        splits (int): How many splits.
        scheme (str, optional): How to split.
        settings_name (str): The settings file.
        overrides (dict): Settings in place of the file's.
        data_dir (Path, optional): Where data are.
    """

    what: str
    data: Sequence[str]
    backbones: Sequence[str]
    aggrs: Sequence[str]
    splits: int
    scheme: str | None
    settings_name: str
    overrides: dict[str, Any]
    data_dir: Path | None

    @property
    def numbers(self) -> list[int]:
        r"""The tables of results."""
        if self.what in ("all", "ablation"):
            return [2, 3, 4] if self.what == "all" else []
        return [int(self.what[-1])]

    def sets(self, number: int) -> list[str]:
        r"""The data sets of a table."""
        if number == 4:
            return [name for name in self.data if name in PPI] or [_ppi(self.data_dir)]
        if self.what == "all" and self.data:
            return [name for name in self.data if name in SETS]
        return list(self.data) or list(SETS)

    def tabled(self, rows: Sequence[Row], number: int) -> Tabled:
        r"""A table from rows."""
        return table(
            rows,
            number,
            data=self.sets(number),
            backbones=self.backbones,
            aggrs=self.aggrs,
            settings_name=self.settings_name,
            overrides=self.overrides,
            scheme=self.scheme,
        )


@click.command()
@click.argument("what", type=click.Choice(WHAT))
@click.option(
    "--settings",
    "settings_name",
    type=click.Choice(NAMES),
    default="published",
    help="Settings file: what the paper and its code give, or what validation prefers.",
)
@click.option("--splits", type=options.POSITIVE, default=10, help="Splits, from seed 0 on.")
@click.option(
    "--data",
    type=options.Names("data set", tuple(CATALOG)),
    default=None,
    help="Data sets, with commas. [default: those of the table]",
)
@click.option(
    "--backbone",
    "backbones",
    type=options.BACKBONE_NAMES,
    default=",".join(BACKBONES),
    help="Backbones, with commas.",
)
@click.option(
    "--aggr",
    "aggrs",
    type=options.AGGRS,
    default=",".join(AGGRS),
    help="Aggregators, with commas.",
)
@click.option("--split", "scheme", metavar="SCHEME", help="How to split. [default: the paper's]")
@options.overrides
@options.workers
@options.store
@options.data_dir
@click.option("--no-run", is_flag=True, help="Print what the rows of the store give, run nothing.")
@options.as_json
def reproduce(
    what: str,
    settings_name: str,
    splits: int,
    data: list[str] | None,
    backbones: list[str],
    aggrs: list[str],
    scheme: str | None,
    pairs: tuple[str, ...],
    jobs: int | None,
    threads: int,
    engine: str,
    retry_failed: bool,
    store: Path,
    data_dir: Path | None,
    no_run: bool,
    print_json: bool,
) -> None:
    r"""Make the paper's tables anew and print them beside the paper's numbers.

    Tables 2 and 3 are of the same runs. Runs that are in the store are not made again: the same
    command goes on where it was interrupted. With --no-run the store may also be a file of rows
    that `meanmax results export` has written.
    """
    request = Request(
        what,
        data or [],
        backbones,
        aggrs,
        splits,
        scheme,
        settings_name,
        options.parsed(pairs),
        data_dir,
    )
    shown: dict[str, Any] = {}
    with options.clear_errors():
        if what in ("table1", "all"):
            shown["table1"] = _print_counts(data or [*SETS, _ppi(data_dir)], data_dir, print_json)
        if what != "table1":
            if not no_run:
                _run(request, store, Workers(jobs, threads, engine), retry_failed)
            rows = read_rows(store) if no_run else Store(store).rows()
            for number in request.numbers:
                shown[f"table{number}"] = _print_table(request, rows, number, store, print_json)
            if what in ("ablation", "all"):
                found = effects(rows, data or ABLATION)
                shown["ablation"] = [effect.as_dict() for effect in found]
                if not print_json:
                    print_out(effects_table(found))
    if print_json:
        click.echo(json.dumps(shown, indent=1))


def _run(request: Request, folder: Path, workers: Workers, retry_failed: bool) -> None:
    tasks: list[Task] = []
    with data_bars() as progress:
        for plan in _plans(request):
            dataset = load(plan.data.source, data_dir=request.data_dir, progress=progress)
            own = plan.tasks(dataset)
            check_methods(own, dataset)
            tasks += own
    store = Store(folder)
    try:
        keys = {task.spec.key for task in tasks}
        done = store.finished(failed=not retry_failed) & keys
        with run_bar(len(keys), len(done)) as on_row:
            fill(store, tasks, workers, retry_failed=retry_failed, on_row=on_row)
    finally:
        store.close()


def _plans(request: Request) -> list[Plan]:
    folder = str(request.data_dir.resolve()) if request.data_dir else None
    sets = dict.fromkeys(name for number in request.numbers for name in request.sets(number))
    plans = [
        Plan(
            data=DataRef(name, folder),
            backbones=request.backbones,
            aggrs=request.aggrs,
            splits=range(request.splits),
            settings_name=request.settings_name,
            scheme=request.scheme,
            overrides=request.overrides,
        )
        for name in sets
    ]
    if request.what in ("ablation", "all"):
        for name in request.data or ABLATION:
            base = Plan(DataRef(name, folder), ["gcn"], ["none"], range(request.splits), SETTINGS)
            plans.append(base)
            plans += [
                replace(base, aggrs=[variant.aggr], overrides=variant.overrides)
                for variant in variants()
            ]
    return plans


def _print_table(
    request: Request, rows: Sequence[Row], number: int, store: Path, print_json: bool
) -> dict[str, Any]:
    tabled = request.tabled(rows, number)
    listed = claims(number, tabled.comparisons)
    missing = [
        command(request, number, cell, store)
        for cell in tabled.cells
        if cell.n + cell.failed < request.splits
    ]
    commands = list(dict.fromkeys(missing))
    if not print_json:
        print_out(results_table(tabled, request.settings_name))
        if listed:
            print_out(claims_table(listed))
        click.echo(summary(listed))
        if request.sets(number) == ["ppi-go"]:
            click.echo(
                "ppi-go has PPI's graphs and features but rebuilt labels: not to be read as PPI."
            )
        for note in tabled.notes:
            click.echo(note)
        if commands:
            click.echo(f"Cells with fewer than {request.splits} runs are filled by:")
            for line in commands:
                click.echo(f"  {line}")
        click.echo()
    return {
        "settings": request.settings_name,
        "overrides": request.overrides,
        "cells": [cell.as_dict() for cell in tabled.cells],
        "claims": [claim.as_dict() for claim in listed],
        "summary": summary(listed),
        "notes": tabled.notes,
        "missing": commands,
    }


def command(request: Request, number: int, cell: Cell, store: Path) -> str:
    r"""The command that fills a cell, and the others of its row of aggregators."""
    words = ["meanmax", "reproduce", f"table{number}", "--data", cell.data]
    words += ["--backbone", cell.backbone, "--splits", str(request.splits)]
    if request.settings_name != "published":
        words += ["--settings", request.settings_name]
    if request.scheme is not None:
        words += ["--split", request.scheme]
    for name, value in request.overrides.items():
        words += ["--set", f"{name}={value}"]
    if store.is_dir() and store.name != DEFAULT_STORE:
        words += ["--store", str(store)]
    return shlex.join(words)


def _print_counts(names: Sequence[str], data_dir: Path | None, print_json: bool) -> dict[str, Any]:
    with data_bars() as progress:
        counted = {
            name: statistics(load(name, data_dir=data_dir, progress=progress)) for name in names
        }
    if not print_json:
        print_out(counts_table(counted))
        click.echo()
    found = {}
    for name, own in counted.items():
        paper = paper_counts("ppi" if name == "ppi-go" else name)
        found[name] = {"ours": asdict(own), "paper": None if paper is None else paper._asdict()}
    return found


def _ppi(data_dir: Path | None) -> str:
    r"""The released PPI, unless only the one with rebuilt labels is on disk."""
    here = [name for name in PPI if CATALOG[name].located(data_dir) is not None]
    return here[0] if here else "ppi"
