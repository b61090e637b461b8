r"""What :obj:`meanmax train --batches` does, in one process or in several."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click
import torch

from meanmax.cli.commands.train_distributed import Wanted, bar_of_first, told_of_failures
from meanmax.cli.options import POSITIVE
from meanmax.cli.progress import data_bars, epoch_bar
from meanmax.cli.tables import training_facts
from meanmax.data import DataError, fingerprint, load, make_split
from meanmax.data.splits import default_scheme
from meanmax.scale import (
    Batches,
    Job,
    Source,
    exact_scores,
    fit_batches,
    is_graph_folder,
    joined_job,
    open_folder,
)
from meanmax.scale.batches import FANOUT, PARTS_PER_BATCH
from meanmax.study.runs.execute import classifier_of
from meanmax.study.runs.machine import versions
from meanmax.study.runs.row import RunSpec, split_hash
from meanmax.study.settings.settings import settings_for
from meanmax.study.stats.cells import without_folder
from meanmax.train import Checkpoint, NodeClassifier
from meanmax.train.loop import OnEpoch

F = TypeVar("F", bound=Callable[..., Any])


class Fanout(click.ParamType):  # type: ignore[type-arg]
    r"""Numbers with commas between them."""

    name = "numbers"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        r"""The numbers."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(int(text) for text in str(value).split(","))
        except ValueError:
            self.fail(f"give a number for each hop, such as 10,10 (got {value!r}).", param)


def batch_options(command: F) -> F:
    r"""The options that say how batches are made."""
    for option in (
        click.option("--batch-size", type=POSITIVE, default=512, help="Training nodes in a batch."),
        click.option(
            "--fanout",
            type=Fanout(),
            help=f"Neighbours drawn in each hop, -1 for all. [default: {FANOUT} for each layer]",
        ),
        click.option(
            "--parts-per-batch",
            type=POSITIVE,
            help=f"Clusters in a batch. [default: {PARTS_PER_BATCH}, or all]",
        ),
        click.option("--parts", type=POSITIVE, help="Clusters. [default: one for each 400 nodes]"),
        click.option(
            "--batches",
            "kind",
            type=click.Choice(["none", "clusters", "neighbours"]),
            default="none",
            help="Train on the graph of a few clusters at a time, or on a few nodes with "
            "neighbours drawn at random. Under torchrun, processes share the batches.",
        ),
    ):
        command = option(command)
    return command


def batches_of(
    how: dict[str, Any],
    parts: int | None,
    parts_per_batch: int | None,
    fanout: tuple[int, ...] | None,
    batch_size: int,
) -> Batches:
    r"""What the options say."""
    return Batches(
        **how,
        parts=parts,
        parts_per_batch=parts_per_batch,
        fanout=fanout,
        batch_size=batch_size,
    )


def train_in_batches(wanted: Wanted, batches: Batches) -> dict[str, Any] | None:
    r"""Trains and saves the model; what there is to print, on the first process only.

    Args:
        wanted (Wanted): What the command was asked for.
        batches (Batches): How batches are made.
    """
    state = wanted.out.with_name(f"{wanted.out.name}.checkpoint")
    threads = torch.get_num_threads()
    torch.set_num_threads(wanted.threads)
    try:
        with _job(state) as job:
            return _trained(wanted, batches, state, job)
    finally:
        torch.set_num_threads(threads)


def _trained(
    wanted: Wanted, batches: Batches, state: Path, job: Job | None
) -> dict[str, Any] | None:
    source, origin = _read(wanted)
    first = job is None or job.is_first
    settings = settings_for(
        wanted.settings_name, wanted.backbone, wanted.aggr, origin["data"], wanted.overrides
    )
    split_name = origin.pop("split_name")
    spec = RunSpec(
        **origin, seed=wanted.seed, backbone=wanted.backbone, aggr=wanted.aggr, settings=settings
    )
    classifier = classifier_of(spec.backbone, spec.aggr, spec.settings, seed=spec.seed)
    run = f"{spec.key}-{batches.key}-{1 if job is None else job.size}"
    checkpoint = Checkpoint(state, run=run, every=wanted.every) if wanted.checkpoints else None
    if first and checkpoint is not None and state.exists():
        click.echo(f"going on from {state}", err=True)
    with _bar(classifier, job) as on_epoch:
        fit_batches(classifier, source, batches, job=job, on_epoch=on_epoch, checkpoint=checkpoint)
    if not first:
        return None
    about = {"spec": asdict(spec), "directed": wanted.directed, "versions": versions()}
    about |= {"settings_name": wanted.settings_name, "batches": asdict(batches)}
    classifier.save(wanted.out, about=about)
    facts = {**asdict(spec), "settings_name": wanted.settings_name, "model": str(wanted.out)}
    facts |= {"split_name": split_name, "batches": asdict(batches)}
    facts |= _facts(classifier, source)
    if checkpoint is not None:
        checkpoint.remove()
    return facts


def _read(wanted: Wanted) -> tuple[Source, dict[str, Any]]:
    r"""The graph, and what tells it from others."""
    if is_graph_folder(wanted.source):
        folder = open_folder(wanted.source)
        if wanted.scheme is not None:
            raise DataError("a graph folder holds its own split: leave out --split")
        source = Source.of_folder(folder, scratch=wanted.out.parent)
        return source, {
            "data": folder.manifest.name,
            "data_hash": folder.manifest.fingerprint[:20],
            "split": "folder",
            "split_seed": 0,
            "split_hash": split_hash(source.split),
            "split_name": "folder",
        }
    with data_bars() as progress:
        dataset = load(
            wanted.source, data_dir=wanted.data_dir, directed=wanted.directed, progress=progress
        )
    scheme = wanted.scheme or default_scheme(dataset)
    split = make_split(dataset, scheme, wanted.split_seed)
    return Source.of_dataset(dataset, split), {
        "data": dataset.name,
        "data_hash": fingerprint(dataset)[:20],
        "split": without_folder(scheme),
        "split_seed": wanted.split_seed,
        "split_hash": split_hash(split),
        "split_name": split.name,
    }


def _facts(classifier: NodeClassifier, source: Source) -> dict[str, Any]:
    maxness = {}
    if source.whole is not None:
        x, graph = source.whole
        maxness = classifier.maxness(graph, x)
    return training_facts(classifier, exact_scores(classifier, source), maxness)


@contextmanager
def _job(state: Path) -> Iterator[Job | None]:
    r"""The processes of torchrun, if that has started this one."""
    if "RANK" not in os.environ:
        yield None
        return
    with told_of_failures(state), joined_job() as job:
        yield job


@contextmanager
def _bar(classifier: NodeClassifier, job: Job | None) -> Iterator[OnEpoch]:
    if job is None:
        with epoch_bar(classifier.epochs) as bar:
            yield bar
        return
    with bar_of_first(classifier.epochs, job) as on_epoch:
        yield on_epoch
