r"""The command :obj:`meanmax tune`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from meanmax.cli import options
from meanmax.cli.progress import load_planned
from meanmax.cli.search import (
    Searched,
    budget_option,
    metric_of,
    metric_option,
    run_search,
    space_option,
)
from meanmax.cli.tables import Grid, mean_std, print_out
from meanmax.data.files import write_text
from meanmax.names import METRICS
from meanmax.study.settings.search import changes, settings_file
from meanmax.study.settings.settings import BASE
from meanmax.study.stats.cells import score_form
from meanmax.study.stats.comparison import BASELINE

HOW_TO_READ = (
    "Scores are of validation {level}s, mean ± standard deviation over splits. The best of many "
    "looks better than it is on the {level}s that chose it: `meanmax compare` shows test scores."
)


@click.command()
@options.graph
@options.backbone
@options.aggrs
@metric_option
@budget_option
@space_option
@click.option("--splits", type=options.POSITIVE, default=3, help="Number of splits, from seed 0.")
@options.scheme
@click.option("--seed", type=options.SEED, default=0, help="Seed of the random draws.")
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
    metric: str | None,
    budget: int,
    space_name: Path | None,
    seed: int,
    runs: dict[str, Any],
    store: Path,
    out: Path | None,
    force: bool,
    print_json: bool,
    **planned: Any,
) -> None:
    r"""Search settings on validation nodes, with equal budgets for the baseline and aggregators.

    This is the search of `meanmax compare` alone, for one choice on all splits together: trials
    that are behind stop early, and the settings with the highest mean validation score are printed
    as a settings file. Test scores are neither used nor shown.

    Runs that are stored are not repeated: after an interruption the same command resumes.
    """
    if out is None:
        options.refuse(("force",), "without --out")
    else:
        options.check_output(out, overwrite=force, suffixes=[".toml"])
    aggrs = [BASELINE, *(aggr for aggr in aggrs if aggr != BASELINE)]
    with options.clear_errors(resumes=True):
        dataset, plan = load_planned(aggrs=aggrs, settings_name=BASE, **planned)
        metric = metric_of(dataset, plan, metric)
        workers = {"workers": runs["workers"], "retry_failed": runs["retry_failed"]}
        searched = run_search(
            dataset,
            [plan],
            metric=metric,
            groups=[tuple(plan.splits)],
            budget=budget,
            space_name=space_name,
            store=store,
            seed=seed,
            **workers,
        )
        chosen = {name: found[0] for (name, _), found in searched.found.items()}
        text = settings_file(chosen, plan.name_of(dataset), budget, metric=metric, pool=False)
        if out is not None:
            write_text(out, text)
    if print_json:
        facts = {
            "data": plan.name_of(dataset),
            "metric": metric,
            "budget": budget,
            "space": {a: searched.searches[b].space(a) for b, a in chosen},
            "candidates": {
                aggr: [one.as_dict() for one in found]
                for ((_, aggr), _), found in searched.found.items()
            },
            "chosen": {aggr: one.as_dict() for (_, aggr), one in chosen.items()},
        }
        click.echo(json.dumps(facts, indent=1, allow_nan=False))
    else:
        print_out(tune_grid(searched, metric, plan.name_of(dataset)))
        click.echo(f"{HOW_TO_READ.format(level=dataset.level)}\n\n{text}")


def tune_grid(searched: Searched, metric: str, data: str) -> Grid:
    r"""A line for each method: its best validation score and the settings chosen."""
    rows, kind = [], METRICS[metric]
    for ((backbone, aggr), _), found in searched.found.items():
        one = found[0]
        listed = changes(searched.searches[backbone], one.trial)
        form = score_form(kind.percent, one.score, one.std)
        rows.append([aggr, mean_std(one.score, one.std, form), listed])
    ((backbone, search),) = searched.searches.items()
    headings = ["aggregator", f"validation {kind.label}", "settings chosen"]
    title = f"{data}, {backbone}: settings searched on validation {search.level}s"
    return Grid(title, headings, rows, left=["aggregator", "settings chosen"])
