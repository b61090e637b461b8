r"""The command :obj:`meanmax train`."""

from __future__ import annotations

from typing import Any

import click

from meanmax.cli import options
from meanmax.cli.commands.partition import CUTS, check_source
from meanmax.cli.progress import learned_texts
from meanmax.cli.search import chosen_metric, metric_option_with
from meanmax.cli.tables import Grid, decimal, print_result, score_text
from meanmax.names import default_aggregator


class Fanout(click.ParamType):  # type: ignore[type-arg]
    r"""Numbers separated by commas."""

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


@click.command()
@options.graph
@options.backbone
@click.option(
    "--aggr",
    type=options.AGGR,
    help="Aggregator; 'none' is the backbone's own. [default: softmax; none for mlp]",
)
@options.scheme
@options.split_seed
@click.option("--seed", type=options.SEED, default=0, help="Seed of weights and dropout.")
@metric_option_with(
    "Score to print, and to select the best epoch by. [default: accuracy, micro-F1 or R², and the "
    "epoch by the settings]"
)
@options.settings
@options.overrides
@options.threads
@options.out(options.PATH, "File for the model, such as model.zip.", required=True)
@options.force
@click.option(
    "--checkpoint/--no-checkpoint",
    "keeps_checkpoint",
    default=True,
    help="Keep a checkpoint next to --out, from which the same command resumes after an "
    "interruption.",
)
@click.option("--checkpoint-every", type=float, default=30.0, hidden=True)
@click.option(
    "--tensorboard", type=options.FOLDER, help="Folder for curves that TensorBoard shows."
)
@click.option(
    "--distributed",
    is_flag=True,
    help="Each process holds a part of the graph: start with torchrun --nproc-per-node 2 -m "
    "meanmax train ... The result is that of one process.",
)
@click.option(
    "--cut",
    type=click.Choice(CUTS),
    default="metis",
    help="How the graph is cut with --distributed or --batches clusters, unless it is cut already.",
)
@click.option(
    "--batches",
    "kind",
    type=click.Choice(["none", "clusters", "neighbours"]),
    default="none",
    help="Train on a few clusters of the graph at a time, or on a few nodes with sampled "
    "neighbours. Under torchrun, processes share the batches.",
)
@click.option("--parts", type=options.POSITIVE, help="Clusters. [default: one for each 400 nodes]")
@click.option(
    "--parts-per-batch", type=options.POSITIVE, help="Clusters in a batch. [default: 20, or all]"
)
@click.option(
    "--fanout",
    type=Fanout(),
    help="Neighbours sampled in each hop, -1 for all. [default: 10 for each layer]",
)
@click.option("--batch-size", type=options.POSITIVE, default=512, help="Training nodes in a batch.")
@options.as_json
def train(
    force: bool, metric: str | None, distributed: bool, print_json: bool, **request: Any
) -> None:
    r"""Train one model and save it.

    The epoch whose weights are kept is selected on validation nodes; test nodes are only scored, at
    the end.
    """
    options.check_output(request["out"], overwrite=force)
    from meanmax.cli.training import TrainRequest, train_in_batches, train_on_ranks, train_whole
    from meanmax.scale import Batches, LaunchError, is_graph_folder, is_partition
    from meanmax.train.tensorboard import TensorBoardError

    names = ("kind", "parts", "parts_per_batch", "fanout", "batch_size")
    sampling = {name: request.pop(name) for name in names}
    request["aggr"] = request["aggr"] or default_aggregator(request["backbone"])
    if metric is not None:
        with options.clear_errors():
            given = {"metric": chosen_metric(metric, request["overrides"]), "select": "score"}
        request["overrides"] = {**given, **request["overrides"]}
    wanted = TrainRequest(**request)
    with options.clear_errors(LaunchError, TensorBoardError, ValueError):
        settled = options.given("scheme", "split_seed", "cut", *options.OWN_GRAPH)
        check_source(wanted.source, distributed, settled)
        in_folder = is_graph_folder(wanted.source) and not is_partition(wanted.source)
        _refuse_without_effect(sampling["kind"], distributed, wanted.source if in_folder else None)
        in_batches = sampling["kind"] != "none" or in_folder
        _check_combination(distributed, in_batches, wanted.tensorboard is not None)
        if in_batches:
            if sampling["kind"] == "none":
                sampling["kind"] = "clusters"
            batches = Batches(cut=wanted.cut, **sampling)  # type: ignore[arg-type]
            facts = train_in_batches(wanted, batches)
        else:
            facts = (train_on_ranks if distributed else train_whole)(wanted)
    if facts is not None:
        print_result(print_json, facts, facts_grid(facts))


def _refuse_without_effect(kind: str, distributed: bool, folder: str | None) -> None:
    clusters = kind == "clusters" or (kind == "none" and folder is not None)
    if not clusters:
        options.refuse(("parts", "parts_per_batch"), "without --batches clusters")
    if kind != "neighbours":
        options.refuse(("fanout", "batch_size"), "without --batches neighbours")
    if not (clusters or distributed):
        options.refuse(("cut",), "without --distributed or --batches clusters")
    if folder is not None:
        from meanmax.scale import open_folder

        options.refuse((*options.OWN_GRAPH, "split_seed"), "on a graph folder")
        if open_folder(folder).part_ptr is not None:
            options.refuse(("cut",), "on a graph folder that is cut already")


def _check_combination(distributed: bool, in_batches: bool, tensorboard: bool) -> None:
    if not (distributed or in_batches) or not (tensorboard or (distributed and in_batches)):
        return
    other = "--tensorboard" if tensorboard else "--batches, or a graph folder,"
    with_it = "--distributed" if distributed else "--batches"
    raise click.ClickException(f"{other} does not go with {with_it}: leave it out")


def facts_grid(facts: dict[str, Any]) -> Grid:
    r"""A line for each fact."""
    rows = []
    for name, what in (("train", "training"), ("val", "validation"), ("test", "test")):
        shown = score_text(facts[f"{name}_score"], facts["percent"])
        rows.append([f"{facts['metric']} on {what} {facts['level']}s", shown])
    layers = [f"{name} {decimal(value, '.3f')}" for name, value in facts["maxness"].items()]
    rows += [
        ["best epoch", f"{facts['best_epoch'] + 1} of {facts['epochs']}"],
        ["learned", ", ".join(learned_texts(facts["learned"])) or "–"],
        ["maxness (0 mean, 1 max)", ", ".join(layers) or "–"],
        ["seconds", f"{facts['seconds']:.1f}"],
        ["model", facts["model"]],
    ]
    method = f"{facts['backbone']}+{facts['aggr']}, seed {facts['seed']}"
    title = f"{method}, on {facts['data']}, split '{facts['split_name']}'"
    return Grid(title, ["", ""], rows, left=[""])
