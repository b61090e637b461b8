r"""The command :obj:`meanmax tune`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from meanmax.cli import options
from meanmax.cli.options import check_output, force
from meanmax.cli.progress import data_bars, filled
from meanmax.cli.tables import Grid, print_out
from meanmax.data import load
from meanmax.data.files import write_text
from meanmax.study.runs.plan import Plan, Task, check_methods, check_splits, reference
from meanmax.study.runs.row import Row
from meanmax.study.runs.run_missing import Workers
from meanmax.study.settings.search import Search, Trial, Tried, best, rules_text, settled, tried
from meanmax.study.settings.settings import NAMES
from meanmax.study.stats.comparison import BASELINE

HOW_TO_READ = (
    "Scores are of validation nodes, mean ± standard deviation over splits. The best of many "
    "looks better than it is on the nodes that chose it: `meanmax compare --settings FILE` tells "
    "how it does on test nodes."
)


def tune_grid(
    search: Search, results: Mapping[str, Sequence[Tried]], chosen: Mapping[str, Tried]
) -> Grid:
    r"""A line for each method: what it started from, and what was chosen."""
    rows = []
    for aggr, own in results.items():
        one = chosen.get(aggr)
        settings = {} if one is None else settled(search, one.trial)
        rows.append(
            [
                aggr,
                str(len(own)),
                str(sum(trial.failed > 0 for trial in own)),
                _score(own[0]),
                _score(one),
                ", ".join(f"{name}={value}" for name, value in settings.items()) or "–",
            ]
        )
    title = f"{search.data}, {search.backbone}: settings searched on validation nodes"
    scores = [f"{search.settings_name}, val %", "chosen, val %"]
    headings = ["aggregator", "tried", "failed", *scores, "settings chosen"]
    return Grid(title, headings, rows, left=["aggregator", "settings chosen"])


def _score(one: Tried | None) -> str:
    if one is None or math.isnan(one.score):
        return "–"
    return f"{one.score:.2f}" + ("" if math.isnan(one.std) else f" ± {one.std:.2f}")


FOLDER = "meanmax-tuning"


@click.command()
@click.option("--data", "source", required=True, metavar="NAME|PATH", help="The graph.")
@click.option("--backbone", type=options.BACKBONE, default="gcn", help=options.BACKBONE_HELP)
@click.option(
    "--aggr",
    "aggrs",
    type=options.AGGRS,
    default="none,lp,poly,softmax",
    help="Aggregators, with commas. The baseline, 'none', is always searched too.",
)
@click.option(
    "--budget",
    type=options.POSITIVE,
    default=20,
    help="Settings tried for each aggregator and for the baseline, those of --settings first.",
)
@click.option("--splits", type=options.POSITIVE, default=3, help="Splits, from seed 0 on.")
@options.scheme
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of what is drawn.")
@click.option(
    "--settings",
    "settings_name",
    type=click.Choice(NAMES),
    default="tuned",
    help="Settings file to start from.",
)
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting that is not searched but the same in all trials; may be repeated.",
)
@options.workers
@click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(FOLDER),
    help="Folder of the runs, apart from those that are reported.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Settings file for what was chosen, which `--settings` of other commands takes.",
)
@force
@options.data_dir
@options.directed
@options.as_json
def tune(
    source: str,
    backbone: str,
    aggrs: list[str],
    budget: int,
    splits: int,
    scheme: str | None,
    seed: int,
    settings_name: str,
    pairs: tuple[str, ...],
    jobs: int | None,
    threads: int,
    engine: str,
    retry_failed: bool,
    store: Path,
    out: Path | None,
    force: bool,
    data_dir: Path | None,
    directed: bool,
    print_json: bool,
) -> None:
    r"""Search settings on validation nodes, as many for the baseline as for each aggregator.

    Settings are drawn at random from a stated space: hidden channels, learning rate, dropout and
    weight decay, the same draws for every method; and for an aggregator in which layers it is,
    where its parameter starts, how fast it learns, whether there is one per layer, head or channel,
    and the order of transform and aggregation. What has the highest mean validation score is
    chosen and printed as a settings file. No test score is looked at, and none is shown.

    Runs that are in the store are not made again: the same command goes on where it was
    interrupted, and a larger --budget adds to it.
    """
    if out is not None:
        check_output(out, overwrite=force, suffixes=[".toml"])
    aggrs = [BASELINE, *(aggr for aggr in aggrs if aggr != BASELINE)]
    fixed = options.parsed(pairs)
    with options.clear_errors():
        with data_bars() as progress:
            dataset = load(source, data_dir=data_dir, directed=directed, progress=progress)
        data = reference(source, data_dir, directed)
        plan = Plan(data, [backbone], aggrs, range(splits), settings_name, scheme, fixed)
        search = Search(backbone, plan.name_of(dataset), settings_name, budget, seed, fixed)
        bare = plan.tasks(dataset)
        listed = {aggr: search.trials(aggr) for aggr in aggrs}
        keyed = _tasks(bare, [trial for trials in listed.values() for trial in trials])
        tasks = [task for own in keyed.values() for task in own]
        check_splits(bare, dataset)
        check_methods(tasks, dataset)
        workers = Workers(jobs, threads, engine)
        rows = filled(store, tasks, workers, retry_failed=retry_failed, score="val")
        results = _results(listed, keyed, {row.key: row for row in rows})
        chosen = {aggr: one for aggr, own in results.items() if (one := best(own)) is not None}
        text = rules_text(search, chosen, splits)
        if out is not None:
            write_text(out, text)
    if print_json:
        click.echo(json.dumps(_facts(search, results, chosen), indent=1, allow_nan=False))
    else:
        print_out(tune_grid(search, results, chosen).for_terminal())
        click.echo(f"{HOW_TO_READ}\n\n{text}")
    if missing := [aggr for aggr in aggrs if aggr not in chosen]:
        raise click.ClickException(
            f"no trial of {', '.join(missing)} ended well on all splits: see "
            f"`meanmax results show --store {store}`"
        )


_Keyed = dict[tuple[str, int], list[Task]]


def _tasks(bare: Sequence[Task], trials: Sequence[Trial]) -> _Keyed:
    r"""The runs of each trial, trial by trial, so that methods advance together."""
    return {
        (trial.aggr, trial.number): [
            replace(task, spec=replace(task.spec, settings=trial.settings))
            for task in bare
            if task.spec.aggr == trial.aggr
        ]
        for trial in sorted(trials, key=lambda trial: trial.number)
    }


def _results(
    listed: Mapping[str, Sequence[Trial]], keyed: _Keyed, rows: Mapping[str, Row]
) -> dict[str, list[Tried]]:
    return {
        aggr: [
            tried(trial, [rows[task.spec.key] for task in keyed[aggr, trial.number]])
            for trial in trials
        ]
        for aggr, trials in listed.items()
    }


def _facts(
    search: Search, results: Mapping[str, Sequence[Tried]], chosen: Mapping[str, Tried]
) -> dict[str, Any]:
    return {
        **vars(search),
        "space": {aggr: search.space(aggr) for aggr in results},
        "trials": {aggr: [one.as_dict() for one in own] for aggr, own in results.items()},
        "chosen": {aggr: one.as_dict() for aggr, one in chosen.items()},
    }
