r"""The tables and the page of the study, for `meanmax reproduce study`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from meanmax.cli.tables import Grid, decimal, mean_std, print_out, with_interval
from meanmax.data.files import write_text
from meanmax.study.report.epochs import LIMITS, Training, command, trainings
from meanmax.study.report.evidence import Evidence
from meanmax.study.report.figures.request import FIGURES, NothingToShow, write_figure
from meanmax.study.report.groups import PLACE
from meanmax.study.report.study import METHODS, SPLITS, Study, StudyTask
from meanmax.study.report.why import (
    ENOUGH,
    FILE,
    PREDICTORS,
    Correlation,
    FactsByKey,
    Point,
    correlations,
    missing_facts,
    points,
    read_facts,
)
from meanmax.study.runs.row import Row, json_safe
from meanmax.study.stats.cells import score_form
from meanmax.study.stats.comparison import ALPHA, Line, Scale
from meanmax.study.store.exports import read_rows
from meanmax.study.store.store import reported

PICTURES = {
    "tasks": "All tasks on one axis: difference to the equally tuned baseline",
    "why": "What predicts a gain",
}
DPI = 110
CHANGE = """- **A task** counts for learned aggregation if a difference is clear within it, and
  again on splits that had no part in the choice of settings.
- **The whole** counts if the aggregators that validation chooses are above the baseline over data
  sets, by interval and p-value, or if a predictor is related to the difference over {enough} data
  sets or more and then holds on data sets that were named in advance.
- **The paper's numbers** would stand against an under-trained baseline if the baseline stayed below
  the paper's value however long it is trained."""


def show_study(store: Path, markdown: bool, print_json: bool, page: Path | None) -> None:
    r"""Prints the study as tables, Markdown or JSON, or writes it to a page with its figures."""
    rows, facts = read_rows(store), read_facts(store)
    study = Study.of(rows)
    if page is not None:
        write_page(page, store)
        click.echo(f"Page: {page}", err=True)
    elif print_json:
        listed = points(study, facts)
        found = {
            **study.as_dict(),
            "why": {
                "points": listed,
                "correlations": correlations(listed),
                "missing": missing_facts(study, facts),
            },
            "epochs": trainings(rows),
        }
        click.echo(json.dumps(json_safe(found), indent=1, allow_nan=False))
    else:
        for item in [study.statement, *parts(study, rows, facts)]:
            if isinstance(item, str):
                click.echo(f"{item.rstrip()}\n")
            elif markdown:
                click.echo(item.markdown())
            else:
                print_out(item)


def parts(study: Study, rows: Sequence[Row], facts: FactsByKey) -> Iterator[Grid | str]:
    r"""The tables of the study in their order, each followed by the commands that complete it."""
    yield study_grid(study)
    yield from missing_text(study.missing, "Methods", f"fewer than {SPLITS} runs")
    if study.differences:
        yield differences_grid(study)
    listed = points(study, facts)
    if listed:
        yield correlations_grid(correlations(listed))
        yield points_grid(listed)
    yield from missing_text(missing_facts(study, facts), "Data sets", f"no facts in {FILE}")
    if found := trainings(rows):
        yield epochs_grid(found)
        yield " ".join(map(passing_text, found))
        short = [command(*place) for one in found for place in one.missing(SPLITS)]
        yield from missing_text(short, "Lines", f"fewer than {SPLITS} runs")


def write_page(page: Path, store: Path) -> None:
    r"""Writes the study as Markdown, with its figures in the folder :obj:`figures` beside it."""
    evidence, facts = Evidence.of(store), read_facts(store)
    study = Study.of(evidence.rows)
    pictures = []
    for name, title in PICTURES.items():
        try:
            figure = FIGURES[name].draw(evidence)
        except NothingToShow:
            continue
        folder = page.parent / "figures"
        (path,) = write_figure(figure, folder, name, ["png"], dpi=DPI)
        pictures.append(f"![{title}](figures/{path.name})")
    source = Path(os.path.relpath(store, page.parent)).as_posix()
    made = f"Made from [the rows]({source}) by `meanmax reproduce study`."
    change = CHANGE.format(enough=ENOUGH)
    blocks = ["# Where learned aggregation helps", made, *study.sentences, *pictures]
    shown = [
        (item if isinstance(item, str) else item.markdown()).rstrip()
        for item in parts(study, evidence.rows, facts)
    ]
    blocks += [*shown, "## What would change our mind", change]
    with reported(page):
        write_text(page, "\n\n".join(blocks) + "\n")


def missing_text(commands: Sequence[str], what: str, lack: str) -> list[str]:
    r"""The commands that complete a table, as a code block of Markdown."""
    listing = "\n".join(f"    {command}" for command in commands)
    place = f" ({PLACE}/X stands for the path of X)" if PLACE in listing else ""
    return [f"{what} with {lack} are filled by{place}:\n\n{listing}\n"] if commands else []


def study_grid(study: Study) -> Grid:
    r"""Tasks down, methods across: mean test scores."""
    rows = []
    for task in study.tasks:
        comparison, best = task.group.comparison, task.best_reference
        reference = "–" if best is None else f"{best.aggr} {comparison.scale.score(best.mean)}"
        cells = [_study_cell(task.line(aggr), comparison.scale) for aggr in METHODS]
        conclusive = "no" if comparison.doubts else "yes" if task.compared else "–"
        name = f"{task.heading}, {comparison.metric}" + (", generated" * task.is_generated)
        rows.append([name, _n_text(task), *cells, reference, conclusive])
    headings = ["task, test score", "n", "baseline", *METHODS[1:], "best reference", "conclusive"]
    return Grid(
        "Every task with equal tuning",
        headings,
        rows,
        left=[headings[0], "best reference", "conclusive"],
        caption="Mean ± standard deviation over n splits, in percent where the metric has "
        "percents. ▲ better and ▼ worse than the baseline by interval and Holm-adjusted p within "
        "the task.",
    )


def _study_cell(line: Line | None, scale: Scale) -> str:
    if line is None or not line.n:
        return "–" if line is None else f"{line.failed} failed"
    mark = {"better": " ▲", "worse": " ▼"}.get(line.judgement or "", "")
    form = ".1f" if scale.percent else score_form(False, line.mean)
    return mean_std(line.mean, line.std, form) + mark


def _n_text(task: StudyTask) -> str:
    counts = {line.n for line in task.group.comparison.lines}
    return "–".join(map(str, sorted({min(counts), max(counts)})))


def differences_grid(study: Study) -> Grid:
    r"""Every learned aggregator against its baseline, the largest difference first."""
    rows = [
        [
            one.task,
            one.aggr,
            str(one.n),
            with_interval(one.difference, one.low, one.high)
            + ("" if one.unit == "points" else f" {one.unit}"),
            decimal(one.p, ".2g"),
            decimal(one.p_in_task, ".2g"),
            decimal(one.p_overall, ".2g"),
        ]
        for one in study.differences
    ]
    headings = ["task", "aggregator", "n", "difference", "p", "p in its task", "p among all"]
    least = min(one.reachable_p for one in study.differences)
    beyond = f", of which none could fall below {least:.2g}" if least >= ALPHA else ""
    return Grid(
        "Learned aggregator − baseline, in points, paired over splits",
        headings,
        rows,
        left=headings[:2],
        caption="95 % bootstrap interval; p: Wilcoxon, as it is, Holm-adjusted among the "
        f"aggregators of the task, and among all lines of the table{beyond}.",
    )


def correlations_grid(listed: Sequence[Correlation]) -> Grid:
    r"""The predictors of a gain."""
    rows = [
        [
            PREDICTORS[one.predictor],
            str(one.n),
            decimal(one.rho, "+.2f"),
            decimal(one.p, ".2g"),
            decimal(one.adjusted_p, ".2g"),
            one.judgement,
        ]
        for one in listed
    ]
    headings = ["predictor", "data sets", "Spearman's ρ", "p", "p (Holm)", "verdict"]
    return Grid(
        "What predicts the difference of the aggregator that validation chooses",
        headings,
        rows,
        left=[headings[0], headings[-1]],
        caption="Over data sets, tasks on the same one averaged. p: permutation test. Below "
        f"{ENOUGH} data sets nothing is claimed: one of them can turn the sign.",
    )


def points_grid(listed: Sequence[Point]) -> Grid:
    r"""The tasks with the facts of their data."""
    names = [name for name in PREDICTORS if name != "level"]
    rows = [
        [
            point.task,
            point.level,
            point.aggr,
            str(point.n),
            with_interval(point.difference, point.low, point.high),
            *(decimal(point.values.get(name), ".3g") for name in names),
        ]
        for point in sorted(listed, key=lambda point: -point.difference)
    ]
    headings = ["task", "level", "aggregator", "n", "difference", *map(PREDICTORS.get, names)]
    return Grid(
        "The aggregator that validation chooses, and the facts of the data",
        [str(heading) for heading in headings],
        rows,
        left=["task", "level", "aggregator"],
        caption="Edge homophily: the share of edges that join nodes of one class. Feature density: "
        "the share of features that are not 0. Label rate: the share of nodes or graphs that "
        "train. Maxness: 0 is the mean of the neighbours, 1 their maximum.",
    )


def epochs_grid(listed: Sequence[Training]) -> Grid:
    r"""Data sets down, the most epochs across."""
    rows = []
    for one in listed:
        found = {point.epochs: point for point in one.points}
        cells = [
            f"{mean_std(own.mean, own.std)} ({own.n})" if own else "–"
            for own in map(found.get, LIMITS)
        ]
        paper = mean_std(one.paper.mean, one.paper.std)
        rows.append([f"{one.data}, {one.split}", *cells, paper])
    return Grid(
        "GCN without a learned aggregator, published settings, by the most epochs of training",
        ["data, splits", *map(str, LIMITS), "paper's GCN"],
        rows,
        left=["data, splits"],
        caption="Test accuracy in percent, mean ± standard deviation (n splits), of the model with "
        "the lowest validation loss so far.",
    )


def passing_text(one: Training) -> str:
    r"""When the baseline passes the paper's."""
    place, best = f"On {one.data} ({one.split})", max(point.mean for point in one.points)
    if one.passes is None:
        return f"{place}, it stays below the paper's {one.paper.mean:.2f} (at most {best:.2f})."
    below = [point for point in one.points if point.epochs < one.passes]
    before = f"; with {below[-1].epochs} it has {below[-1].mean:.2f}" if below else ""
    return (
        f"{place}, it passes the paper's {one.paper.mean:.2f} within {one.passes} epochs{before}."
    )
