r"""The command :obj:`meanmax compare`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from meanmax.cli import options
from meanmax.cli.commands.report import making_page
from meanmax.cli.progress import checked_tasks, load_planned, run_missing
from meanmax.cli.tables import Grid, decimal, mean_std, print_out, with_interval
from meanmax.data.files import write_text
from meanmax.study.report.page import write_report
from meanmax.study.runs.machine import revision_notes
from meanmax.study.runs.plan import settings_text
from meanmax.study.runs.row import Row
from meanmax.study.stats.cells import Selected
from meanmax.study.stats.comparison import BASELINE, Comparison, Line
from meanmax.study.stats.comparison import compare as compare_rows
from meanmax.study.store.exports import export_rows
from meanmax.study.store.store import DEFAULT_STORE, reported

HEADINGS = ("aggregator", "n", "{metric} %", "− baseline", "p (Holm)", "learned", "maxness", "s")
HOW_TO_READ = (
    "Scores are of test nodes, mean ± standard deviation over splits; models are selected on "
    "validation nodes alone. Differences to the baseline are paired over splits, with a 95 % "
    "bootstrap interval. Times with a star are of runs that shared the machine and are not "
    "comparable."
)


@click.command()
@options.graph
@options.backbone
@options.aggrs
@options.splits
@options.scheme
@options.settings
@options.overrides
@options.runs
@options.artefacts
@options.out(options.FOLDER, "Folder for the runs, the table and the page.", default=DEFAULT_STORE)
@click.option(
    "--tsne",
    is_flag=True,
    help="Add t-SNE pictures of hidden embeddings to the page: seconds for a small graph, up to a "
    "minute for each method on a large one.",
)
@options.as_json
def compare(
    aggrs: list[str], runs: dict[str, Any], out: Path, tsne: bool, print_json: bool, **planned: Any
) -> None:
    r"""Train a model with each aggregator on the same splits, and say what the evidence supports.

    Runs that are stored in the folder are not repeated: after an interruption, the same command
    resumes.
    """
    aggrs = aggrs if BASELINE in aggrs else [BASELINE, *aggrs]
    with options.clear_errors():
        dataset, plan = load_planned(aggrs=aggrs, **planned)
        rows = run_missing(out, checked_tasks(plan, dataset), **runs)
        metric = "accuracy" if dataset.task == "multiclass" else "micro-F1"
        selected, named = Selected(rows, revision_notes(rows)), plan.name_of(dataset)
        result = compare_rows(selected, planned["backbone"], aggrs, data=named, name=metric)
        described = settings_text(plan.settings_name, plan.overrides, plan.scheme)
        files = write_comparison(result, rows, out, described)
        with making_page(tsne):
            shown = {"datasets": [dataset], "data_dir": planned["data_dir"], "tsne": tsne}
            known = {frozenset(row.key for row in rows): result}
            page = write_report(out, comparisons=known, **shown)
    if print_json:
        click.echo(json.dumps(result.as_dict(), indent=1, allow_nan=False))
    else:
        print_out(comparison_grid(result, described))
        if not all(line.alone for line in result.lines):
            click.echo("* shared the machine with other runs: these times are not comparable")
        for line in result.lines:
            for error in line.errors:
                click.echo(f"{line.aggr}: {error}")
        click.echo("\n".join(["", result.verdict, *result.notes]))
        if unused := plan.without_effect(dataset):
            click.echo(f"No effect on these methods: {', '.join(unused)}.")
        click.echo(f"\nWritten: {', '.join(str(path) for path in files)}")
        click.echo(f"Page: {page}")
    if all(line.n == 0 for line in result.lines):
        errors = dict.fromkeys(error for line in result.lines for error in line.errors)
        raise click.ClickException("no run succeeded. " + "; ".join(errors))


def comparison_grid(result: Comparison, settings: str) -> Grid:
    r"""One line for each aggregator."""
    return Grid(
        f"{result.data}, {result.backbone}, settings {settings}",
        [heading.format(metric=result.metric) for heading in HEADINGS],
        [_cells(line) for line in result.lines],
        left=["aggregator", "learned"],
    )


def write_comparison(
    result: Comparison, rows: Sequence[Row], folder: Path, settings: str
) -> list[Path]:
    r"""Writes the table as Markdown and JSON, and its rows; returns the files."""
    parts = ("compare", result.data, result.backbone, settings)
    stem = "-".join(re.sub(r"[^\w=.-]", "_", part)[:80] for part in parts)
    paths = [folder / f"{stem}.{suffix}" for suffix in ("md", "json", "jsonl")]
    grid = comparison_grid(result, settings).markdown()
    facts = {"settings": settings, **result.as_dict()}
    with reported(folder):
        text = "\n\n".join([grid, result.verdict, *result.notes, HOW_TO_READ])
        write_text(paths[0], text + "\n")
        write_text(paths[1], json.dumps(facts, indent=1, allow_nan=False) + "\n")
    export_rows(rows, paths[2])
    return paths


def _cells(line: Line) -> list[str]:
    difference = p = "–"
    if line.paired is not None:
        pair = line.paired
        difference = with_interval(pair.difference, pair.low, pair.high)
        p = decimal(line.adjusted_p, ".2g")
    learned = []
    for name, (mean, low, high) in line.learned.items():
        spread = "" if high - low < 0.005 else f" ({low:.2f}–{high:.2f})"
        learned.append(f"{name.rpartition('.')[2]} {mean:.2f}{spread}")
    star = "" if line.alone or math.isnan(line.seconds) else "*"
    return [
        line.aggr,
        f"{line.n}" + (f" ({line.failed} failed)" if line.failed else ""),
        mean_std(line.mean, line.std),
        difference,
        p,
        ", ".join(learned) or "–",
        decimal(line.maxness),
        decimal(line.seconds, ".1f") + star,
    ]
