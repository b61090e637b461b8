r"""The command :obj:`meanmax predict`."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet

from meanmax.cli import options
from meanmax.cli.options import check_output, force
from meanmax.cli.progress import data_bars
from meanmax.cli.tables import count
from meanmax.data import DataError, Dataset, fingerprint, load
from meanmax.data.files import atomic_write
from meanmax.scale import is_graph_folder, open_folder, predict_folder
from meanmax.scale.inference import without_graph
from meanmax.study.runs.execute import class_names_of
from meanmax.train import NodeClassifier
from meanmax.train.problem import micro_f1

SUFFIXES = (".csv", ".parquet")


def prediction_columns(
    classifier: NodeClassifier, dataset: Dataset, chance: np.ndarray, *, every_class: bool
) -> dict[str, np.ndarray]:
    r"""The columns of a table with a row for each node.

    They are :obj:`id`, the user's identifier or the number of the node; :obj:`label`, the name of
    the likeliest class; and its :obj:`probability`. Where a node has several labels there are
    :obj:`label_NAME`, 0 or 1, and :obj:`probability_NAME` for each.

    Args:
        classifier (NodeClassifier): The trained classifier.
        dataset (Dataset): What it predicts.
        chance (ndarray): What :meth:`~meanmax.NodeClassifier.predict_proba` gives.
        every_class (bool): Whether there is a column :obj:`probability_NAME` for each class too.
    """
    ids = np.arange(dataset.num_nodes) if dataset.node_ids is None else dataset.node_ids
    columns = {"id": np.asarray(ids)}
    chances = {
        f"probability_{name}": chance[:, number]
        for number, name in enumerate(classifier.class_names_)
    }
    if classifier.multilabel_:
        for number, name in enumerate(classifier.class_names_):
            columns[f"label_{name}"] = (chance[:, number] > 0.5).astype(np.int8)
            columns[f"probability_{name}"] = chances[f"probability_{name}"]
        return columns
    best = chance.argmax(axis=1)
    columns["label"] = np.array(classifier.class_names_)[best]
    columns["probability"] = np.take_along_axis(chance, best[:, None], axis=1)[:, 0]
    return columns | chances if every_class else columns


def write_predictions(path: Path, columns: dict[str, np.ndarray]) -> None:
    r"""Writes a table, all at once or not at all.

    Args:
        path (Path): A file that ends with one of :obj:`SUFFIXES`. Probabilities have six digits in
            csv, and are float32 in parquet.
        columns (dict): Columns of equal length by name.
    """
    with atomic_write(path) as file:
        if path.suffix.lower() == ".parquet":
            table = pa.table({name: _array(values) for name, values in columns.items()})
            pyarrow.parquet.write_table(table, file)
            return
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*map(_cells, columns.values()), strict=True))
        text.detach()  # atomic_write closes it


def _array(values: np.ndarray) -> pa.Array:
    return pa.array(values if values.dtype.kind in "fi" else values.tolist())


def _cells(values: np.ndarray) -> list[object]:
    if values.dtype.kind == "f":
        return [f"{value:.6g}" for value in values.tolist()]
    listed: list[object] = values.tolist()
    return listed


@click.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--data",
    "source",
    required=True,
    metavar="NAME|PATH",
    help="The graph trained on, or another one with the same features; a graph folder is computed "
    "layer by layer.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help=f"File for the predictions, which ends with {' or '.join(SUFFIXES)}.",
)
@click.option("--all", "every_class", is_flag=True, help="Write the probability of every class.")
@force
@options.data_dir
@options.directed
def predict(
    model: Path,
    source: str,
    out: Path,
    every_class: bool,
    force: bool,
    data_dir: Path | None,
    directed: bool,
) -> None:
    r"""Predict the classes of all nodes with a MODEL that 'meanmax train' has saved.

    Nothing in the file of the model is executed. The table has a row for each node: its id, the
    name of its class and how probable that is; for several labels 0 or 1 and the probability of
    each. Where nodes have labels, the score on them is printed.
    """
    check_output(out, overwrite=force, suffixes=SUFFIXES)
    with options.clear_errors():
        classifier = _loaded(model)
        try:
            if is_graph_folder(source):
                folder = open_folder(source)
                dataset, known = without_graph(folder), folder.manifest.fingerprint
                chance = predict_folder(classifier, folder, scratch=out.parent)
            else:
                with data_bars() as progress:
                    dataset = load(source, data_dir=data_dir, directed=directed, progress=progress)
                chance, known = classifier.predict_proba(dataset.graph(), dataset.x), None
        except DataError:
            raise
        except ValueError as error:
            raise click.ClickException(f"{model} does not fit '{source}': {error}") from error
        columns = prediction_columns(classifier, dataset, chance, every_class=every_class)
        write_predictions(out, columns)
    click.echo(f"{count(dataset.num_nodes, 'node')} in {out}")
    for line in _judgement(classifier, dataset, chance, known):
        click.echo(line)
    if classifier.about_.get("directed") and not directed:
        click.echo("note: the model was trained with --directed", err=True)


def _loaded(model: Path) -> NodeClassifier:
    try:
        return NodeClassifier.load(model)
    except ValueError as error:
        raise click.ClickException(str(error)) from error


def _judgement(
    classifier: NodeClassifier, dataset: Dataset, chance: np.ndarray, known: str | None
) -> list[str]:
    r"""The score on labelled nodes, if there are any, and what to think of it."""
    labelled = dataset.labelled
    if not bool(labelled.any()):
        return []
    ours, theirs = classifier.class_names_, class_names_of(dataset)
    if set(ours).isdisjoint(theirs) or (classifier.multilabel_ and set(ours) != set(theirs)):
        return ["no score: the labels of these data are not those that the model knows"]
    if classifier.multilabel_ != (dataset.task == "multilabel" and dataset.num_classes > 1):
        return ["no score: the model and these data differ in how many labels a node has"]
    if classifier.multilabel_:
        order = [theirs.index(name) for name in ours]
        true = dataset.y[labelled][:, order] > 0.5
        found = dataset.y.new_tensor(chance)[labelled] > 0.5
        score, metric = micro_f1(found, true), "micro-F1"
    else:
        given = dataset.y.reshape(-1)[labelled].long().numpy()
        named = np.array(ours)[chance.argmax(axis=1)][labelled.numpy()]
        score, metric = float(np.mean(named == np.array(theirs)[given])), "accuracy"
    nodes = count(int(labelled.sum()), "labelled node")
    caveat = _caveat(classifier, known or fingerprint(dataset))
    return [f"{metric} {100 * score:.2f} % on {nodes} ({caveat})"]


def _caveat(classifier: NodeClassifier, found: str) -> str:
    known = classifier.about_.get("spec", {}).get("data_hash")
    if known is None:
        return "which may be nodes that it was trained on"
    if known == found[: len(known)]:
        return "those that it was trained on included: see test nodes for how well it does"
    return "not the data that it was trained on, unless they were changed"
