r"""One run: from its specification to its row and artefact, whatever the model does."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from meanmax.data import (Dataset, fingerprint, load, make_split)
from meanmax.study.runs.classifier_of import params_of
from meanmax.study.runs.clusters import cluster_scores
from meanmax.study.runs.machine import (commit, cpu_model, versions)
from meanmax.study.runs.prepared import (Prepared, prepare)
from meanmax.study.runs.quiet import (is_quiet, run_ended, was_quiet)
from meanmax.study.runs.resume import (SpareCheckpoint, train_or_resume)
from meanmax.study.runs.row import (Artefact, Result, Row, Status)
from meanmax.study.runs.run_spec import (RunSpec, split_hash)
from meanmax.graph import Graph
from meanmax.nn.models_init import Trainable
from meanmax.train import (History, Schedule, TrainingError, train)
from meanmax.train.classifier_model import (model_of, schedule_of)
from meanmax.train.loop import OnEpoch


@dataclass(frozen=True)
class DataRef:
    r"""Where a worker finds the data.

    Args:
        source (str): A name or a path.
        data_dir (str, optional): A folder to look in first.
        directed (bool): Whether the edges of one's own graph keep their direction.
    """

    source: str
    data_dir: str | None = None
    directed: bool = False


@dataclass(frozen=True)
class Task:
    r"""A run and how it is to be done.

    Args:
        spec (RunSpec): The run.
        data (DataRef): Its data.
        settings_name (str): Which settings file it was planned from.
        threads (int): How many threads it may use.
        alone (bool): Whether no other run is made at the same time.
        checkpoints (str, optional): The folder of checkpoints; :obj:`None` for none.
        scheme (str, optional): The scheme of the split with its whole path, if it is a file.
    """

    spec: RunSpec
    data: DataRef
    settings_name: str
    threads: int = 1
    alone: bool = False
    checkpoints: str | None = None
    scheme: str | None = None


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
        return _result(task, on_epoch, alone=task.alone and was_quiet(task.threads))
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
        alone=alone and is_quiet(task.threads),
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
