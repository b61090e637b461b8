r"""What the commands that search settings share: options, the search under a bar, and its table."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

import click

from meanmax.cli import options
from meanmax.cli.progress import clock, run_missing, search_bar
from meanmax.cli.tables import Grid
from meanmax.data.files import DataError
from meanmax.names import GRAPH_REFERENCES, METRICS, REFERENCES
from meanmax.study.runs.engine import keep_workers
from meanmax.study.runs.plan import Plan, Task, check_methods, check_splits
from meanmax.study.runs.row import Row
from meanmax.study.runs.run_missing import Workers
from meanmax.study.runs.search import Found, Group, Method, SearchRuns
from meanmax.study.settings.search import Search, Tried, changes
from meanmax.study.settings.settings import AUTO, SettingsError, settings_key
from meanmax.study.stats.comparison import BASELINE
from meanmax.study.store.store import Store

if TYPE_CHECKING:
    from meanmax.data import Dataset, Split

SEARCH_STORE = "search"  # the folder of the trials, inside that of the runs
TRAINED = "trained"  # inside it, the states of trials, until the last runs have used them
MLP = "mlp"
STOPPED_EARLY = 0.3  # of all epochs that a search allows, about this share is run
RUN_SECONDS = 0.1  # to prepare, score and store a run
START_SECONDS = 10.0  # to start the workers and to make the page
LONG_SECONDS = 1800.0  # from here on the options that make a search shorter are named
LISTED_SETS = 3  # of the chosen sets of settings of a method
LISTED_CLASSES = 8  # with their sizes in a line; of more, the largest and the smallest


def metric_option_with(text: str) -> Callable[[options.F], options.F]:
    r"""The option :obj:`--metric` with its help."""
    return click.option("--metric", type=click.Choice(list(METRICS)), help=text)


metric_option = metric_option_with(
    "Score for early stopping, search and verdict. [default: ROC AUC for two classes of which "
    "one has under 30 % of training and validation nodes; else accuracy, micro-F1 or R²]",
)
budget_option = click.option(
    "--budget",
    type=options.POSITIVE,
    default=12,
    help="Settings to try for each method, the baseline included.",
)
space_option = click.option(
    "--space",
    "space_name",
    type=options.PATH,
    help="A .toml file with the values to search. [default: the space in the package]",
)


def chosen_metric(given: str | None, overrides: Mapping[str, Any]) -> str | None:
    r"""The metric that :obj:`--metric` or :obj:`--set metric=NAME` gives."""
    fixed: str | None = overrides.get("metric")
    if None not in (given, fixed) and given != fixed:
        raise SettingsError(f"--metric {given} contradicts --set metric={fixed}: give one of them")
    return given or fixed


def metric_of(dataset: Dataset, plan: Plan, given: str | None) -> str:
    r"""The metric of a comparison; raises a :class:`SettingsError` unless it fits the task and the
    validation and test nodes. The default is that of the settings, or follows from training and
    validation labels of the first split.
    """
    from meanmax.train import LabeledNodes
    from meanmax.train.metrics import check_metric
    from meanmax.train.problem import Objective

    tasks = plan.tasks(dataset)
    given = chosen_metric(given, plan.overrides)
    if given is None:
        stated = {task.spec.settings.get("metric") for task in tasks}
        if len(stated) > 1:
            raise SettingsError(
                f"the settings {plan.settings_name!r} give methods different metrics: choose one "
                f"with --metric"
            )
        (given,) = stated
    splits = {task.spec.split_seed: task.split for task in tasks}
    if given is None:
        given = fitting_metric(dataset, list(splits.values()), plan.scheme)
    where = ""
    try:
        check_metric(given, dataset.task)
        for seed, own in splits.items():
            where = f"split {seed}: "
            for name, part in (("validation", own.val), ("test", own.test)):
                nodes = LabeledNodes(part, dataset.y[part], objective=Objective(given))
                nodes.check_metric(name, dataset.level)
    except ValueError as error:
        raise SettingsError(f"{where}{error}") from error
    return given


def fitting_metric(dataset: Dataset, splits: Sequence[Split], scheme: str | None) -> str:
    r"""The default metric, from the labels of training and validation nodes of the first split.
    Those of random schemes may be as many of each class: there, the development pool tells how rare
    a class is. Where a split that is drawn, such as a fold, has no validation node of a rare class,
    ROC AUC is undefined: then it is the balanced accuracy.
    """
    import torch

    from meanmax.data import development_pool
    from meanmax.data.splits import is_random
    from meanmax.train.metrics import default_metric, is_defined

    if dataset.task != "multiclass":
        return default_metric(dataset.task)
    seen = torch.cat([splits[0].train, splits[0].val])
    if is_random(dataset, scheme):
        with suppress(DataError):  # a class that is too small for a pool
            seen = development_pool(dataset, scheme)
    counts = torch.bincount(dataset.y[seen], minlength=dataset.num_classes)
    found = default_metric(dataset.task, counts.tolist())
    drawn = [split for split in splits if not split.name.startswith(("given", "file:"))]
    known = [dataset.y[split.val] for split in drawn if len(split.val)]
    defined = all(is_defined(found, labels, dataset.task) for labels in known)
    return found if defined else "balanced_accuracy"


def class_sizes_text(dataset: Dataset) -> str | None:
    r"""The sizes of classes, or of labels, in one line, so that an imbalance is seen: of all, or
    of the largest and the smallest of many. :obj:`None` for a regression target.

    Example:
        >>> from meanmax.data import load
        >>> class_sizes_text(load("wine"))
        'Classes class_1: 71 (39.9 %), class_0: 59 (33.1 %), class_2: 48 (27.0 %)'
    """
    from meanmax.data.dataset import class_sizes

    total = max(1, int(dataset.labelled.sum()))
    sizes = sorted(class_sizes(dataset).items(), key=lambda item: -item[1])
    texts = [f"{name}: {size:,} ({100 * size / total:.1f} %)" for name, size in sizes]
    if not texts:
        return None
    what = "Classes" if dataset.task == "multiclass" else "Labels"
    if len(texts) > LISTED_CLASSES:
        return f"{len(texts):,} {what.lower()}, from {texts[0]} to {texts[-1]}"
    return f"{what} {', '.join(texts)}"


@dataclass(frozen=True)
class Searched:
    r"""The outcome of :func:`run_search`: the candidates of each method and group, best first."""

    found: Found
    searches: Mapping[str, Search]  # by backbone
    groups: Sequence[Group]
    trained: str | None = None  # the folder of the states of trials

    def best(self, backbone: str, aggr: str, group: Group) -> Tried | None:
        r"""The choice for a group of splits."""
        listed = self.found.get(((backbone, aggr), group), [])
        return listed[0] if listed else None

    def missing(self) -> dict[tuple[str, str], int]:
        r"""The methods without a successful trial in some of the searches, and in how many."""
        return dict(Counter(method for (method, _), own in self.found.items() if not own))

    def settings(self, backbone: str, aggr: str, group: Group) -> dict[str, Any]:
        r"""The settings of the choice, or those of the first trial if none succeeded: the runs to
        report then tell the reason.
        """
        best = self.best(backbone, aggr, group)
        trials = self.searches[backbone].trials(aggr)
        return (trials[0] if best is None else best.trial).settings

    def choices(self, backbone: str, aggr: str) -> list[tuple[Tried, int]]:
        r"""The choices with the number of groups that have the same settings: those of most groups
        first, and at equal numbers those with the better score.
        """
        listed = [one for g in self.groups if (one := self.best(backbone, aggr, g)) is not None]
        sign = 1.0 if METRICS[self.searches[backbone].metric].higher_is_better else -1.0
        best: dict[str, Tried] = {}
        for one in sorted(listed, key=lambda one: -sign * one.score):
            best.setdefault(settings_key(one.trial.settings), one)
        counts = Counter(settings_key(one.trial.settings) for one in listed)
        return sorted(((one, counts[key]) for key, one in best.items()), key=lambda pair: -pair[1])

    def usual(self, backbone: str, aggr: str) -> Tried | None:
        r"""The choice for most of the groups; at equal numbers, the one with the better score."""
        return next((one for one, _ in self.choices(backbone, aggr)), None)


def run_search(
    dataset: Dataset,
    plans: Sequence[Plan],
    *,
    metric: str,
    groups: Sequence[Group],
    budget: int,
    space_name: Path | None,
    store: Path,
    workers: Workers,
    retry_failed: bool,
    then: Any = None,
    seed: int = 0,
) -> Searched:
    r"""Searches the methods of all plans under a bar, and then calls :obj:`then` with the outcome
    and the bar, which counts the epochs of these runs too.
    """
    searches: dict[str, Search] = {}
    methods: list[Method] = []
    bare: dict[tuple[str, str], dict[int, Task]] = {}
    for plan in plans:
        (backbone,) = plan.backbones
        given = (backbone, plan.name_of(dataset), metric, budget, seed, plan.overrides)
        space = None if space_name is None else str(space_name)
        search = Search(*given, space, dataset.level)
        searches[backbone] = search
        tasks = plan.tasks(dataset)
        check_splits(tasks, dataset)
        for task in tasks:
            own = bare.setdefault((backbone, task.spec.aggr), {})
            own[task.spec.split_seed] = task
        methods += [Method(search, aggr) for aggr in plan.aggrs]
    trained = (store / TRAINED).resolve()
    runs = SearchRuns(methods, groups, bare, str(trained))
    some = next(iter(next(iter(bare.values())).values()))
    check_methods(
        [
            replace(some, spec=replace(some.spec, **_spec(method, trial)))
            for method in methods
            for trial in method.search.trials(method.aggr)
        ],
        dataset,
    )
    final = sum(len(bare[method.name]) * runs.longest(method) for method in methods)
    total = runs.epochs + (0 if then is None else final)
    number = runs.runs + (0 if then is None else sum(len(bare[method.name]) for method in methods))
    stored = not retry_failed and runs.begun_in(Store(store).finished())
    _announce(runs, dataset, (number, total), budget, None if stored else workers)
    with keep_workers(), search_bar(total) as bar:

        def run_all(what: str, tasks: Sequence[Task]) -> list[Row]:
            bar.title(what)
            again = {"retry_failed": retry_failed, "durable": False}
            # The longest first, so that no worker waits long for the last one of a round.
            tasks = sorted(tasks, key=_work, reverse=True)
            return run_missing(store, tasks, workers, **again, bar=bar)

        outcome = Searched(runs.run(run_all), searches, groups, runs.trained)
        _check_found(outcome, methods[0].name, store, alone=then is None)
        if then is not None:
            then(outcome, bar)
        rmtree(trained, ignore_errors=True)
    return outcome


def _check_found(outcome: Searched, baseline: tuple[str, str], store: Path, *, alone: bool) -> None:
    r"""Raises a :class:`SettingsError` if no trial of the baseline succeeded in any search, and for
    a search that is :obj:`alone` if none of another method did; otherwise names such methods.
    """
    missing, searches = outcome.missing(), len(outcome.groups)
    without = [method for method, count in missing.items() if count == searches]
    listed = ", ".join(f"{backbone}+{aggr}" for backbone, aggr in without)
    see = f"see `meanmax results show --store {store}`"
    if baseline in without or (alone and without):
        raise SettingsError(f"no trial of {listed} succeeded: {see}")
    for (backbone, aggr), count in missing.items():
        click.echo(
            f"No trial of {backbone}+{aggr} succeeded in {count} of {searches} "
            f"search{'' if searches == 1 else 'es'}: its runs have the default settings; {see}",
            err=True,
        )


def final_tasks(
    searched: Searched, dataset: Dataset, plans: Sequence[Plan], references: bool, metric: str
) -> list[Task]:
    r"""The runs to report: every method with its choice on every split, and the references."""
    found = []
    for plan in plans:
        (backbone,) = plan.backbones
        tasks = plan.tasks(dataset)
        for task in tasks:
            own = (g for g in searched.groups if task.spec.split_seed in g)
            shared = searched.groups[task.spec.split_seed % len(searched.groups)]
            group = next(own, shared)  # with a development pool, a search serves other splits too
            settings = searched.settings(backbone, task.spec.aggr, group)
            spec = replace(task.spec, settings=settings)
            found.append(replace(task, spec=spec, settings_name=AUTO, trained=searched.trained))
    return found + (reference_tasks(dataset, plans[0], metric) if references else [])


def reference_tasks(dataset: Dataset, plan: Plan, metric: str) -> list[Task]:
    r"""The runs of the references that take seconds. They have no settings of a file: their rows
    are the same beside searched and given settings.
    """
    found = []
    for task in plan.tasks(dataset):
        if task.spec.aggr == BASELINE:
            for name in REFERENCES if dataset.level == "node" else GRAPH_REFERENCES:
                spec = replace(task.spec, backbone=name, settings={"metric": metric})
                found.append(replace(task, spec=spec, settings_name=AUTO))
    return found


def chosen_grid(searched: Searched, budget: int, metric: str) -> Grid:
    r"""What was chosen: a line for each method and set of settings, those of most searches first,
    each with all that :obj:`--set` needs to train with it again.
    """
    cells, common = [], dict[str, Any]()
    level = next(iter(searched.searches.values())).level
    for backbone, aggr in dict.fromkeys(method for method, _ in searched.found):
        name = f"{backbone}+{aggr}" if aggr != BASELINE else backbone
        found = searched.choices(backbone, aggr)
        for one, count in found[:LISTED_SETS]:
            common = {name: one.trial.settings.get(name) for name in ("metric", "select", "epochs")}
            listed = changes(searched.searches[backbone], one.trial)
            cells.append([name, f"{count} of {len(searched.groups)}", listed])
        if rest := sum(count for _, count in found[LISTED_SETS:]):
            cells.append([name, f"{rest} of {len(searched.groups)}", "another set each"])
        if not found:
            cells.append([name, "0", "no trial succeeded"])
    return Grid(
        f"chosen on validation {level}s by {METRICS[metric].label}, {budget} "
        f"trial{'' if budget == 1 else 's'} of each method",
        ["method", "searches", "settings, as --set takes them"],
        cells,
        left=["method", "settings, as --set takes them"],
        caption="All have " + ", ".join(f"{name}={value}" for name, value in common.items()) + "; "
        "--save-settings FILE writes the sets of most searches.",
    )


def _spec(method: Method, trial: Any) -> dict[str, Any]:
    return {
        "backbone": method.search.backbone,
        "aggr": method.aggr,
        "settings": trial.settings,
    }


def expected_seconds(runs: int, epochs: int, epoch: float, jobs: int) -> float:
    r"""About how long a search takes whose epochs take so many seconds.

    Example:
        >>> round(expected_seconds(runs=300, epochs=50_000, epoch=0.004, jobs=2))
        55
    """
    return START_SECONDS + (RUN_SECONDS * runs + STOPPED_EARLY * epochs * epoch) / jobs


def _announce(
    runs: SearchRuns,
    dataset: Dataset,
    most: tuple[int, int],
    budget: int,
    workers: Workers | None,
) -> None:
    r"""Says what will be searched, and with workers about how long it takes, from a few timed
    epochs; :obj:`most` are the runs and epochs of all rounds and of what comes after them.
    """
    from meanmax.train import TrainingError

    methods, splits = len(runs.methods), sum(map(len, runs.groups))
    number, epochs = most
    text = (
        f"Search: {budget} trial{'' if budget == 1 else 's'} of each of {methods} "
        f"method{'' if methods == 1 else 's'} on "
        f"{splits} split{'' if splits == 1 else 's'}, at most {epochs:,} epochs"
    )
    if workers is None:
        text += "; the first round is stored"
    else:
        with suppress(TrainingError):  # which the trials report
            # Each method with another of its trials, which differ in depth and width.
            seconds = [
                _epoch_seconds(runs, dataset, method, number)
                for number, method in enumerate(runs.methods)
            ]
            jobs = workers.jobs or max(1, (os.cpu_count() or 1) // workers.threads)
            expected = expected_seconds(number, epochs, sum(seconds) / methods, jobs)
            text += f", {time_text(expected)}"
    click.echo(f"{text}.", err=True)


def time_text(seconds: float) -> str:
    r"""How long a search takes if nothing is stored, and what makes a long one shorter.

    Example:
        >>> time_text(100.0)
        'about 1:40 if nothing is stored'
        >>> print(time_text(2e4).replace("; ", ";\n"))
        about 5:33:20 if nothing is stored;
        the same command resumes after an interruption;
        fewer --splits, fewer --aggr or a smaller --budget take less
    """
    text = f"about {clock(seconds)} if nothing is stored"
    if seconds <= LONG_SECONDS:
        return text
    less = "fewer --splits, fewer --aggr or a smaller --budget take less"
    return f"{text}; the same command resumes after an interruption; {less}"


def _work(task: Task) -> float:
    r"""What a run costs beside others of its round, roughly: products of wide and deep layers."""
    settings = task.spec.settings
    return float(settings.get("layers") or 2) * float(settings.get("hidden") or 64)


def _epoch_seconds(runs: SearchRuns, dataset: Dataset, method: Method, number: int) -> float:
    from meanmax.study.runs.machine import num_threads
    from meanmax.train import Settings
    from meanmax.train.fit import GraphData, fit

    task = next(iter(runs.bare[method.name].values()))
    trials = method.search.trials(method.aggr)
    trial = trials[number % len(trials)]
    seconds = []
    with num_threads(1):
        for epochs in (1, 3):  # the first one compiles
            given = {**trial.settings, "epochs": epochs}
            settings = Settings.from_dict(*method.name, given)
            data = GraphData.from_dataset(dataset, task.split, settings)
            start = time.perf_counter()
            fit(settings, data)
            seconds.append((time.perf_counter() - start) / epochs)
    return seconds[-1]
