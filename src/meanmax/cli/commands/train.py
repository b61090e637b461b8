r"""The command :obj:`meanmax train`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
import torch

from meanmax.cli import options
from meanmax.cli.commands.partition import CUTS, check_source
from meanmax.cli.commands.train_batches import batch_options, batches_of, train_in_batches
from meanmax.cli.commands.train_distributed import Wanted, train_on_ranks
from meanmax.cli.options import check_output, force
from meanmax.cli.progress import data_bars, epoch_bar
from meanmax.cli.tables import judged, print_out, train_table
from meanmax.data import Dataset, Split, load, make_split
from meanmax.graph import Graph
from meanmax.scale import LaunchError, is_graph_folder, is_partition
from meanmax.study.runs.execute import class_names_of, classifier_of
from meanmax.study.runs.machine import versions
from meanmax.study.runs.plan import DataRef, Plan, check_methods
from meanmax.study.runs.row import RunSpec
from meanmax.train import Checkpoint, History, NodeClassifier
from meanmax.train.loop import OnEpoch
from meanmax.train.tensorboard import TensorBoard, TensorBoardError


@click.command()
@click.option("--data", "source", required=True, metavar="NAME|PATH", help="The graph.")
@click.option("--backbone", type=options.BACKBONE, default="gcn", help=options.BACKBONE_HELP)
@click.option(
    "--aggr",
    type=options.AGGR,
    default="softmax",
    help="Aggregator; 'none' is the backbone's own.",
)
@options.scheme
@click.option("--split-seed", type=click.IntRange(min=0), default=0, help="Seed of the split.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of weights and dropout.")
@options.settings
@options.overrides
@options.threads
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="File for the model, such as model.zip.",
)
@force
@click.option(
    "--checkpoint/--no-checkpoint",
    "keeps",
    default=True,
    help="Keep the state of training beside --out, so that the same command goes on after an "
    "interruption.",
)
@click.option("--checkpoint-every", "every", type=float, default=30.0, hidden=True)
@click.option(
    "--tensorboard",
    "board",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for curves that TensorBoard shows.",
)
@click.option(
    "--distributed",
    is_flag=True,
    help="Each process holds a part of the graph: start it with torchrun --nproc-per-node 2 -m "
    "meanmax train ... Results are those of one process.",
)
@click.option(
    "--cut",
    type=click.Choice(list(CUTS)),
    default="metis",
    help="How the graph is cut with --distributed or --batches clusters, unless it is cut already.",
)
@batch_options
@options.data_dir
@options.directed
@options.as_json
def train(
    source: str,
    backbone: str,
    aggr: str,
    scheme: str | None,
    split_seed: int,
    seed: int,
    settings_name: str,
    pairs: tuple[str, ...],
    threads: int,
    out: Path,
    force: bool,
    keeps: bool,
    every: float,
    board: Path | None,
    distributed: bool,
    cut: str,
    kind: str,
    parts: int | None,
    parts_per_batch: int | None,
    fanout: tuple[int, ...] | None,
    batch_size: int,
    data_dir: Path | None,
    directed: bool,
    print_json: bool,
) -> None:
    r"""Train one model and save it.

    The epoch whose weights are kept is chosen on validation nodes; test nodes are only scored, at
    the end.
    """
    overrides = options.parsed(pairs)
    check_output(out, overwrite=force)
    with _clear_errors():
        check_source(source, distributed, options.typed("scheme", "split_seed", "cut", "directed"))
    in_batches = kind != "none" or (is_graph_folder(source) and not is_partition(source))
    if distributed or in_batches:
        if board is not None or (distributed and in_batches):
            other = "--tensorboard" if board is not None else "--batches, or a graph folder,"
            with_it = "--distributed" if distributed else "--batches"
            raise click.ClickException(f"{other} does not go with {with_it}: leave it out")
        wanted = Wanted(
            source, backbone, aggr, scheme, split_seed, seed, settings_name, overrides, threads,
            out, keeps, every, cut, data_dir, directed,
        )  # fmt: skip
        with _clear_errors():
            if in_batches:
                how = {"kind": "clusters" if kind == "none" else kind, "cut": cut}
                found = train_in_batches(
                    wanted, batches_of(how, parts, parts_per_batch, fanout, batch_size)
                )
            else:
                found = train_on_ranks(wanted)
        if found is not None:
            _show(found, print_json)
        return
    with _clear_errors(), ExitStack() as stack:
        curves = stack.enter_context(TensorBoard(board)) if board is not None else None
        with data_bars() as progress:
            dataset = load(source, data_dir=data_dir, directed=directed, progress=progress)
        plan = Plan(
            DataRef(source), [backbone], [aggr], [split_seed], settings_name, scheme, overrides
        )
        (task,) = plan.tasks(dataset)
        check_methods([task], dataset)
        spec = replace(task.spec, seed=seed)
        _note_unused(spec, overrides)
        split = make_split(dataset, task.scheme, split_seed)
        graph = dataset.graph()
        state = out.with_name(f"{out.name}.checkpoint")
        checkpoint = Checkpoint(state, run=spec.key, every=every) if keeps else None
        stack.enter_context(_threads(threads))
        classifier = _fitted(spec, dataset, graph, split, checkpoint, curves)
        about = {"spec": asdict(spec), "directed": directed, "versions": versions()}
        classifier.save(out, about={**about, "settings_name": settings_name})
        facts = {**asdict(spec), "split_name": split.name, "settings_name": settings_name}
        facts |= {**judged(classifier, dataset, graph, split), "model": str(out)}
        if checkpoint is not None:
            checkpoint.remove()
    _show(facts, print_json)


def _show(facts: dict[str, Any], print_json: bool) -> None:
    if print_json:
        click.echo(json.dumps(facts, indent=1))
    else:
        print_out(train_table(facts))


def _fitted(
    spec: RunSpec,
    dataset: Dataset,
    graph: Graph,
    split: Split,
    checkpoint: Checkpoint | None,
    curves: TensorBoard | None,
) -> NodeClassifier:
    r"""A trained classifier; test nodes and their labels are not among what it is told."""
    classifier = classifier_of(spec.backbone, spec.aggr, spec.settings, seed=spec.seed)
    val = split.val
    if val.numel() == 0:
        click.echo("no validation nodes: training runs through all epochs", err=True)
    if checkpoint is not None and checkpoint.path.exists():
        click.echo(f"going on from {checkpoint.path}", err=True)
    with epoch_bar(classifier.epochs) as bar:
        try:
            return classifier.fit(
                graph,
                dataset.x,
                dataset.y,
                split.train,
                val if val.numel() else None,
                class_names=class_names_of(dataset),
                on_epoch=_told(bar, curves),
                checkpoint=checkpoint,
            )
        except KeyboardInterrupt:
            if checkpoint is not None and checkpoint.path.exists():
                click.echo(f"the same command goes on from {checkpoint.path}", err=True)
            raise


def _note_unused(spec: RunSpec, overrides: Mapping[str, Any]) -> None:
    r"""Says which settings were given in vain."""
    given = {name for name, value in overrides.items() if value is not None}
    if unused := sorted(given - set(spec.settings)):
        method = f"{spec.backbone}+{spec.aggr}"
        names = ", ".join(unused)
        click.echo(f"no effect on {method} with these settings: {names}", err=True)


def _told(bar: OnEpoch, curves: TensorBoard | None) -> OnEpoch:
    def on_epoch(epoch: int, history: History) -> None:
        bar(epoch, history)
        if curves is not None:
            curves(epoch, history)

    return on_epoch


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _clear_errors() -> Iterator[None]:
    r"""Those of all commands, and what a classifier says about its arguments."""
    with options.clear_errors(), options.as_clicked(LaunchError, TensorBoardError, ValueError):
        yield
