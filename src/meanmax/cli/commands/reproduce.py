r"""The command :obj:`meanmax reproduce`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from meanmax.cli import options
from meanmax.cli.commands.figure import DEFAULT_OUT, figure
from meanmax.cli.progress import data_bars, filled
from meanmax.cli.tables import Grid, print_out
from meanmax.data import CATALOG, Statistics, load, statistics
from meanmax.study.paper.ablation import Effect, ablation
from meanmax.study.paper.claims import Claim, claims, summary
from meanmax.study.paper.reproduction import Reproduction, some_ppi
from meanmax.study.paper.result_tables import (
    BACKBONES,
    SETS,
    Cell,
    Tabled,
    paper_counts,
    paper_heading,
)
from meanmax.study.report.page import write_report
from meanmax.study.runs.plan import Task, check_methods, check_splits
from meanmax.study.runs.row import Row, json_safe
from meanmax.study.runs.run_missing import Workers
from meanmax.study.store.exports import read_rows
from meanmax.study.store.store import DEFAULT_STORE

MARKS = {
    "at or above": "≥",
    "within one std": "≈",
    "below": "<",
    "missing": "",
    "no paper value": "",
}
LEGEND = (
    "Ours (n) above the paper's: ≥ at or above its mean, ≈ within one of its standard deviations "
    "below, < below that."
)


def results_grid(tabled: Tabled, settings: str) -> Grid:
    r"""Methods down, data sets across; our number above the paper's."""
    heading = paper_heading(tabled.number)
    data = list(dict.fromkeys(cell.data for cell in tabled.cells))
    methods = dict.fromkeys((cell.backbone, cell.aggr) for cell in tabled.cells)
    rows = []
    for backbone, aggr in methods:
        own = [cell for cell in tabled.cells if (cell.backbone, cell.aggr) == (backbone, aggr)]
        rows.append([_method(backbone, aggr), *(_cell(cell) for cell in own)])
    title = f"Table {tabled.number}: {heading.task}, {heading.metric}; settings {settings}"
    return Grid(title, ["method", *data], rows, left=["method"], caption=LEGEND, lines=True)


def clusters_grid(tabled: Tabled) -> Grid:
    r"""Our own columns beside Table 3: clusters of the hidden embedding."""
    rows = [
        [
            cell.data,
            _method(cell.backbone, cell.aggr),
            str(cell.n),
            *(f"{value:.1f}" for value in cell.extra.values()),
        ]
        for cell in tabled.cells
        if cell.n and all(math.isfinite(value) for value in cell.extra.values())
    ]
    headings = ["data", "method", "n", "accuracy %", "NMI %", "ARI %"]
    title = "k-means on the hidden embedding of all nodes: accuracy of the best match, NMI, ARI"
    return Grid(title, headings, rows, left=["data", "method"])


def claims_grid(listed: Sequence[Claim]) -> Grid:
    r"""Every aggregator against its baseline, paired."""
    headings = ["data", "method", "n", "difference", "95 % interval", "p", "paper", "verdict"]
    rows = []
    for claim in listed:
        pair = claim.paired
        rows.append(
            [
                claim.data,
                _method(claim.backbone, claim.aggr),
                str(pair.n),
                f"{pair.difference:+.2f}",
                "–" if math.isnan(pair.low) else f"{pair.low:+.2f} to {pair.high:+.2f}",
                "–" if math.isnan(claim.adjusted_p) else f"{claim.adjusted_p:.2g}",
                "–" if math.isnan(claim.paper) else f"{claim.paper:+.2f}",
                claim.holds,
            ]
        )
    title = "Aggregator − baseline, in points, paired over splits"
    caption = "p: Wilcoxon, Holm-adjusted among the aggregators of one backbone and data set."
    return Grid(title, headings, rows, left=["data", "method", "verdict"], caption=caption)


def counts_grid(counted: dict[str, Statistics]) -> Grid:
    r"""Table 1: what is in the data, beside the paper's counts."""
    names = ("nodes", "edges", "features", "classes")
    rows = []
    for data, facts in counted.items():
        paper = paper_counts("ppi" if data == "ppi-go" else data)
        cells = [
            f"{getattr(facts, name)} ({'–' if paper is None else getattr(paper, name)})"
            for name in names
        ]
        rows.append([data, *cells, str(facts.graphs)])
    title = "Table 1: the data sets; the paper's counts in brackets"
    return Grid(title, ["data", *names, "graphs"], rows, left=["data"])


def effects_grid(effects: Sequence[Effect]) -> Grid:
    r"""The ablation: choices down, data sets across."""
    data = list(dict.fromkeys(effect.data for effect in effects))
    kinds = ("% (n)", "val %", "difference", "learned")
    columns = [f"{name} {what}" for name in data for what in kinds]
    by_choice: dict[tuple[str, str], dict[str, Effect]] = {}
    for effect in effects:
        variant = effect.variant
        key = ("none", "") if variant is None else (variant.aggr, variant.name)
        by_choice.setdefault(key, {})[effect.data] = effect
    rows = [
        [aggr, choice, *(cell for name in data for cell in _effect(found[name]))]
        for (aggr, choice), found in by_choice.items()
    ]
    return Grid(
        "Ablation: GCN, published settings with one choice changed; test accuracy",
        ["aggregator", "choice", *columns],
        rows,
        left=["aggregator", "choice"],
        caption="Difference of test accuracy to GCN's own aggregation, paired over splits, with "
        "its 95 % interval, not corrected for the number of lines. Choose by validation (val %), "
        "not by test.",
    )


def _effect(effect: Effect) -> list[str]:
    if effect.n == 0:
        return ["missing", "", "", ""]
    spread = "" if math.isnan(effect.std) else f" ± {effect.std:.2f}"
    difference = "" if math.isnan(effect.difference) else f"{effect.difference:+.2f}"
    if not math.isnan(effect.low):
        difference += f" [{effect.low:+.2f}, {effect.high:+.2f}]"
    learned = "" if math.isnan(effect.learned) else f"{effect.learned:.2f}"
    return [
        f"{effect.mean:.2f}{spread} ({effect.n})",
        f"{effect.val_mean:.2f}",
        difference,
        learned,
    ]


def _method(backbone: str, aggr: str) -> str:
    return backbone if aggr == "none" else f"{backbone} + {aggr}"


def _cell(cell: Cell) -> str:
    paper = "" if cell.paper is None else f"{cell.paper.mean:.2f} ± {cell.paper.std:.2f}"
    if cell.mark == "missing":
        failed = f" ({cell.failed} failed)" if cell.failed else ""
        return f"missing{failed}\n{paper}"
    spread = "" if math.isnan(cell.std) else f" ± {cell.std:.2f}"
    failed = f", {cell.failed} failed" if cell.failed else ""
    return f"{MARKS[cell.mark]} {cell.mean:.2f}{spread} ({cell.n}{failed})\n{paper}"


TABLES = {"table2": [2], "table3": [3], "table4": [4], "all": [2, 3, 4]}
WHAT = ("table1", "table2", "table3", "table4", "figures", "ablation", "all")
Show = Callable[[Grid | str], None]


@click.command()
@click.argument("what", type=click.Choice(WHAT))
@click.option(
    "--settings",
    "settings_name",
    type=options.SETTINGS,
    default="published",
    help=options.SETTINGS_HELP,
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
@options.aggrs
@click.option(
    "--split",
    "scheme",
    metavar="SCHEME",
    help=f"{options.SCHEME_HELP} [default: the paper's]",
)
@options.overrides
@options.workers
@options.artefacts
@options.store
@options.data_dir
@click.option("--no-run", is_flag=True, help="Print what the rows of the store give, run nothing.")
@click.option(
    "--figures-dir",
    "figures",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(DEFAULT_OUT),
    help="Folder for the figures.",
)
@click.option("--markdown", is_flag=True, help="Print tables in Markdown.")
@options.as_json
@click.pass_context
def reproduce(
    ctx: click.Context,
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
    artefacts: bool,
    store: Path,
    data_dir: Path | None,
    no_run: bool,
    figures: Path,
    markdown: bool,
    print_json: bool,
) -> None:
    r"""Make the paper's tables and figures anew; tables stand beside the paper's numbers.

    Tables 2 and 3 are of the same runs. Runs that are in the store are not made again: the same
    command goes on where it was interrupted. With --no-run the store may also be a file of rows
    that `meanmax results export` has written.
    """
    wish = Reproduction(
        tables=TABLES.get(what, []),
        ablation=what in ("ablation", "all"),
        figures=what in ("figures", "all"),
        data=data or [],
        backbones=backbones,
        aggrs=aggrs,
        splits=splits,
        scheme=scheme,
        settings_name=settings_name,
        overrides=options.parsed(pairs),
        data_dir=data_dir,
        store=store if store.is_dir() and store != Path(DEFAULT_STORE) else None,
    )
    _refuse_without_effect(ctx, what)
    if data and what != "all" and any(not wish.sets(number) for number in wish.tables):
        raise click.UsageError(f"{what} has no column for {', '.join(data)}: leave out --data")
    wish = replace(wish, tables=[number for number in wish.tables if wish.sets(number)])
    found: dict[str, Any] = {}
    show = _shower(markdown, print_json)
    with options.clear_errors():
        if what in ("table1", "all"):
            found["table1"] = _counts(data or [*SETS, some_ppi(data_dir)], data_dir, show)
        if what != "table1":
            if not no_run:
                _run(wish, store, Workers(jobs, threads, engine), retry_failed, artefacts)
                click.echo(f"To look at: {write_report(store, data_dir=data_dir)}", err=True)
            rows = read_rows(store)
            for number in wish.tables:
                found[f"table{number}"] = _table(wish, rows, number, show)
            if wish.ablation:
                ablated = ablation(rows, wish.ablation_sets(), wish.splits)
                found["ablation"] = [json_safe(effect) for effect in ablated.effects]
                show(effects_grid(ablated.effects))
                for note in ablated.notes:
                    show(note)
                _show_missing(wish.missing_in_ablation(ablated.effects), "Lines", wish.splits, show)
    if wish.figures:
        ctx.invoke(
            figure, name="all", store=store, data_dir=data_dir, out=figures, silent=print_json
        )
    if print_json:
        click.echo(json.dumps(found, indent=1, allow_nan=False))


def _refuse_without_effect(ctx: click.Context, what: str) -> None:
    r"""Options that have no say: ablation and figures are of the published settings."""
    fixed = ["settings_name", "pairs", "backbones", "aggrs", "scheme"]
    fixed += ["splits", "no_run"] if what == "table1" else []
    for name in fixed if what in ("ablation", "figures", "table1") else ():
        if ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE:
            option = next(p.opts[0] for p in ctx.command.params if p.name == name)
            raise click.UsageError(f"{option} has no effect on '{what}': leave it out")


def _run(
    wish: Reproduction, folder: Path, workers: Workers, retry_failed: bool, artefacts: bool
) -> None:
    tasks: list[Task] = []
    with data_bars() as progress:
        for plan in wish.plans():
            dataset = load(plan.data.source, data_dir=wish.data_dir, progress=progress)
            own = plan.tasks(dataset)
            check_splits(own, dataset)
            check_methods(own, dataset)
            tasks += own
            if unused := plan.without_effect(dataset):
                click.echo(f"No effect here: {', '.join(unused)}.", err=True)
    filled(folder, tasks, workers, retry_failed=retry_failed, artefacts=artefacts)


def _table(wish: Reproduction, rows: Sequence[Row], number: int, show: Show) -> dict[str, Any]:
    tabled = wish.table(rows, number)
    listed = claims(number, tabled.comparisons)
    show(results_grid(tabled, wish.described()))
    if number == 3:
        show(clusters_grid(tabled))
    if listed:
        show(claims_grid(listed))
    show(summary(listed))
    for note in tabled.notes:
        show(note)
    commands = wish.missing(tabled)
    _show_missing(commands, "Cells", wish.splits, show)
    return {
        "settings": wish.settings_name,
        "overrides": wish.overrides,
        "cells": [json_safe(cell) for cell in tabled.cells],
        "claims": [json_safe(claim) for claim in listed],
        "summary": summary(listed),
        "notes": tabled.notes,
        "missing": commands,
    }


def _show_missing(commands: Sequence[str], what: str, splits: int, show: Show) -> None:
    if commands:
        listing = "\n".join(f"    {command}" for command in commands)
        show(f"{what} with fewer than {splits} runs are filled by:\n\n{listing}\n")


def _counts(names: Sequence[str], data_dir: Path | None, show: Show) -> dict[str, Any]:
    with data_bars() as progress:
        counted = {
            name: statistics(load(name, data_dir=data_dir, progress=progress)) for name in names
        }
    show(counts_grid(counted))
    found = {}
    for name, own in counted.items():
        paper = paper_counts("ppi" if name == "ppi-go" else name)
        found[name] = {"ours": asdict(own), "paper": None if paper is None else paper._asdict()}
    return found


def _shower(markdown: bool, silent: bool) -> Show:
    def show(what: Grid | str) -> None:
        if silent:
            return
        if isinstance(what, str):
            click.echo(what + "\n" if markdown else what)
        elif markdown:
            click.echo(what.markdown())
        else:
            print_out(what.for_terminal())

    return show
