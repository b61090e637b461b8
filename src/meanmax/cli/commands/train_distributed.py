r"""What :obj:`meanmax train --distributed` does on each rank."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import torch

from meanmax.cli.commands.partition import cut_once
from meanmax.cli.progress import data_bars, epoch_bar
from meanmax.cli.tables import training_facts
from meanmax.data import load
from meanmax.scale import Job, Part, RankError, is_partition, joined_job, open_part
from meanmax.scale.fit import fit_parts
from meanmax.study.runs.execute import classifier_of
from meanmax.study.runs.machine import versions
from meanmax.study.runs.row import RunSpec
from meanmax.study.settings.settings import settings_for
from meanmax.train import Checkpoint, History, NodeClassifier


@dataclass(frozen=True)
class Wanted:
    r"""What the command was asked for."""

    source: str
    backbone: str
    aggr: str
    scheme: str | None
    split_seed: int
    seed: int
    settings_name: str
    overrides: Mapping[str, Any]
    threads: int
    out: Path
    checkpoints: bool
    every: float
    cut: str
    data_dir: Path | None
    directed: bool


def train_on_ranks(wanted: Wanted) -> dict[str, Any] | None:
    r"""Trains, and on the first rank saves the model; what there is to print, there only."""
    torch.set_num_threads(wanted.threads)
    state = wanted.out.with_name(f"{wanted.out.name}.checkpoint")
    with told_of_failures(state), joined_job() as job:
        folder = _cut(wanted, job)
        part = open_part(folder, job)
        spec = _spec(wanted, part)
        run = f"{spec.key}-{part.manifest.parts}-{part.manifest.method}"
        checkpoint = Checkpoint(state, run=run, every=wanted.every) if wanted.checkpoints else None
        classifier = classifier_of(spec.backbone, spec.aggr, spec.settings, seed=spec.seed)
        if job.is_first and checkpoint is not None and state.exists():
            click.echo(f"going on from {state}", err=True)
        with bar_of_first(classifier.epochs, job) as on_epoch:
            scores = fit_parts(classifier, part, job, on_epoch=on_epoch, checkpoint=checkpoint)
        facts = _facts(classifier, part, scores)
        if not job.is_first:
            return None
        about = {"spec": asdict(spec), "directed": wanted.directed, "versions": versions()}
        classifier.save(wanted.out, about={**about, "settings_name": wanted.settings_name})
        if checkpoint is not None:
            checkpoint.remove()
        facts |= {**asdict(spec), "settings_name": wanted.settings_name, "model": str(wanted.out)}
        return facts | {"split_name": part.manifest.origin["split_name"]}


def _cut(wanted: Wanted, job: Job) -> Path:
    r"""The folder of parts: what was named, or what the first rank makes beside the model."""
    if is_partition(wanted.source):
        return Path(wanted.source)
    folder = wanted.out.with_name(f"{wanted.out.name}.parts")
    if job.is_first:
        with data_bars() as progress:
            dataset = load(
                wanted.source,
                data_dir=wanted.data_dir,
                directed=wanted.directed,
                progress=progress,
            )
        cut_once(dataset, wanted.scheme, wanted.split_seed, job.size, wanted.cut, folder)
    job.wait()
    return folder


def _spec(wanted: Wanted, part: Part) -> RunSpec:
    origin = part.manifest.origin
    name = part.manifest.data
    return RunSpec(
        data=name,
        data_hash=origin["data_hash"],
        split=origin["split"],
        split_seed=origin["split_seed"],
        split_hash=origin["split_hash"],
        seed=wanted.seed,
        backbone=wanted.backbone,
        aggr=wanted.aggr,
        settings=settings_for(
            wanted.settings_name, wanted.backbone, wanted.aggr, name, wanted.overrides
        ),
    )


def _facts(
    classifier: NodeClassifier, part: Part, scores: Mapping[str, float | None]
) -> dict[str, Any]:
    sample = part.sample("train", scale=classifier.scale)
    found = classifier.model_.maxness(sample.x, part.graph)  # every rank takes part
    maxness = {name: value.numpy() for name, value in found.items()}
    return {**training_facts(classifier, scores, maxness), "processes": part.manifest.parts}


@contextmanager
def bar_of_first(epochs: int, job: Job) -> Iterator[Any]:
    r"""What is to be called after each epoch: a bar on the first rank, silence on the others."""
    if not job.is_first:
        yield _silent
        return
    with epoch_bar(epochs) as bar:
        yield bar


def _silent(epoch: int, history: History) -> None:
    r"""Other ranks have nothing to show that the first has not."""


@contextmanager
def told_of_failures(state: Path) -> Iterator[None]:
    r"""Ends with one clear line when another rank, or the launcher, ends the job."""

    def stopped(*_: object) -> None:
        raise RankError("stopped by the launcher, as it does when another rank has ended")

    before = signal.signal(signal.SIGTERM, stopped)
    try:
        yield
    except RankError as error:
        # A rank that notices by itself is told to stop as well: it speaks before it obeys.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        hint = "the same command starts over"
        if state.exists():
            hint = f"the same command goes on from {state}"
        click.ClickException(f"{error}; {hint}").show()
        raise click.exceptions.Exit(1) from error
    finally:
        signal.signal(signal.SIGTERM, before)
