r"""The command :obj:`meanmax predict`."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from meanmax.cli import options
from meanmax.cli.progress import load_dataset
from meanmax.cli.tables import count, score_text
from meanmax.data import DataError
from meanmax.names import METRICS

if TYPE_CHECKING:
    from meanmax.data import Dataset
    from meanmax.train.classifier import Classifier
    from meanmax.train.loading import Model
    from meanmax.train.regressor import Regressor

SUFFIXES = (".csv", ".parquet")
ARRAYS = (".npz", ".pt", ".pth")  # hold features of 0 and 1, not categories


@click.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--data",
    "source",
    required=True,
    metavar="NAME|PATH",
    help="The graph of the training, or another one with the same features; a graph folder is "
    "computed layer by layer.",
)
@options.out(
    options.PATH,
    f"File for the predictions, which ends with {' or '.join(SUFFIXES)}.",
    required=True,
)
@click.option("--all", "every_class", is_flag=True, help="Write the probability of every class.")
@options.raw
@options.force
@options.data_dir
@options.own_graph
def predict(
    model: Path, source: str, out: Path, every_class: bool, raw: bool, force: bool, **place: Any
) -> None:
    r"""Predict the classes of all nodes or graphs, or their numbers, with a MODEL that
    'meanmax train' has saved.

    Nothing in the model file is executed. The table has a row for each node or graph: its id, the
    name of its class and the probability; for several labels 0 or 1 and the probability of each;
    for a regression target the prediction. If there are labels, the score on them is printed.
    Columns are encoded and missing values are filled as in training; --one-hot and --impute are for
    models that were saved without that.
    """
    from meanmax.scale import is_graph_folder, open_folder, predict_folder
    from meanmax.scale.inference import without_graph
    from meanmax.train import load_model
    from meanmax.train.regressor import Regressor

    options.check_output(out, overwrite=force, suffixes=SUFFIXES)
    if out.suffix.lower() != ".csv":
        options.refuse(("raw",), "on a file that is not csv")
    with options.clear_errors():
        with options.clear_errors(ValueError):
            loaded = load_model(model)
        if "encoding" in loaded.about_:
            options.refuse(("one_hot", "impute"), "on a model that encodes columns as in training")
        if is_graph_folder(source):
            options.refuse(options.OWN_GRAPH, "on a graph folder")
        if isinstance(loaded, Regressor) and every_class:
            raise click.UsageError(f"--all writes classes, but {model} predicts numbers")
        try:
            if is_graph_folder(source):
                if loaded.level == "graph":
                    raise ValueError("graphs of a graph folder are one: name a collection")
                folder = open_folder(source)
                if isinstance(loaded, Regressor):
                    raise ValueError("numbers are not predicted in graph folders: name the data")
                dataset, known = without_graph(folder), folder.manifest.fingerprint
                found = predict_folder(loaded, folder, scratch=out.parent)
            else:
                dataset, known = _load_for(loaded, source, place), None
                graph = dataset.graph()
                if isinstance(loaded, Regressor):
                    found = loaded.predict(graph, dataset.x)
                else:
                    found = loaded.predict_proba(graph, dataset.x)
        except DataError:
            raise
        except ValueError as error:
            raise click.ClickException(f"{model} does not fit '{source}': {error}") from error
        if isinstance(loaded, Regressor):
            columns = {"id": _ids(dataset), "prediction": found}
        else:
            columns = prediction_columns(loaded, dataset, found, every_class=every_class)
        write_predictions(out, columns, raw=raw)
    click.echo(f"{count(dataset.num_items, dataset.level)} in {out}")
    for line in _score_lines(loaded, dataset, found, known):
        click.echo(line)
    if loaded.about_.get("directed") and not place["directed"]:
        click.echo("note: the model was trained with --directed", err=True)


def _load_for(model: Model, source: str, place: dict[str, Any]) -> Dataset:
    r"""The data with features as in training: the same categories and imputed values. Raises a
    :class:`ValueError` if columns have other names.
    """
    about = model.about_
    encoding = dict(about.get("encoding", {}))
    if Path(source).suffix.lower() in ARRAYS:
        encoding.pop("one_hot", None)
    dataset = load_dataset(source, **{**place, **encoding})
    if dataset.level != model.level:
        raise ValueError(
            f"it predicts {model.level}s, and these data have {dataset.level}s to predict"
        )
    ours, theirs = about.get("feature_names", []), list(dataset.feature_names)
    if ours and theirs and ours != theirs:
        missing = [name for name in ours if name not in theirs]
        added = [name for name in theirs if name not in ours]
        found = [
            f"{word} {', '.join(map(repr, names[:5]))}{', …' if len(names) > 5 else ''}"
            for word, names in (("lacks", missing), ("adds", added))
            if names
        ]
        raise ValueError(
            f"its feature columns differ from those of the training: it "
            f"{' and '.join(found) or 'has them in another order'}"
        )
    return dataset


def prediction_columns(
    classifier: Classifier, dataset: Dataset, chance: np.ndarray, *, every_class: bool
) -> dict[str, np.ndarray]:
    r"""The columns of a table with a row for each node, from the probabilities :obj:`chance`.

    The columns are :obj:`id`, the user's identifier or the node's number; :obj:`label`, the name of
    the most probable class; and its :obj:`probability`; with :obj:`every_class`, also
    :obj:`probability_NAME` of each class. If nodes have several labels, there are
    :obj:`label_NAME`, 0 or 1, and :obj:`probability_NAME` for each.
    """
    columns = {"id": _ids(dataset)}
    if not classifier.multilabel_:
        columns["label"] = np.array(classifier.class_names_)[chance.argmax(axis=1)]
        columns["probability"] = chance.max(axis=1)
    for name, own in zip(classifier.class_names_, chance.T, strict=True):
        if classifier.multilabel_:
            columns[f"label_{name}"] = (own > 0.5).astype(np.int8)
        if classifier.multilabel_ or every_class:
            columns[f"probability_{name}"] = own
    return columns


def _ids(dataset: Dataset) -> np.ndarray:
    ids = np.arange(dataset.num_items) if dataset.item_ids is None else dataset.item_ids
    return np.asarray(ids)


def write_predictions(path: Path, columns: dict[str, np.ndarray], *, raw: bool = False) -> None:
    r"""Writes columns by name, completely or not at all, to a file that ends with one of
    :obj:`SUFFIXES`. Numbers have six digits in csv; in parquet probabilities are float32, and
    predicted numbers float64. Unless :obj:`raw`, texts in csv are escaped; see
    :func:`meanmax.data.files.escaped`.
    """
    from meanmax.data.files import atomic_write, escaped

    with atomic_write(path) as file:
        if path.suffix.lower() == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet

            lists = {k: v if v.dtype.kind in "fi" else v.tolist() for k, v in columns.items()}
            pyarrow.parquet.write_table(pa.table(lists), file)
            return
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)

        def shown(cell: Any) -> Any:
            if isinstance(cell, str):
                return cell if raw else escaped(cell)
            return f"{cell:.6g}" if isinstance(cell, float) else cell

        for row in zip(*(column.tolist() for column in columns.values()), strict=True):
            writer.writerow(map(shown, row))
        text.detach()  # atomic_write closes it


def _score_lines(model: Model, dataset: Dataset, found: np.ndarray, known: str | None) -> list[str]:
    r"""The score on labelled nodes, if there are any, and a remark on it."""
    from meanmax.data import fingerprint
    from meanmax.train.regressor import Regressor

    labelled = int(dataset.labelled.sum())
    if labelled == 0:
        return []
    try:
        if isinstance(model, Regressor):
            score = _score_of_numbers(model, dataset, found)
        else:
            score = _score_of_classes(model, dataset, found)
    except ValueError as error:
        return [f"no score: {error}"]
    caveat = _caveat(model, known or fingerprint(dataset))
    return [f"{score} on {count(labelled, f'labelled {dataset.level}')} ({caveat})"]


def _score_of_numbers(model: Regressor, dataset: Dataset, found: np.ndarray) -> str:
    r"""The metric and its value; raises a :class:`ValueError` if the data have no numbers."""
    from meanmax.train.metrics import compute

    if dataset.task != "regression":
        raise ValueError(
            "the model predicts numbers, but these data have classes or labels; if they are whole "
            "numbers, give --task regression"
        )
    own = dataset.labelled.numpy()
    score = compute(model.metric_, found[own], dataset.y.numpy()[own], "regression")
    return f"{METRICS[model.metric_].label} {score_text(score, percent=False)}"


def _score_of_classes(classifier: Classifier, dataset: Dataset, chance: np.ndarray) -> str:
    r"""The metric and its value; raises a :class:`ValueError` if the data have other labels."""
    from meanmax.train.inputs import class_names_of
    from meanmax.train.metrics import compute

    labelled = dataset.labelled
    ours, theirs = classifier.class_names_, class_names_of(dataset.class_names, dataset.y.dim())
    if set(ours).isdisjoint(theirs) or (classifier.multilabel_ and set(ours) != set(theirs)):
        raise ValueError("the labels of these data are not those of the model")
    if classifier.multilabel_ != (dataset.task == "multilabel" and dataset.num_classes > 1):
        raise ValueError(
            f"the model and these data differ in how many labels a {dataset.level} has"
        )
    metric, own = classifier.metric_, chance[labelled.numpy()]
    if classifier.multilabel_:
        order = [theirs.index(name) for name in ours]
        true = dataset.y[labelled][:, order].numpy()
        score = compute(metric, own - 0.5, true, "multilabel")
    else:
        named = np.array(theirs)[dataset.y.reshape(-1)[labelled].long().numpy()]
        if metric == "accuracy":  # also of classes that were not trained on
            score = float(np.mean(np.array(ours)[own.argmax(axis=1)] == named))
        elif unknown := sorted(set(named) - set(ours)):
            raise ValueError(f"the model does not know the class {unknown[0]!r} of these data")
        else:
            number = {name: place for place, name in enumerate(ours)}
            true = np.array([number[name] for name in named])
            with np.errstate(divide="ignore"):
                logits = np.maximum(np.log(own.astype(np.float64)), -1e4)
            score = compute(metric, logits, true, "multiclass")
    if math.isnan(score):
        raise ValueError(f"{METRICS[metric].label} is not defined for these labels")
    return f"{METRICS[metric].label} {score_text(100 * score, percent=True)}"


def _caveat(model: Model, found: str) -> str:
    known = model.about_.get("spec", {}).get("data_hash")
    if known is None:
        return f"which may include training {model.level}s"
    if known == found[: len(known)]:
        return f"training {model.level}s included: test {model.level}s show how well it generalizes"
    return "not the data that it was trained on, unless they have changed"
