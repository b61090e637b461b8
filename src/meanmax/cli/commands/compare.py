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
from meanmax.cli.progress import data_bars, filled
from meanmax.cli.tables import Grid, print_out
from meanmax.data import load
from meanmax.data.files import write_text
from meanmax.study.report.page import write_report
from meanmax.study.runs.machine import revision_notes
from meanmax.study.runs.plan import Plan, check_methods, check_splits, reference
from meanmax.study.runs.row import Row
from meanmax.study.runs.run_missing import Workers
from meanmax.study.stats.cells import Selected, without_folder
from meanmax.study.stats.comparison import Comparison, Line
from meanmax.study.stats.comparison import compare as compared
from meanmax.study.store.exports import export_rows
from meanmax.study.store.store import DEFAULT_STORE, reported

HEADINGS = ("aggregator", "n", "{metric} %", "− baseline", "p (Holm)", "learned", "maxness", "s")
HOW_TO_READ = (
    "Scores are of test nodes, mean ± standard deviation over splits; models are selected on "
    "validation nodes alone. Differences to the baseline are paired over splits, with a 95 % "
    "bootstrap interval. Times with a star are of runs that shared the machine and are not "
    "comparable."
)


def comparison_grid(result: Comparison, settings: str) -> Grid:
    r"""One line for each aggregator."""
    return Grid(
        f"{result.data}, {result.backbone}, settings {settings}",
        [heading.format(metric=result.metric) for heading in HEADINGS],
        [_cells(line) for line in result.lines],
        left=["aggregator", "learned"],
    )


def write_comparison(
    result: Comparison,
    rows: Sequence[Row],
    folder: Path,
    settings: str,
) -> list[Path]:
    r"""Writes the table as Markdown and JSON, and the rows it is made of; the files."""
    stem = "-".join(_as_name(part) for part in ("compare", result.data, result.backbone, settings))
    paths = [folder / f"{stem}.md", folder / f"{stem}.json", folder / f"{stem}.jsonl"]
    grid = comparison_grid(result, settings).markdown()
    text = "\n\n".join([grid, result.verdict, *result.notes, HOW_TO_READ])
    facts = {"settings": settings, **result.as_dict()}
    with reported(folder):
        write_text(paths[0], text + "\n")
        write_text(paths[1], json.dumps(facts, indent=1, allow_nan=False) + "\n")
    export_rows(rows, paths[2])
    return paths


def _as_name(text: str) -> str:
    r"""What may stand in the name of a file."""
    return "".join(mark if mark.isalnum() or mark in "-_=." else "_" for mark in text)[:80]


def _cells(line: Line) -> list[str]:
    pair = line.paired
    difference = p = "–"
    if pair is not None:
        difference = f"{pair.difference:+.2f}"
        if math.isfinite(pair.low):
            difference += f" [{pair.low:+.2f}, {pair.high:+.2f}]"
        p = "–" if math.isnan(line.adjusted_p) else f"{line.adjusted_p:.2g}"
    count = f"{line.n}" + (f" ({line.failed} failed)" if line.failed else "")
    score = "–" if math.isnan(line.mean) else f"{line.mean:.2f}"
    score += "" if math.isnan(line.std) else f" ± {line.std:.2f}"
    maxness = "–" if line.maxness is None else f"{line.maxness:.2f}"
    seconds = "–" if math.isnan(line.seconds) else f"{line.seconds:.1f}"
    return [line.aggr, count, score, difference, p, _learned(line), maxness, seconds + _mark(line)]


def _mark(line: Line) -> str:
    return "" if line.alone or math.isnan(line.seconds) else "*"


def _learned(line: Line) -> str:
    shown = []
    for name, (mean, low, high) in line.learned.items():
        spread = "" if high - low < 0.005 else f" ({low:.2f}–{high:.2f})"
        shown.append(f"{name.rpartition('.')[2]} {mean:.2f}{spread}")
    return ", ".join(shown) or "–"


@click.command()
@click.option("--data", "source", required=True, metavar="NAME|PATH", help="The graph.")
@click.option("--backbone", type=options.BACKBONE, default="gcn", help=options.BACKBONE_HELP)
@click.option(
    "--aggr",
    "aggrs",
    type=options.AGGRS,
    default="none,lp,poly,softmax",
    help=f"Aggregators, with commas: {', '.join(options.AGGR_NAMES)}. 'none' is the backbone's "
    "own and the baseline.",
)
@click.option("--splits", type=options.POSITIVE, default=10, help="Splits, from seed 0 on.")
@options.scheme
@options.settings
@options.overrides
@options.workers
@options.artefacts
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(DEFAULT_STORE),
    help="Folder of the runs, and for the table.",
)
@click.option(
    "--tsne",
    is_flag=True,
    help="Picture hidden embeddings on the page: seconds for a small graph, up to a minute for "
    "each method on a large one.",
)
@options.data_dir
@options.directed
@options.as_json
def compare(
    source: str,
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
    data_dir: Path | None,
    directed: bool,
    print_json: bool,
) -> None:
    r"""Train a model with each aggregator on the same splits, and say what the evidence supports.

    Runs that are in the folder already are not made again: the same command goes on where it was
    interrupted, and ends at once when all is there.
    """
    if "none" not in aggrs:
        aggrs = ["none", *aggrs]
    overrides = options.parsed(pairs)
    with options.clear_errors():
        with data_bars() as progress:
            dataset = load(source, data_dir=data_dir, directed=directed, progress=progress)
        plan = Plan(
            data=reference(source, data_dir, directed),
            backbones=[backbone],
            aggrs=aggrs,
            splits=range(splits),
            settings_name=settings_name,
            scheme=scheme,
            overrides=overrides,
        )
        tasks = plan.tasks(dataset)
        check_splits(tasks, dataset)
        check_methods(tasks, dataset)
        workers = Workers(jobs, threads, engine)
        rows = filled(out, tasks, workers, retry_failed=retry_failed, artefacts=artefacts)
        name = "accuracy" if dataset.task == "multiclass" else "micro-F1"
        chosen = Selected(rows, revision_notes(rows))
        result = compared(chosen, backbone, aggrs, data=plan.name_of(dataset), name=name)
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
        print_out(comparison_grid(result, described).for_terminal())
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
        click.echo(f"To look at: {page}")
    if all(line.n == 0 for line in result.lines):
        raise click.ClickException(_all_failed(result.as_dict()))


def _described(settings_name: str, overrides: dict[str, Any], scheme: str | None) -> str:
    settings_name = Path(settings_name).name
    changed = [f"{name}={value}" for name, value in overrides.items()]
    changed += [] if scheme is None else [f"splits {without_folder(scheme)}"]
    return ", ".join([settings_name, *changed])


def _all_failed(facts: dict[str, Any]) -> str:
    errors = [error for line in facts["lines"] for error in line["errors"]]
    return "no run ended well. " + "; ".join(dict.fromkeys(errors))
