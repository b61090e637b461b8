r"""The command :obj:`meanmax compare`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from meanmax.cli import options
from meanmax.cli.commands.comparison_table import (comparison_grid, write_comparison)
from meanmax.cli.data_bars import data_bars
from meanmax.cli.data_tables import print_out
from meanmax.cli.filled import filled
from meanmax.cli.commands.page_status import making_page
from meanmax.data import load
from meanmax.study.runs.check import (check_methods, check_splits)
from meanmax.study.stats.comparison import compare as compared
from meanmax.study.runs.run_missing import Workers
from meanmax.study.runs.plan import (Plan, reference)
from meanmax.study.runs.revisions import revision_notes
from meanmax.study.stats.selection import (Selected, without_folder)
from meanmax.study.store.store import DEFAULT_STORE
from meanmax.study.report.page import write_report


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
            page = write_report(out, datasets=[dataset], data_dir=data_dir, tsne=tsne)
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
