r"""The command :obj:`meanmax compare`."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from meanmax.cli import options
from meanmax.cli.commands.report import making_page
from meanmax.cli.progress import load_dataset, run_missing
from meanmax.cli.tables import Grid, decimal, mean_std, print_out
from meanmax.data.files import write_text
from meanmax.study.report.page import write_report
from meanmax.study.runs.machine import revision_notes
from meanmax.study.runs.plan import Plan, check_methods, check_splits, reference
from meanmax.study.runs.row import Row
from meanmax.study.runs.run_missing import Workers
from meanmax.study.stats.cells import Selected, without_folder
from meanmax.study.stats.comparison import Comparison, Line
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
@options.workers
@options.artefacts
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(DEFAULT_STORE),
    help="Folder for the runs, the table and the page.",
)
@click.option(
    "--tsne",
    is_flag=True,
    help="Add t-SNE pictures of hidden embeddings to the page: seconds for a small graph, up to a "
    "minute for each method on a large one.",
)
@options.as_json
def compare(
    source: str,
    data_dir: Path | None,
    directed: bool,
    backbone: str,
    aggrs: list[str],
    splits: int,
    scheme: str | None,
    settings_name: str,
    pairs: tuple[str, ...],
    jobs: int | None,
    threads: int,
    engine: str,
    retry_failed: bool,
    artefacts: bool,
    out: Path,
    tsne: bool,
    print_json: bool,
) -> None:
    r"""Train a model with each aggregator on the same splits, and say what the evidence supports.

    Runs that are stored in the folder are not repeated: after an interruption, the same command
    resumes.
    """
    aggrs = aggrs if "none" in aggrs else ["none", *aggrs]
    overrides = options.parsed(pairs)
    with options.clear_errors():
        dataset = load_dataset(source, data_dir, directed)
        data = reference(source, data_dir, directed)
        plan = Plan(data, [backbone], aggrs, range(splits), settings_name, scheme, overrides)
        tasks = plan.tasks(dataset)
        check_splits(tasks, dataset)
        check_methods(tasks, dataset)
        workers = Workers(jobs, threads, engine)
        rows = run_missing(out, tasks, workers, retry_failed=retry_failed, artefacts=artefacts)
        metric = "accuracy" if dataset.task == "multiclass" else "micro-F1"
        selected = Selected(rows, revision_notes(rows))
        result = compare_rows(selected, backbone, aggrs, data=plan.name_of(dataset), name=metric)
        described = _described(settings_name, overrides, scheme)
        files = write_comparison(result, rows, out, described)
        with making_page(tsne):
            known = {frozenset(row.key for row in rows): result}
            page = write_report(
                out, datasets=[dataset], data_dir=data_dir, tsne=tsne, comparisons=known
            )
    if print_json:
        click.echo(json.dumps(result.as_dict(), indent=1, allow_nan=False))
    else:
        print_out(comparison_grid(result, described))
        if not all(line.alone for line in result.lines):
            click.echo("* shared the machine with other runs: these times are not comparable")
        for line in result.lines:
            for error in line.errors:
                click.echo(f"{line.aggr}: {error}")
        click.echo(f"\n{result.verdict}")
        for note in result.notes:
            click.echo(note)
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
    stem = "-".join(_in_a_file_name(part) for part in parts)
    paths = [folder / f"{stem}.{suffix}" for suffix in ("md", "json", "jsonl")]
    grid = comparison_grid(result, settings).markdown()
    facts = {"settings": settings, **result.as_dict()}
    with reported(folder):
        text = "\n\n".join([grid, result.verdict, *result.notes, HOW_TO_READ])
        write_text(paths[0], text + "\n")
        write_text(paths[1], json.dumps(facts, indent=1, allow_nan=False) + "\n")
    export_rows(rows, paths[2])
    return paths


def _in_a_file_name(text: str) -> str:
    return "".join(mark if mark.isalnum() or mark in "-_=." else "_" for mark in text)[:80]


def _cells(line: Line) -> list[str]:
    difference = p = "–"
    if line.paired is not None:
        difference = f"{line.paired.difference:+.2f}"
        if math.isfinite(line.paired.low):
            difference += f" [{line.paired.low:+.2f}, {line.paired.high:+.2f}]"
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


def _described(settings_name: str, overrides: dict[str, Any], scheme: str | None) -> str:
    changed = [f"{name}={value}" for name, value in overrides.items()]
    changed += [] if scheme is None else [f"splits {without_folder(scheme)}"]
    return ", ".join([Path(settings_name).name, *changed])
