r"""One run: from its task to its row and artefact, also if the model fails."""

from __future__ import annotations

import math
import time
import traceback
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix
from torch import Tensor

from meanmax.data import Dataset, Split
from meanmax.graph import Graph
from meanmax.names import METRICS, REFERENCES
from meanmax.nn import Trainable
from meanmax.study.references import run_reference
from meanmax.study.runs import machine
from meanmax.study.runs.plan import Task
from meanmax.study.runs.prepared_data import load_prepared
from meanmax.study.runs.row import Artefact, Result, Row, RunSpec, Status
from meanmax.study.settings.settings import level_of
from meanmax.train import (
    Checkpoint,
    GraphClassifier,
    GraphRegressor,
    History,
    LabeledNodes,
    NodeClassifier,
    NodeRegressor,
    Sample,
    Settings,
    TrainingError,
)
from meanmax.train.fit import GraphData, fit
from meanmax.train.loading import Model
from meanmax.train.loop import OnEpoch
from meanmax.train.metrics import compute, evaluate
from meanmax.train.problem import Objective, joined

PARTS = {"train": "training", "val": "validation", "test": "test", "all": "labelled"}


def execute(task: Task, on_epoch: OnEpoch | None = None) -> Result:
    r"""Trains and scores a model.

    Any error on the way (divergence, memory, a setting that does not fit) becomes a row with that
    error, so one failed run does not stop the others.
    """
    try:
        with machine.num_threads(task.threads):
            return _result(task, on_epoch, alone=task.alone and machine.was_idle(task.threads))
    except TrainingError as error:
        return Result(failed_row(task, "diverged", str(error)), {})
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        return Result(failed_row(task, "failed", f"{type(error).__name__}: {error} ({where})"), {})
    finally:
        machine.run_ended()


def failed_row(task: Task, status: Status, error: str) -> Row:
    r"""The row of a run that failed."""
    return Row(**_facts(task), status=status, error=error)


def _result(task: Task, on_epoch: OnEpoch | None, *, alone: bool) -> Result:
    spec = task.spec
    dataset, graph = load_prepared(task.data, spec)
    if spec.backbone in REFERENCES:
        return Result(_reference_row(task, dataset, graph), {})
    settings = Settings.from_dict(spec.backbone, spec.aggr, spec.settings)
    data = GraphData.from_dataset(dataset, task.split, settings, graph)
    model, history = fit(
        settings, data, seed=spec.seed, on_epoch=on_epoch, checkpoint=_checkpoint(task)
    )
    artefact: Artefact = {}
    if task.brief:
        metric, best = data.problem.samples[0].nodes.metric, history.best_epoch
        score = stored(metric, history.val_score[best])
        metrics = {"val_score": score, "val_loss": history.val_loss[best]}
    else:
        parts = scored_samples(data, dataset, task.split)
        metrics, artefact = _evaluated(model, parts, history, spec)
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
        alone=alone and machine.is_idle(task.threads),
    )
    return Result(row, artefact)


def _checkpoint(task: Task) -> Checkpoint | None:
    r"""The checkpoint of a run: the state in which a search left the same run with fewer epochs, if
    there is one, else that of the store, which removes it when the row is there.
    """
    if task.trained is not None:
        whole = replace(task.spec, settings={**task.spec.settings, "epochs": None}).key
        path = Path(task.trained) / f"{whole}.pt"
        if task.brief or path.exists():
            keep, largest = task.brief, task.largest
            return Checkpoint(path, whole, spare=True, keep=keep, largest=largest)
    if task.brief or task.checkpoints is None:
        return None
    return Checkpoint(Path(task.checkpoints) / f"{task.spec.key}.pt", task.spec.key, spare=True)


def _reference_row(task: Task, dataset: Dataset, graph: Graph) -> Row:
    r"""The row of a reference, with what it chose on validation nodes among its metrics."""
    settings, split = Settings.from_dict("gcn", "none", task.spec.settings), task.split
    targets = {
        part: LabeledNodes(index, dataset.y[index], objective=Objective(settings.metric))
        for part, index in (("val", split.val), ("test", split.test))
    }
    sign = 1.0 if METRICS[targets["val"].metric].higher_is_better else -1.0
    start = time.perf_counter()
    found = run_reference(
        task.spec.backbone,
        dataset,
        split,
        lambda scores, y: sign * compute(targets["val"].metric, scores, y, dataset.task),
        graph=graph,
    )
    seconds = time.perf_counter() - start
    metrics = dict(found.chosen)
    for part, nodes in targets.items():
        every = evaluate(found.scores[nodes.index], nodes.target, dataset.task)
        known = {name: stored(name, v) for name, v in every.items() if not math.isnan(v)}
        metrics |= {f"{part}_{name}": value for name, value in known.items()}
        if nodes.metric in known:
            metrics[f"{part}_score"] = known[nodes.metric]
    return Row(**_facts(task), status="ok", metrics=metrics, seconds=round(seconds, 3))


def scored_samples(data: GraphData, dataset: Dataset, split: Split) -> dict[str, Sample]:
    r"""The samples that a trained model is scored on: :obj:`"train"`, :obj:`"val"`, :obj:`"test"`,
    and for one graph :obj:`"all"`, every labelled node. For a collection, all are parts of the
    whole, which is computed once.
    """
    if data.level == "graph":
        every = dataset.labelled.nonzero().view(-1)
        index = {"train": split.train, "val": split.val, "test": split.test, "all": every}
        nodes = {
            part: LabeledNodes(own, dataset.y[own], objective=data.objective)
            for part, own in index.items()
            if own.numel()
        }
        return {part: Sample(data.x, data.whole, own) for part, own in nodes.items()}
    problem = data.problem
    parts = {"train": joined(problem.samples)}
    if problem.val is not None:
        parts["val"] = problem.val
    parts["test"] = data.sample(LabeledNodes(split.test, dataset.y[split.test]))
    if not data.inductive:
        every = dataset.labelled.nonzero().view(-1)
        parts["all"] = data.sample(LabeledNodes(every, dataset.y[every]))
    return parts


@torch.no_grad()
def _evaluated(
    model: Trainable, parts: dict[str, Sample], history: History, spec: RunSpec
) -> tuple[dict[str, float], Artefact]:
    r"""Every metric of the selected weights, and the artefact."""
    model.eval()
    metrics: dict[str, float] = {}
    outputs: dict[int, Tensor] = {}
    for name, sample in parts.items():
        if id(sample.graph) not in outputs:
            outputs[id(sample.graph)] = sample.output(model)
        out = outputs[id(sample.graph)]
        nodes = sample.nodes
        nodes.check_metric(PARTS[name], level_of(spec.settings))
        metrics[f"{name}_score"] = stored(nodes.metric, nodes.score(out))
        if name in ("val", "test"):
            for fitting, score in nodes.metrics(out).items():
                if not math.isnan(score):
                    metrics[f"{name}_{fitting}"] = stored(fitting, score)
        if name in ("train", "val"):
            metrics[f"{name}_loss"] = float(nodes.loss(out))
    shown = parts["test"]
    if shown.nodes.task == "multiclass":  # what one answer for all nodes scores
        most = int(torch.bincount(shown.nodes.target).max())
        metrics["test_majority"] = 100 * most / len(shown.nodes.target)
    extra = {} if shown.structure is None else {"structure": shown.structure}
    embedding = model.embed(shown.x, shown.graph, **extra)
    if "all" in parts and shown.nodes.task == "multiclass":
        every = parts["all"].nodes
        hidden = embedding[every.index].numpy()
        metrics |= cluster_scores(hidden, every.target.numpy(), seed=spec.seed)
    out = outputs[id(shown.graph)]
    artefact: Artefact = {
        "embedding": embedding.numpy().astype(np.float16),
        "prediction": _predicted(shown.nodes, out),
        "train_loss": np.array(history.train_loss, np.float32),
        "val_loss": np.array(history.val_loss, np.float32),
        "val_score": np.array(history.val_score, np.float32),
    }
    for name, values in history.learned.items():
        artefact[f"learned/{name}"] = np.array(values, np.float32)
    for name, value in model.maxness(shown.x, shown.graph, **extra).items():
        artefact[f"maxness/{name}"] = value.reshape(-1).numpy().astype(np.float32)
    return metrics, artefact


def stored(metric: str, value: float) -> float:
    r"""The value of a metric as rows store it: in percent for classes and labels.

    Example:
        >>> stored("roc_auc", 0.75), stored("mae", 0.75)
        (75.0, 0.75)
    """
    return 100 * value if METRICS[metric].percent else value


def _predicted(nodes: LabeledNodes, out: Tensor) -> np.ndarray:
    r"""The class, the labels or the number that a model predicts for every node."""
    if nodes.task == "multiclass":
        return out.argmax(dim=1).numpy().astype(np.int16)
    if nodes.task == "multilabel":
        return (out > 0).numpy()
    every = replace(nodes, index=torch.arange(len(out)))
    return every.predictions(out).numpy().astype(np.float32)


def classifier_of(spec: RunSpec) -> NodeClassifier:
    r"""The classifier that learns the same as :func:`execute` from the data and split of a run."""
    settings = Settings.from_dict(spec.backbone, spec.aggr, spec.settings)
    return NodeClassifier.from_settings(settings, seed=spec.seed)


def estimator_of(spec: RunSpec, dataset: Dataset) -> Model:
    r"""The same for any kind of labels: of nodes or graphs, classes or numbers."""
    settings = Settings.from_dict(spec.backbone, spec.aggr, spec.settings)
    kinds: dict[str, tuple[type[Model], type[Model]]] = {
        "node": (NodeClassifier, NodeRegressor),
        "graph": (GraphClassifier, GraphRegressor),
    }
    kind = kinds[dataset.level][dataset.task == "regression"]
    return kind.from_settings(settings, seed=spec.seed)


def cluster_scores(embedding: np.ndarray, classes: np.ndarray, seed: int = 0) -> dict[str, float]:
    r"""The agreement of k-means clusters with classes, in percent: the accuracy under the best
    assignment of clusters to classes, normalised mutual information, and the adjusted Rand index.

    There are as many clusters as classes; :obj:`embedding` is :obj:`[num_nodes, channels]`.
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


def _facts(task: Task) -> dict[str, Any]:
    return {
        **asdict(task.spec),
        "key": task.spec.key,
        "settings_name": task.settings_name,
        "threads": task.threads,
        "cpu": machine.cpu_model(),
        "versions": machine.versions(),
        "commit": machine.commit(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _mean(values: np.ndarray) -> float | None:
    finite = values[np.isfinite(values)]
    return round(float(finite.mean()), 6) if finite.size else None
