r"""One run: from its specification to its row and artefact, whatever the model does."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix
from torch import Tensor

from meanmax.data import Dataset, Split, fingerprint, load, make_split
from meanmax.graph import Graph
from meanmax.nn import Trainable
from meanmax.study.runs.machine import commit, cpu_model, is_idle, run_ended, versions, was_idle
from meanmax.study.runs.plan import DataRef, Task
from meanmax.study.runs.row import Artefact, Result, Row, RunSpec, Status, split_hash
from meanmax.study.settings.settings import AGGREGATOR, KINDS, MODEL, STEPS_ON_AGGREGATORS, TRAINING
from meanmax.train import (
    Checkpoint,
    CheckpointError,
    History,
    LabeledNodes,
    NodeClassifier,
    Sample,
    Schedule,
    TrainingError,
    TrainingProblem,
    train,
)
from meanmax.train.classifier import model_of, schedule_of
from meanmax.train.inputs import names_told_apart
from meanmax.train.loop import OnEpoch
from meanmax.train.problem import joined, make_samples


@dataclass(frozen=True, eq=False)
class Prepared:
    r"""What a run needs of the data.

    Args:
        problem (TrainingProblem): Training and validation nodes; no other label is in it.
        parts (dict): A sample for each of :obj:`"train"`, :obj:`"val"` and :obj:`"test"`; for one
            graph also :obj:`"all"`, every node that has a label.
        inductive (bool): Whether validation nodes are in graphs that training does not see.
    """

    problem: TrainingProblem
    parts: dict[str, Sample]
    inductive: bool


def prepare(
    dataset: Dataset,
    split: Split,
    *,
    graph: Graph | None = None,
    scale: bool = False,
    batch_graphs: int = 2,
    structure_channels: int | None = None,
) -> Prepared:
    r"""Makes the samples of a run, arranged as a :class:`~meanmax.NodeClassifier` would.

    Args:
        dataset (Dataset): The data.
        split (Split): Which nodes train, validate and test.
        graph (Graph, optional): :obj:`dataset.graph()`, if it is at hand. (default: :obj:`None`)
        scale (bool, optional): Whether features are brought to a common scale: that of training
            nodes if they are in graphs of their own, else of all nodes. (default: :obj:`False`)
        batch_graphs (int, optional): Graphs per batch. (default: :obj:`2`)
        structure_channels (int, optional): Channels of CAT's embeddings of several graphs;
            :obj:`None` for other backbones. (default: :obj:`None`)
    """
    arranged = make_samples(
        dataset.x,
        dataset.graph() if graph is None else graph,
        _nodes(dataset, split.train),
        _nodes(dataset, split.val) if split.val.numel() else None,
        scale=scale,
        batch_graphs=batch_graphs,
        structure_channels=structure_channels,
    )
    problem = arranged.problem
    parts = {"train": joined(problem.samples)}
    if problem.val is not None:
        parts["val"] = problem.val
    parts["test"] = arranged.sample(_nodes(dataset, split.test))
    if not arranged.inductive:
        every = dataset.labelled.nonzero().view(-1)
        parts["all"] = arranged.sample(_nodes(dataset, every))
    return Prepared(problem, parts, arranged.inductive)


def _nodes(dataset: Dataset, index: Tensor) -> LabeledNodes:
    return LabeledNodes(index, dataset.y[index])


class SpareCheckpoint(Checkpoint):
    r"""A checkpoint that a run can do without: it goes on if the disk is full."""

    def write(self, state: dict[str, Any]) -> None:
        r"""Writes the state if that is possible."""
        try:
            super().write(state)
        except (OSError, RuntimeError):  # torch has its own error for a file that does not grow
            self._last = time.monotonic()


def train_or_resume(
    new_model: Callable[[], Trainable],
    problem: TrainingProblem,
    schedule: Schedule,
    checkpoint: Checkpoint,
    on_epoch: OnEpoch | None = None,
) -> tuple[Trainable, History]:
    r"""Trains a new model, from its checkpoint on if that is there.

    A checkpoint that is damaged or does not fit is set aside, with the ending :obj:`.damaged`, and
    training starts over.

    Args:
        new_model (callable): Makes the model, from the same seed each time.
        problem (TrainingProblem): What to learn from and to validate on.
        schedule (Schedule): How long and how fast.
        checkpoint (Checkpoint): Where the state is kept.
        on_epoch (callable, optional): Called after each epoch.
    """
    model = new_model()
    try:
        return model, train(model, problem, schedule, on_epoch, checkpoint)
    except CheckpointError:
        _set_aside(checkpoint.path)
    model = new_model()
    return model, train(model, problem, schedule, on_epoch, checkpoint)


def _set_aside(path: Path) -> None:
    with suppress(FileNotFoundError):  # a worker whose parent was killed may be at it still
        path.replace(path.with_suffix(".damaged"))


_OWN = set(NodeClassifier().get_params()) & set(KINDS)


def classifier_of(
    backbone: str, aggr: str, settings: Mapping[str, Any], *, seed: int = 0
) -> NodeClassifier:
    r"""The classifier that learns what :func:`~meanmax.study.runs.execute.execute` would learn
    from the same data, split and seed.

    Example:
        >>> from meanmax.study.settings.settings import settings_for
        >>> settings = settings_for("tuned", "gcn", "lp", "wine")
        >>> classifier_of("gcn", "lp", settings).model_options
        {'aggr_options': {'learn': True, 'per': 'layer', 'reparam': 'projected',
        'shift': 'consistent', 'start': 1.05}}

    Args:
        backbone (str): The backbone.
        aggr (str): The aggregator.
        settings (mapping): What :func:`~meanmax.study.settings.settings.settings_for` gives.
        seed (int, optional): Of everything that is drawn at random. (default: :obj:`0`)
    """
    params = _chosen(settings, _OWN) | {"scale": settings.get("scale", False)}
    model = _chosen(settings, set(MODEL) - _OWN)
    if options := _chosen(settings, set(AGGREGATOR)):
        model["aggr_options"] = options
    schedule = _chosen(settings, {*TRAINING, *STEPS_ON_AGGREGATORS} - _OWN)
    return NodeClassifier(
        backbone,
        aggr,
        **params,
        model_options=model or None,
        schedule_options=schedule or None,
        seed=seed,
    )


def params_of(spec: RunSpec) -> dict[str, Any]:
    r"""The parameters of the classifier of a run, from which its model and schedule are made.

    Args:
        spec (RunSpec): The run.
    """
    classifier = classifier_of(spec.backbone, spec.aggr, spec.settings, seed=spec.seed)
    params: dict[str, Any] = classifier.get_params()
    return params


def class_names_of(dataset: Dataset) -> tuple[str, ...]:
    r"""The names of what a classifier tells apart. A single label of 0 and 1 is two classes.

    Args:
        dataset (Dataset): The data.
    """
    return names_told_apart(dataset.class_names, dataset.y.dim())


def _chosen(settings: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name in names}


def cluster_scores(embedding: np.ndarray, classes: np.ndarray, seed: int = 0) -> dict[str, float]:
    r"""The agreement of k-means clusters with classes, in percent: the accuracy under the best
    assignment of clusters to classes, normalised mutual information, and the adjusted Rand index.

    Args:
        embedding (ndarray): :obj:`[num_nodes, channels]`.
        classes (ndarray): :obj:`[num_nodes]`; there are as many clusters as classes.
        seed (int, optional): Of the first centres, of which ten are tried. (default: :obj:`0`)
    """
    count = len(np.unique(classes))
    found = KMeans(count, n_init=10, random_state=seed).fit_predict(embedding)
    return {
        "kmeans_accuracy": 100 * matched_accuracy(found, classes),
        "kmeans_nmi": 100 * float(normalized_mutual_info_score(classes, found)),
        "kmeans_ari": 100 * float(adjusted_rand_score(classes, found)),
    }


def matched_accuracy(found: np.ndarray, classes: np.ndarray) -> float:
    r"""The share of nodes whose cluster is assigned to their class, at best.

    Example:
        >>> matched_accuracy(np.array([1, 1, 0, 0]), np.array([0, 0, 1, 0]))
        0.75
    """
    counts = contingency_matrix(classes, found)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    return float(counts[rows, columns].sum() / counts.sum())


def execute(task: Task, on_epoch: OnEpoch | None = None) -> Result:
    r"""Trains and judges a model.

    Whatever goes wrong on the way (divergence, memory, a setting that does not fit) becomes a row
    with its error, so that one run cannot end a table.

    Args:
        task (Task): What to do.
        on_epoch (callable, optional): Called after each epoch.
    """
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(task.threads)
        return _result(task, on_epoch, alone=task.alone and was_idle(task.threads))
    except TrainingError as error:
        return Result(failed_row(task, "diverged", str(error)), {})
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        return Result(failed_row(task, "failed", f"{type(error).__name__}: {error} ({where})"), {})
    finally:
        torch.set_num_threads(before)
        run_ended()


def failed_row(task: Task, status: Status, error: str) -> Row:
    r"""The row of a run that did not end well."""
    return Row(**_facts(task), status=status, error=error)


def _result(task: Task, on_epoch: OnEpoch | None, *, alone: bool) -> Result:
    spec = task.spec
    dataset, graph, hashed = _loaded(task.data)
    if hashed != spec.data_hash:
        raise ValueError(f"'{spec.data}' is not what was planned with: the data changed meanwhile")
    split = make_split(dataset, task.scheme or spec.split, spec.split_seed)
    if split_hash(split) != spec.split_hash:
        raise ValueError(
            f"split {spec.split_seed} of '{spec.data}' is not the one that was planned: the data "
            f"or the split file changed meanwhile"
        )
    prepared = prepare(
        dataset,
        split,
        graph=graph,
        scale=spec.settings.get("scale", False),
        batch_graphs=spec.settings.get("batch_graphs", 2),
        structure_channels=dataset.num_classes if spec.backbone == "cat" else None,
    )
    params = params_of(spec)
    sizes = (dataset.num_features, dataset.num_classes)
    num_nodes = None if prepared.inductive else dataset.num_nodes
    first = prepared.problem.samples[0].graph

    def new_model() -> Trainable:
        torch.manual_seed(spec.seed)
        return model_of(params, *sizes, num_nodes=num_nodes, graph=first)

    with torch.random.fork_rng(devices=[]):
        model, history = _trained(new_model, schedule_of(params), prepared, task, on_epoch)
    metrics, artefact = _judged(model, prepared, history, spec)
    row = Row(
        **_facts(task),
        status="ok",
        metrics=metrics,
        learned={name: value.reshape(-1).tolist() for name, value in model.learned().items()},
        maxness={
            name.removeprefix("maxness/"): _mean(values)
            for name, values in artefact.items()
            if name.startswith("maxness/")
        },
        best_epoch=history.best_epoch,
        epochs=history.epochs,
        seconds=round(history.seconds, 3),
        alone=alone and is_idle(task.threads),
    )
    return Result(row, artefact)


def _trained(
    new_model: Callable[[], Trainable],
    schedule: Schedule,
    prepared: Prepared,
    task: Task,
    on_epoch: OnEpoch | None,
) -> tuple[Trainable, History]:
    if task.checkpoints is None:
        model = new_model()
        return model, train(model, prepared.problem, schedule, on_epoch)
    # The store removes it when the row is there.
    checkpoint = SpareCheckpoint(Path(task.checkpoints) / f"{task.spec.key}.pt", task.spec.key)
    return train_or_resume(new_model, prepared.problem, schedule, checkpoint, on_epoch)


@torch.no_grad()
def _judged(
    model: Trainable, prepared: Prepared, history: History, spec: RunSpec
) -> tuple[dict[str, float], Artefact]:
    r"""Every metric of the chosen weights, and the artefact."""
    model.eval()
    metrics: dict[str, float] = {}
    outputs: dict[int, torch.Tensor] = {}
    for name, sample in prepared.parts.items():
        if id(sample.graph) not in outputs:
            outputs[id(sample.graph)] = sample.output(model)
        out = outputs[id(sample.graph)]
        metrics[f"{name}_score"] = 100 * sample.nodes.score(out)
        if name in ("train", "val"):
            metrics[f"{name}_loss"] = float(sample.nodes.loss(out))
    shown = prepared.parts["test"]
    extra = {} if shown.structure is None else {"structure": shown.structure}
    embedding = model.embed(shown.x, shown.graph, **extra)
    if not prepared.inductive and shown.nodes.target.dim() == 1:
        every = prepared.parts["all"].nodes
        metrics |= cluster_scores(
            embedding[every.index].numpy(), every.target.numpy(), seed=spec.seed
        )
    out = outputs[id(shown.graph)]
    found = out.argmax(dim=1) if shown.nodes.target.dim() == 1 else (out > 0)
    artefact: Artefact = {
        "embedding": embedding.numpy().astype(np.float16),
        "prediction": found.numpy().astype(np.int16 if found.dim() == 1 else np.bool_),
        "train_loss": np.array(history.train_loss, np.float32),
        "val_loss": np.array(history.val_loss, np.float32),
        "val_score": np.array(history.val_score, np.float32),
    }
    for name, values in history.learned.items():
        artefact[f"learned/{name}"] = np.array(values, np.float32)
    for name, value in model.maxness(shown.x, shown.graph, **extra).items():
        artefact[f"maxness/{name}"] = value.reshape(-1).numpy().astype(np.float32)
    return metrics, artefact


@lru_cache(maxsize=2)
def _loaded(ref: DataRef) -> tuple[Dataset, Graph, str]:
    dataset = load(ref.source, data_dir=ref.data_dir, directed=ref.directed)
    return dataset, dataset.graph(), fingerprint(dataset)[:20]


def _facts(task: Task) -> dict[str, Any]:
    return {
        **asdict(task.spec),
        "key": task.spec.key,
        "settings_name": task.settings_name,
        "threads": task.threads,
        "cpu": cpu_model(),
        "versions": versions(),
        "commit": commit(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _mean(values: np.ndarray) -> float | None:
    finite = values[np.isfinite(values)]
    return round(float(finite.mean()), 6) if finite.size else None
