r"""The command :obj:`meanmax tune`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from meanmax.cli import options
from meanmax.cli.progress import load_planned, run_missing
from meanmax.cli.tables import Grid, mean_std, print_out
from meanmax.data.files import write_text
from meanmax.study.runs.plan import Task, check_methods, check_splits
from meanmax.study.settings.search import Search, Trial, Tried, best, rules_text, settled, tried
from meanmax.study.settings.settings import NAMES
from meanmax.study.stats.comparison import BASELINE

HOW_TO_READ = (
    "Scores are of validation nodes, mean ± standard deviation over splits. The best of many "
    "looks better than it is on the nodes that chose it: `meanmax compare --settings FILE` shows "
    "test scores."
)


@click.command()
@options.graph
@options.backbone
@options.aggrs
@click.option(
    "--budget",
    type=options.POSITIVE,
    default=20,
    help="Settings to try for each aggregator and for the baseline, those of --settings first.",
)
@click.option("--splits", type=options.POSITIVE, default=3, help="Number of splits, from seed 0.")
@options.scheme
@click.option("--seed", type=options.NOT_NEGATIVE, default=0, help="Seed of the random search.")
@options.settings_of(click.Choice(NAMES), "Settings file to start from.", "default")
@options.overrides_with("Fix a setting in all trials instead of searching it; may be repeated.")
@options.runs
@click.option(
    "--store",
    type=options.FOLDER,
    default="meanmax-tuning",
    help="Folder of the trials, apart from runs that are reported.",
)
@options.out(
    options.PATH, "Settings file for the chosen settings, for `--settings` of other commands."
)
@options.force
@options.as_json
def tune(
    aggrs: list[str],
    budget: int,
    seed: int,
    runs: dict[str, Any],
    store: Path,
    out: Path | None,
    force: bool,
    print_json: bool,
    **planned: Any,
) -> None:
    r"""Search settings on validation nodes, with equal budgets for the baseline and aggregators.

    Settings are drawn at random from a fixed space. For every method the same draws of hidden
    channels, learning rate, dropout and weight decay are tried. For an aggregator the search also
    covers the layers it is in, the start value and learning rate of its parameter, whether there is
    one parameter per layer, head or channel, and the order of transform and aggregation. The
    settings with the highest mean validation score are printed as a settings file. Test scores are
    neither used nor shown.

    Runs that are stored are not repeated: after an interruption the same command resumes, and a
    larger --budget adds trials.
    """
    if out is not None:
        options.check_output(out, overwrite=force, suffixes=[".toml"])
    aggrs = [BASELINE, *(aggr for aggr in aggrs if aggr != BASELINE)]
    with options.clear_errors():
        dataset, plan = load_planned(aggrs=aggrs, **planned)
        name = plan.name_of(dataset)
        search = Search(planned["backbone"], name, plan.settings_name, budget, seed, plan.overrides)
        bare = plan.tasks(dataset)
        trials = {aggr: search.trials(aggr) for aggr in aggrs}
        keyed = _tasks(bare, [trial for own in trials.values() for trial in own])
        tasks = [task for own in keyed.values() for task in own]
        check_splits(bare, dataset)
        check_methods(tasks, dataset)
        rows = {row.key: row for row in run_missing(store, tasks, **runs, score="val")}
        results = {
            aggr: [tried(one, [rows[t.spec.key] for t in keyed[aggr, one.number]]) for one in own]
            for aggr, own in trials.items()
        }
        chosen = {aggr: one for aggr, own in results.items() if (one := best(own)) is not None}
        text = rules_text(search, chosen, len(plan.splits))
        if out is not None:
            write_text(out, text)
    if print_json:
        facts = {
            **vars(search),
            "space": {aggr: search.space(aggr) for aggr in results},
            "trials": {aggr: [one.as_dict() for one in own] for aggr, own in results.items()},
            "chosen": {aggr: one.as_dict() for aggr, one in chosen.items()},
        }
        click.echo(json.dumps(facts, indent=1, allow_nan=False))
    else:
        print_out(tune_grid(search, results, chosen))
        click.echo(f"{HOW_TO_READ}\n\n{text}")
    if missing := [aggr for aggr in aggrs if aggr not in chosen]:
        raise click.ClickException(
            f"no trial of {', '.join(missing)} succeeded on all splits: see "
            f"`meanmax results show --store {store}`"
        )


def tune_grid(
    search: Search, results: Mapping[str, Sequence[Tried]], chosen: Mapping[str, Tried]
) -> Grid:
    r"""A line for each method: the settings to start from, and those chosen."""
    rows = []
    for aggr, own in results.items():
        one = chosen.get(aggr)
        settings = {} if one is None else settled(search, one.trial)
        counts = [str(len(own)), str(sum(trial.failed > 0 for trial in own))]
        start = mean_std(own[0].score, own[0].std)
        found = "–" if one is None else mean_std(one.score, one.std)
        listed = ", ".join(f"{name}={value}" for name, value in settings.items()) or "–"
        rows.append([aggr, *counts, start, found, listed])
    title = f"{search.data}, {search.backbone}: settings searched on validation nodes"
    scores = [f"{search.settings_name}, val %", "chosen, val %"]
    headings = ["aggregator", "tried", "failed", *scores, "settings chosen"]
    return Grid(title, headings, rows, left=["aggregator", "settings chosen"])


def _tasks(bare: Sequence[Task], trials: Sequence[Trial]) -> dict[tuple[str, int], list[Task]]:
    r"""The runs of each trial, ordered by trial, so that methods advance together."""
    return {
        (trial.aggr, trial.number): [
            replace(task, spec=replace(task.spec, settings=trial.settings))
            for task in bare
            if task.spec.aggr == trial.aggr
        ]
        for trial in sorted(trials, key=lambda trial: trial.number)
    }
