r"""The command :obj:`meanmax compare`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from meanmax.cli import options
from meanmax.cli.commands.report import making_page
from meanmax.cli.progress import SearchBar, checked_tasks, load_planned, run_missing
from meanmax.cli.search import (
    MLP,
    SEARCH_STORE,
    Searched,
    budget_option,
    chosen_grid,
    class_sizes_text,
    final_tasks,
    metric_of,
    metric_option,
    reference_tasks,
    run_search,
    space_option,
)
from meanmax.cli.tables import Grid, decimal, mean_std, print_out, with_interval
from meanmax.data.files import DataError, write_text
from meanmax.names import METRICS, USUAL_METRIC
from meanmax.study.report.groups import PLACE
from meanmax.study.report.page import write_report
from meanmax.study.runs.machine import revision_notes
from meanmax.study.runs.plan import check_splits, settings_text
from meanmax.study.runs.row import Row
from meanmax.study.settings.search import settings_file
from meanmax.study.settings.settings import AUTO, BASE, SettingsError, searched_in_pool
from meanmax.study.stats.cells import Selected, score_form
from meanmax.study.stats.comparison import BASELINE, Comparison, Line, reference_rows
from meanmax.study.stats.comparison import compare as compare_rows
from meanmax.study.store.exports import export_rows
from meanmax.study.store.store import DEFAULT_STORE, reported

SHARED = 3  # searches that serve all splits
HEADINGS = ("aggregator", "n", "{metric}", "− baseline", "p (Holm)", "learned", "maxness", "s")
HOW_TO_READ = (
    "Scores are of test {level}s, mean ± standard deviation over splits; models are selected on "
    "validation {level}s alone. Differences to the baseline are paired over splits and positive "
    "where a method is better, with a 95 % bootstrap interval. Times with a star are of runs that "
    "shared the machine and are not comparable."
)


@click.command()
@options.graph
@options.backbone
@options.aggrs
@options.splits
@options.scheme
@metric_option
@options.settings_of(
    options.SettingsName(AUTO),
    "Settings: 'auto', a search with the same number of trials for every method, on training and "
    f"validation nodes of each split; {options.SETTINGS_HELP.removeprefix('Settings: ')}",
    AUTO,
)
@budget_option
@space_option
@click.option(
    "--search",
    "extent",
    type=click.Choice(["shared", "each"]),
    help="With 'auto': 'shared', three searches serve all splits, whose training and validation "
    "nodes come from one half of the nodes and whose test nodes from the other; 'each', a search "
    "in each split. [default: shared for random splits, else each]",
)
@click.option(
    "--save-settings",
    type=options.PATH,
    help="With 'auto': write the settings that most splits chose to this .toml file.",
)
@click.option(
    "--references/--no-references",
    default=True,
    help="Add methods without a graph network: majority class and logistic regression, for numbers "
    "their mean and ridge regression; label propagation; with 'auto' an MLP with the same search.",
)
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
    aggrs: list[str],
    runs: dict[str, Any],
    metric: str | None,
    budget: int,
    space_name: Path | None,
    extent: str | None,
    save_settings: Path | None,
    references: bool,
    out: Path,
    tsne: bool,
    print_json: bool,
    **planned: Any,
) -> None:
    r"""Train a model with each aggregator on the same splits, and say what the evidence supports.

    By default every method, the baseline included, first gets the same search for settings on the
    training and validation nodes of each split; test nodes have no part in it. References stand
    beside the methods, and the verdict says where a comparison is not conclusive.

    Runs that are stored in the folder are not repeated: after an interruption, the same command
    resumes.
    """
    aggrs = [BASELINE, *(aggr for aggr in aggrs if aggr != BASELINE)]
    auto = planned["settings_name"] == AUTO
    if not auto and (useless := options.given("budget", "space_name", "extent", "save_settings")):
        raise click.UsageError(f"{', '.join(useless)} only applies to --settings auto")
    if save_settings is not None:
        name = "--save-settings"
        options.check_output(save_settings, overwrite=True, suffixes=[".toml"], option=name)
    searched: Searched | None = None
    with options.clear_errors(resumes=True):
        dataset, plan = load_planned(
            aggrs=aggrs, **planned | ({"settings_name": BASE} if auto else {})
        )
        from meanmax.data.splits import is_random

        if auto and extent is None:
            extent = "shared" if is_random(dataset, plan.scheme) else "each"
        pooled = extent == "shared" if auto else searched_in_pool(planned["settings_name"])
        plan = replace(plan, pool=pooled and (auto or is_random(dataset, plan.scheme)))
        try:
            bare = plan.tasks(dataset)
        except DataError as problem:
            if not plan.pool:
                raise
            raise SettingsError(f"{problem}; or give --search each") from problem
        check_splits(bare, dataset)
        metric = metric_of(dataset, plan, metric)
        if sizes := class_sizes_text(dataset):
            click.echo(sizes, err=True)
        if auto:
            with_mlp = references and planned["backbone"] != MLP
            with_mlp = with_mlp and (dataset.level == "graph" or dataset.num_graphs == 1)
            plans = [plan]
            if with_mlp:
                plans.append(replace(plan, backbones=[MLP], aggrs=[BASELINE]))
            rows: list[Row] = []

            def make_final(found: Searched, bar: SearchBar) -> None:
                bar.title("runs")
                tasks = final_tasks(found, dataset, plans, references, metric)
                rows.extend(run_missing(out, tasks, **runs, bar=bar))

            searched = run_search(
                dataset,
                plans,
                metric=metric,
                groups=[(seed,) for seed in (plan.splits[:SHARED] if plan.pool else plan.splits)],
                budget=budget,
                space_name=space_name,
                store=out / SEARCH_STORE,
                workers=runs["workers"],
                retry_failed=runs["retry_failed"],
                then=make_final,
            )
        else:
            usual = USUAL_METRIC[dataset.task]
            stated = {task.spec.settings.get("metric", usual) for task in bare}
            given = {} if stated == {metric} else {"metric": metric, "select": "score"}
            plan = replace(plan, overrides={**given, **plan.overrides})
            tasks = checked_tasks(plan, dataset)
            tasks += reference_tasks(dataset, plan, metric) if references else []
            rows = run_missing(out, tasks, **runs)
        named, kind = plan.name_of(dataset), METRICS[metric]
        own = [row for row in rows if row.backbone == planned["backbone"]]
        result = compare_rows(
            Selected(own, revision_notes(rows)),
            planned["backbone"],
            aggrs,
            data=named,
            name=kind.label,
            higher_is_better=kind.higher_is_better,
            percent=kind.percent,
            references=reference_rows(rows, planned["backbone"]) if references else {},
        )
        changed = plan.overrides
        if auto and metric != USUAL_METRIC[dataset.task]:
            changed = {"metric": metric, **changed}
        described = settings_text(planned["settings_name"], changed, plan.scheme)
        described += ", searched in each split" if auto and not plan.pool else ""
        if searched is not None and save_settings is not None:
            usual_choice = {
                name: one for name, _ in searched.found if (one := searched.usual(*name))
            }
            how = {"metric": metric, "splits": own[0].split, "pool": plan.pool}
            write_text(save_settings, settings_file(usual_choice, named, budget, **how))
        repeat = options.words_of("directed", "one_hot", "impute", "task")
        repeat += options.words_of("references")
        if auto:
            repeat += options.words_of("budget", "pairs")
            repeat += [] if space_name is None else ["--space", f"{PLACE}/{space_name.name}"]
        facts = {"options": repeat, "keys": [row.key for row in own]}
        files = write_comparison(result, rows, out, described, facts)
        with making_page(tsne):
            shown = {"datasets": [dataset], "data_dir": planned["data_dir"], "tsne": tsne}
            known = {frozenset(row.key for row in own): result}
            page = write_report(out, comparisons=known, **shown)
    if print_json:
        click.echo(json.dumps(result.as_dict(), indent=1, allow_nan=False))
    else:
        click.echo("\n".join([result.verdict, *result.notes, ""]))
        print_out(comparison_grid(result, described))
        if not all(line.alone for line in result.lines):
            click.echo("* shared the machine with other runs: these times are not comparable")
        for line in result.lines:
            for error in line.errors:
                click.echo(f"{line.aggr}: {error}")
        if searched is not None:
            click.echo()
            print_out(chosen_grid(searched, budget, metric))
        if unused := plan.without_effect(dataset):
            click.echo(f"No effect on these methods: {', '.join(unused)}.")
        click.echo(f"\nWritten: {', '.join(str(path) for path in files)}")
        click.echo(f"Page: {page}")
    if result.lines[0].n == 0:
        errors = dict.fromkeys(error for line in result.lines for error in line.errors)
        which = "of the baseline " if any(line.n for line in result.lines) else ""
        raise click.ClickException(f"no run {which}succeeded. {'; '.join(errors)}")


def comparison_grid(result: Comparison, settings: str) -> Grid:
    r"""One line for each aggregator."""
    return Grid(
        f"{result.data}, {result.backbone}, settings {settings}",
        [heading.format(metric=result.heading) for heading in HEADINGS],
        [_cells(line, result.percent) for line in (*result.lines, *result.references)],
        left=["aggregator", "learned"],
    )


def write_comparison(
    result: Comparison,
    rows: Sequence[Row],
    folder: Path,
    settings: str,
    more: Mapping[str, Any] | None = None,
) -> list[Path]:
    r"""Writes the table as Markdown and JSON, the latter with :obj:`more` facts, and its rows;
    returns the files.
    """
    parts = ("compare", result.data, result.backbone, settings)
    stem = "-".join(re.sub(r"[^\w=.-]", "_", part)[:80] for part in parts)
    paths = [folder / f"{stem}.{suffix}" for suffix in ("md", "json", "jsonl")]
    grid = comparison_grid(result, settings).markdown()
    facts = {"settings": settings, **result.as_dict(), **(more or {})}
    with reported(folder):
        text = "\n\n".join(
            [grid, result.verdict, *result.notes, HOW_TO_READ.format(level=result.level)]
        )
        write_text(paths[0], text + "\n")
        write_text(paths[1], json.dumps(facts, indent=1, allow_nan=False) + "\n")
    export_rows(rows, paths[2])
    return paths


def _cells(line: Line, percent: bool) -> list[str]:
    difference = p = "–"
    if line.paired is not None:
        pair = line.paired
        parts = (pair.difference, pair.low, pair.high)
        difference = with_interval(*parts, score_form(percent, *parts))
        p = decimal(line.adjusted_p, ".2g")
    learned = []
    for name, (mean, low, high) in line.learned.items():
        spread = "" if high - low < 0.005 else f" ({low:.2f}–{high:.2f})"
        place = "readout " if name.startswith("readout.") else ""
        learned.append(f"{place}{name.rpartition('.')[2]} {mean:.2f}{spread}")
    star = "" if line.alone or math.isnan(line.seconds) else "*"
    return [
        line.aggr,
        f"{line.n}" + (f" ({line.failed} failed)" if line.failed else ""),
        mean_std(line.mean, line.std, score_form(percent, line.mean, line.std)),
        difference,
        p,
        ", ".join(learned) or "–",
        decimal(line.maxness),
        decimal(line.seconds, ".1f") + star,
    ]
