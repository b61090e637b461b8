r"""How :obj:`meanmax train` trains: on a whole graph, in batches, or on ranks that hold parts."""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from meanmax import scale
from meanmax.cli.commands.partition import cut_once, split_origin
from meanmax.cli.progress import epoch_bar, load_dataset
from meanmax.cli.search import fitting_metric
from meanmax.data import DataError, Dataset
from meanmax.names import METRICS, USUAL_METRIC
from meanmax.study.runs.execute import classifier_of, estimator_of, stored
from meanmax.study.runs.machine import num_threads, versions
from meanmax.study.runs.plan import DataRef, Plan, check_classes, check_methods
from meanmax.study.runs.row import RunSpec, split_hash
from meanmax.study.settings.settings import fitting_name, settings_for
from meanmax.train import Checkpoint, History
from meanmax.train.inputs import class_names_of
from meanmax.train.loading import Model
from meanmax.train.tensorboard import TensorBoard


@dataclass(frozen=True)
class TrainRequest:
    r"""The options of :obj:`meanmax train` that say what to train, on what, and where it goes."""

    source: str
    data_dir: Path | None
    directed: bool
    one_hot: tuple[str, ...]
    impute: str | None
    task: str | None
    backbone: str
    aggr: str
    scheme: str | None
    split_seed: int
    seed: int
    settings_name: str
    overrides: Mapping[str, Any]
    threads: int
    out: Path
    keeps_checkpoint: bool
    checkpoint_every: float
    cut: str
    tensorboard: Path | None

    @property
    def state(self) -> Path:
        r"""The file of the checkpoint."""
        return self.out.with_name(f"{self.out.name}.checkpoint")

    def checkpoint(self, run: str, *, announce: bool = True) -> Checkpoint | None:
        r"""The checkpoint of a run, if one is kept."""
        if not self.keeps_checkpoint:
            return None
        if announce and self.state.exists():
            click.echo(f"resuming from {self.state}", err=True)
        return Checkpoint(self.state, run=run, every=self.checkpoint_every)

    def load(self) -> Dataset:
        r"""The data set."""
        names = ("directed", "one_hot", "impute", "task")
        own = {name: getattr(self, name) for name in names}
        return load_dataset(self.source, self.data_dir, **own)

    def spec(self, origin: Mapping[str, Any]) -> RunSpec:
        r"""The run on data of this origin: name, hash and split."""
        backbone, aggr = self.backbone, self.aggr
        settings = settings_for(self.settings_name, backbone, aggr, origin["data"], self.overrides)
        facts = {name: value for name, value in origin.items() if name != "split_name"}
        return RunSpec(**facts, seed=self.seed, backbone=backbone, aggr=aggr, settings=settings)


def train_whole(request: TrainRequest) -> dict[str, Any]:
    r"""Trains on the whole graph, saves the model, and returns the facts to print."""
    with ExitStack() as stack:
        curves = None
        if request.tensorboard is not None:
            curves = stack.enter_context(TensorBoard(request.tensorboard))
        dataset = request.load()
        plan = Plan(
            DataRef(request.source),
            [request.backbone],
            [request.aggr],
            [request.split_seed],
            fitting_name(request.settings_name, dataset.level),
            request.scheme,
            request.overrides,
        )
        (task,) = plan.tasks(dataset)
        check_classes(task.split, dataset)
        if "metric" not in task.spec.settings:
            metric = fitting_metric(dataset, [task.split], request.scheme)
            if metric != USUAL_METRIC[dataset.task]:
                click.echo(
                    f"metric: {METRICS[metric].label}, since one of two classes is rare (--metric "
                    f"{USUAL_METRIC[dataset.task]} for another)",
                    err=True,
                )
                overrides = {"metric": metric, "select": "score", **plan.overrides}
                plan = replace(plan, overrides=overrides)
                (task,) = plan.tasks(dataset)
        check_methods([task], dataset)
        spec, split, graph = replace(task.spec, seed=request.seed), task.split, dataset.graph()
        if unused := sorted(plan.without_effect(dataset)):
            method = f"{spec.backbone}+{spec.aggr}"
            click.echo(f"no effect on {method} with these settings: {', '.join(unused)}", err=True)
        stack.enter_context(num_threads(request.threads))
        model = estimator_of(spec, dataset)
        names: dict[str, Any] = {}
        if dataset.task != "regression":
            names["class_names"] = class_names_of(dataset.class_names, dataset.y.dim())
        if split.val.numel() == 0:
            click.echo(
                f"no validation {dataset.level}s: training runs through all epochs", err=True
            )
        checkpoint = request.checkpoint(spec.key)
        with epoch_bar(model.epochs, model.metric or USUAL_METRIC[dataset.task]) as bar:

            def on_epoch(epoch: int, history: History) -> None:
                bar(epoch, history)
                if curves is not None:
                    curves(epoch, history)

            try:
                model.fit(  # gets neither test nodes nor their labels
                    graph,
                    dataset.x,
                    dataset.y,
                    split.train,
                    split.val if split.val.numel() else None,
                    on_epoch=on_epoch,
                    checkpoint=checkpoint,
                    **names,
                )
            except KeyboardInterrupt:
                if checkpoint is not None and checkpoint.path.exists():
                    click.echo(f"the same command resumes from {checkpoint.path}", err=True)
                raise
        roles = {"train": split.train, "val": split.val, "test": split.test}
        scores = {
            role: model.score(graph, dataset.x, dataset.y, nodes) if nodes.numel() else None
            for role, nodes in roles.items()
        }
        facts = training_facts(model, scores, model.maxness(graph, dataset.x))
        about = dataset.feature_facts
        return _finish(request, spec, split.name, model, checkpoint, facts, about)


def train_in_batches(request: TrainRequest, batches: scale.Batches) -> dict[str, Any] | None:
    r"""Trains in batches, in this process or with the others of torchrun, and saves the model; the
    facts to print, on the first process only.
    """
    with num_threads(request.threads), ExitStack() as stack:
        job = None
        if "RANK" in os.environ:  # started by torchrun
            stack.enter_context(report_failures(request.state))
            job = stack.enter_context(scale.joined_job())
        source, origin, feature_facts = _read(request)
        spec = request.spec(origin)
        first = job is None or job.is_first
        run = f"{spec.key}-{batches.key}-{1 if job is None else job.size}"
        checkpoint = request.checkpoint(run, announce=first)
        classifier = classifier_of(spec)
        with epoch_bar(classifier.epochs, shown=first) as on_epoch:
            scale.fit_batches(
                classifier, source, batches, job=job, on_epoch=on_epoch, checkpoint=checkpoint
            )
        if not first:
            return None
        maxness = {}
        if source.whole is not None:
            x, graph = source.whole
            maxness = classifier.maxness(graph, x)
        about: dict[str, Any] = {"batches": asdict(batches)}
        facts = training_facts(classifier, scale.exact_scores(classifier, source), maxness) | about
        about |= feature_facts
        return _finish(request, spec, origin["split_name"], classifier, checkpoint, facts, about)


def _read(request: TrainRequest) -> tuple[scale.Source, dict[str, Any], dict[str, Any]]:
    r"""The graph, the facts that identify it, and those on its features."""
    if not scale.is_graph_folder(request.source):
        dataset = request.load()
        split, origin = split_origin(dataset, request.scheme, request.split_seed)
        origin = {"data": dataset.name, **origin}
        return scale.Source.of_dataset(dataset, split), origin, dataset.feature_facts
    folder = scale.open_folder(request.source)
    if request.scheme is not None:
        raise DataError("a graph folder holds its own split: leave out --split")
    source = scale.Source.of_folder(folder, scratch=request.out.parent)
    origin = {
        "data": folder.manifest.name,
        "data_hash": folder.manifest.fingerprint[:20],
        "split": "folder",
        "split_seed": 0,
        "split_hash": split_hash(source.split),
        "split_name": "folder",
    }
    return source, origin, _feature_facts(folder)


def _feature_facts(folder: scale.GraphFolder) -> dict[str, Any]:
    about = folder.manifest.about
    return {name: about[name] for name in ("feature_names", "encoding") if name in about}


def train_on_ranks(request: TrainRequest) -> dict[str, Any] | None:
    r"""Trains on a graph of which each rank holds a part, and saves the model; the facts to print,
    on the first rank only.
    """
    with num_threads(request.threads), report_failures(request.state), scale.joined_job() as job:
        folder = _parts_folder(request, job)
        part = scale.open_part(folder, job)
        origin = part.manifest.origin
        spec = request.spec({"data": part.manifest.data, **origin})
        run = f"{spec.key}-{part.manifest.parts}-{part.manifest.method}"
        checkpoint = request.checkpoint(run, announce=job.is_first)
        classifier = classifier_of(spec)
        with epoch_bar(classifier.epochs, shown=job.is_first) as on_epoch:
            scores = scale.fit_parts(
                classifier, part, job, on_epoch=on_epoch, checkpoint=checkpoint
            )
        sample = part.sample("train", scale=classifier.scale)
        maxness = classifier.model_.maxness(sample.x, part.graph)  # every rank contributes
        if not job.is_first:
            return None
        arrays = {name: value.numpy() for name, value in maxness.items()}
        facts = training_facts(classifier, scores, arrays) | {"processes": part.manifest.parts}
        about = _feature_facts(scale.open_folder(folder))
        return _finish(request, spec, origin["split_name"], classifier, checkpoint, facts, about)


def _parts_folder(request: TrainRequest, job: scale.Job) -> Path:
    r"""The folder of parts: the one given, or one that the first rank makes next to the model."""
    if scale.is_partition(request.source):
        return Path(request.source)
    folder = request.out.with_name(f"{request.out.name}.parts")
    if job.is_first:
        dataset = request.load()
        cut_once(dataset, request.scheme, request.split_seed, job.size, request.cut, folder)
    job.wait()
    return folder


def training_facts(
    estimator: Model,
    scores: Mapping[str, float | None],
    maxness: Mapping[str, np.ndarray],
) -> dict[str, Any]:
    r"""Scores as rows store them, learned parameters and times.

    :obj:`scores`: by role, :obj:`None` or NaN where there is none. :obj:`maxness`: of each layer,
    per channel.
    """
    model, history, metric = estimator.model_, estimator.history_, estimator.metric_
    return {
        "metric": METRICS[metric].label,
        "level": estimator.level,
        "percent": METRICS[metric].percent,
        **{
            f"{name}_score": None if score is None or math.isnan(score) else stored(metric, score)
            for name, score in scores.items()
        },
        "best_epoch": history.best_epoch,
        "epochs": history.epochs,
        "learned": {name: value.reshape(-1).tolist() for name, value in model.learned().items()},
        "maxness": {name: _finite_mean(value) for name, value in maxness.items()},
        "seconds": round(history.seconds, 3),
    }


def _finite_mean(values: np.ndarray) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else None


def _finish(
    request: TrainRequest,
    spec: RunSpec,
    split_name: str,
    model: Model,
    checkpoint: Checkpoint | None,
    facts: dict[str, Any],
    about: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    r"""Saves the model, removes the checkpoint, and returns all facts to print."""
    named = {"settings_name": request.settings_name}
    origin = {"spec": asdict(spec), "directed": request.directed, "versions": versions()}
    model.save(request.out, about={**origin, **named, **(about or {})})
    if checkpoint is not None:
        checkpoint.remove()
    named |= {"split_name": split_name, "model": str(request.out)}
    return {**asdict(spec), **named, **facts}


@contextmanager
def report_failures(state: Path) -> Iterator[None]:
    r"""Ends with one clear line, which names the checkpoint :obj:`state` if there is one, when
    another rank, or the launcher, ends the job.
    """

    reported = False

    def report(error: object) -> None:
        nonlocal reported
        reported = True
        hint = f"resumes from {state}" if state.exists() else "starts over"
        click.ClickException(f"{error}; the same command {hint}").show()

    def stopped(*_: object) -> None:
        # The launcher also stops a rank that has noticed the failure itself, at any moment of its
        # way out: one message, and no exception that a handler of errors could take for its own.
        if not reported:
            report("stopped by the launcher, as it does when another rank has ended")
            sys.exit(1)

    before = signal.signal(signal.SIGTERM, stopped)
    try:
        yield
    except scale.RankError as error:
        if not reported:
            report(error)
        raise click.exceptions.Exit(1) from error
    finally:
        signal.signal(signal.SIGTERM, before)
