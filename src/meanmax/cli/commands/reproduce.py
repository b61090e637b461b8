r"""The command :obj:`meanmax reproduce`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from meanmax.cli import options
from meanmax.cli.commands.figure import DEFAULT_OUT, figure
from meanmax.cli.progress import checked_tasks, load_dataset, run_missing
from meanmax.cli.study import missing_text, show_study
from meanmax.cli.tables import Grid, decimal, mean_std, print_out, with_interval
from meanmax.data import CATALOG
from meanmax.study.paper import result_tables
from meanmax.study.paper.reproduction import Effect, Reproduction, ablation, some_ppi
from meanmax.study.paper.result_tables import BACKBONES, SETS, Cell, Claim, Tabled, claims, summary
from meanmax.study.report.page import write_report
from meanmax.study.runs.plan import Task
from meanmax.study.runs.row import Row, json_safe
from meanmax.study.store.exports import read_rows
from meanmax.study.store.store import DEFAULT_STORE

if TYPE_CHECKING:
    from meanmax.data import Statistics

TABLES = {"table2": [2], "table3": [3], "table4": [4], "all": [2, 3, 4]}
WHAT = ("table1", "table2", "table3", "table4", "figures", "ablation", "all", "study")
MARKS = {"at or above": "≥", "within one std": "≈", "below": "<", "no paper value": ""}
LEGEND = (
    "Ours (n) above the paper's: ≥ at or above its mean, ≈ within one of its standard deviations "
    "below, < below that."
)


@click.command()
@click.argument("what", type=click.Choice(WHAT))
@options.settings_of(options.SETTINGS, options.SETTINGS_HELP, "published")
@options.splits
@click.option(
    "--data",
    type=options.Names("data set", tuple(CATALOG)),
    help="Data sets, separated by commas. [default: those of the table]",
)
@options.backbones
@options.paper_aggrs
@click.option(
    "--split", "scheme", metavar="SCHEME", help=f"{options.SCHEME_HELP} [default: the paper's]"
)
@options.overrides
@options.runs
@options.artefacts
@options.stored_runs
@options.data_dir
@click.option("--no-run", is_flag=True, help="Print the tables of the stored rows; run nothing.")
@click.option(
    "--figures-dir",
    "figures",
    type=options.FOLDER,
    default=DEFAULT_OUT,
    help="Folder for the figures.",
)
@click.option("--markdown", is_flag=True, help="Print tables in Markdown.")
@click.option(
    "--page",
    type=options.FILE,
    help="With 'study': write it to this Markdown file, with figures in the folder beside it.",
)
@options.as_json
@click.pass_context
def reproduce(
    ctx: click.Context,
    /,
    what: str,
    data: list[str] | None,
    backbones: list[str] | None,
    runs: dict[str, Any],
    store: Path,
    data_dir: Path | None,
    no_run: bool,
    figures: Path,
    markdown: bool,
    page: Path | None,
    print_json: bool,
    **planned: Any,
) -> None:
    r"""Reproduce the paper's tables and figures and show its numbers next to ours.

    Tables 2 and 3 use the same runs. Runs that are stored are not repeated: after an interruption
    the same command resumes. With --no-run the store may also be a file of exported rows.

    'study' is not in the paper: all stored comparisons with equal tuning, on how many tasks a
    learned aggregator differs from its baseline, and what predicts it. It runs nothing, and prints
    the commands that fill what is missing.
    """
    _refuse_without_effect(what, no_run)
    if what == "study":
        with options.clear_errors():
            return show_study(store, markdown, print_json, page)
    request = Reproduction(
        tables=TABLES.get(what, []),
        ablation=what in ("ablation", "all"),
        figures=what in ("figures", "all"),
        data=data or [],
        backbones=backbones or list(BACKBONES),
        data_dir=data_dir,
        store=store if store.is_dir() and store != Path(DEFAULT_STORE) else None,
        **planned,
    )
    if data and what != "all" and any(not request.sets(number) for number in request.tables):
        raise click.UsageError(f"{what} has no column for {', '.join(data)}: leave out --data")
    request = replace(request, tables=[n for n in request.tables if request.sets(n)])
    found: dict[str, Any] = {}

    def show(item: Grid | str) -> None:
        if print_json:
            return
        if markdown:
            click.echo(item + "\n" if isinstance(item, str) else item.markdown())
        elif isinstance(item, str):
            click.echo(item)
        else:
            print_out(item)

    with options.clear_errors(resumes=True):
        if what in ("table1", "all"):
            from meanmax.data import statistics

            names = data or [*SETS, some_ppi(data_dir)]
            counted = {name: statistics(load_dataset(name, data_dir)) for name in names}
            found["table1"] = {name: _beside_paper(name, own) for name, own in counted.items()}
            show(counts_grid(counted))
        if what != "table1":
            if not no_run:
                run_missing(store, _tasks(request), **runs)
                click.echo(f"Page: {write_report(store, data_dir=data_dir)}", err=True)
            rows = read_rows(store)
            for number in request.tables:
                found[f"table{number}"] = _table(request, rows, number, show)
            if request.ablation:
                ablated = ablation(rows, request.ablation_sets(), request.splits)
                found["ablation"] = [json_safe(effect) for effect in ablated.effects]
                commands = request.missing_in_ablation(ablated.effects)
                show(effects_grid(ablated.effects))
                missing = missing_text(commands, "Lines", f"fewer than {request.splits} runs")
                for text in [*ablated.notes, *missing]:
                    show(text)
    if request.figures:
        shared = {"store": store, "data_dir": data_dir, "out": figures}
        ctx.invoke(figure, name="all", silent=print_json, **shared)
    if print_json:
        click.echo(json.dumps(found, indent=1, allow_nan=False))


def _refuse_without_effect(what: str, no_run: bool) -> None:
    r"""Refuses options without effect: ablation and figures use the published settings, and the
    study the rows that there are.
    """
    of_runs = ("jobs", "threads", "engine", "retry_failed", "artefacts")
    if what in ("table1", "study"):
        options.refuse(of_runs, f"on '{what}', which runs nothing")
    if no_run:
        options.refuse(of_runs, "with --no-run")
    fixed = ["settings_name", "pairs", "backbones", "aggrs", "scheme"]
    without = {
        "ablation": fixed,
        "figures": fixed,
        "table1": [*fixed, "splits", "no_run"],
        "study": [*fixed, "splits", "data", "data_dir", "figures"],
    }
    options.refuse([*without.get(what, []), *([] if what == "study" else ["page"])], f"on '{what}'")


def _tasks(request: Reproduction) -> list[Task]:
    tasks: list[Task] = []
    for plan in request.plans():
        dataset = load_dataset(plan.data.source, request.data_dir)
        tasks += checked_tasks(plan, dataset)
        if unused := plan.without_effect(dataset):
            click.echo(f"No effect here: {', '.join(unused)}.", err=True)
    return tasks


def _table(
    request: Reproduction, rows: Sequence[Row], number: int, show: Callable[[Grid | str], None]
) -> dict[str, Any]:
    tabled = request.table(rows, number)
    listed = claims(number, tabled.comparisons)
    commands = request.missing(tabled)
    show(results_grid(tabled, request.described()))
    if number == 3:
        show(clusters_grid(tabled))
    if listed:
        show(claims_grid(listed))
    missing = missing_text(commands, "Cells", f"fewer than {request.splits} runs")
    for text in (summary(listed), *tabled.notes, *missing):
        show(text)
    return {
        "settings": request.settings_name,
        "overrides": request.overrides,
        "cells": [json_safe(cell) for cell in tabled.cells],
        "claims": [json_safe(claim) for claim in listed],
        "summary": summary(listed),
        "notes": tabled.notes,
        "missing": commands,
    }


def _beside_paper(name: str, own: Statistics) -> dict[str, Any]:
    paper = result_tables.paper_counts(result_tables.name_in_paper(name))
    return {"ours": asdict(own), "paper": None if paper is None else paper._asdict()}


def results_grid(tabled: Tabled, settings: str) -> Grid:
    r"""Methods down, data sets across; our number above the paper's."""
    heading = result_tables.paper_heading(tabled.number)
    data = list(dict.fromkeys(cell.data for cell in tabled.cells))
    methods: dict[str, list[str]] = {}
    for cell in tabled.cells:
        methods.setdefault(_method(cell), []).append(_cell(cell))
    rows = [[method, *cells] for method, cells in methods.items()]
    title = f"Table {tabled.number}: {heading.task}, {heading.metric}; settings {settings}"
    return Grid(title, ["method", *data], rows, left=["method"], caption=LEGEND, lines=True)


def clusters_grid(tabled: Tabled) -> Grid:
    r"""Our own columns next to Table 3: clusters of the hidden embedding."""
    rows = [
        [cell.data, _method(cell), str(cell.n), *(f"{value:.1f}" for value in cell.extra.values())]
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
        interval = "–" if math.isnan(pair.low) else f"{pair.low:+.2f} to {pair.high:+.2f}"
        p, paper = decimal(claim.adjusted_p, ".2g"), decimal(claim.paper, "+.2f")
        numbers = [str(pair.n), f"{pair.difference:+.2f}", interval, p, paper]
        rows.append([claim.data, _method(claim), *numbers, claim.holds])
    title = "Aggregator − baseline, in points, paired over splits"
    caption = "p: Wilcoxon, Holm-adjusted among the aggregators of one backbone and data set."
    return Grid(title, headings, rows, left=["data", "method", "verdict"], caption=caption)


def counts_grid(counted: dict[str, Statistics]) -> Grid:
    r"""Table 1: what is in the data, next to the paper's counts."""
    names = ("nodes", "edges", "features", "classes")
    rows = []
    for data, facts in counted.items():
        paper = _beside_paper(data, facts)["paper"]
        cells = [
            f"{getattr(facts, name)} ({'–' if paper is None else paper[name]})" for name in names
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
    return [
        f"{mean_std(effect.mean, effect.std)} ({effect.n})",
        f"{effect.val_mean:.2f}",
        with_interval(effect.difference, effect.low, effect.high),
        decimal(effect.learned, missing=""),
    ]


def _method(one: Cell | Claim) -> str:
    return one.backbone if one.aggr == "none" else f"{one.backbone} + {one.aggr}"


def _cell(cell: Cell) -> str:
    paper = "" if cell.paper is None else f"{cell.paper.mean:.2f} ± {cell.paper.std:.2f}"
    if cell.mark == "missing":
        failed = f" ({cell.failed} failed)" if cell.failed else ""
        return f"missing{failed}\n{paper}"
    failed = f", {cell.failed} failed" if cell.failed else ""
    return f"{MARKS[cell.mark]} {mean_std(cell.mean, cell.std)} ({cell.n}{failed})\n{paper}"
