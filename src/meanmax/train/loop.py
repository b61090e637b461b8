r"""Training on one graph, or on several in batches, with early stopping on validation nodes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.utils import clip_grad_value_

from meanmax.aggr import LearnableAggregation
from meanmax.names import METRICS
from meanmax.nn import Trainable
from meanmax.ops.scaling import NotFiniteError
from meanmax.train.checkpoint import Checkpoint, CheckpointError
from meanmax.train.problem import Sample, TrainingProblem, restrict_to_field, score_of
from meanmax.train.schedule import EarlyStopping, History, Schedule


class TrainingError(RuntimeError):
    r"""Training diverged."""


class Communicator(Protocol):
    r"""The processes that train one model together, each with its share of the nodes, or the only
    one. All make the same calls in the same order and see the same losses, so that they make the
    same decisions.
    """

    @property
    def rank(self) -> int:
        r"""The number of this process."""

    def total(self, values: Sequence[float]) -> list[float]:
        r"""The sums over all processes."""

    def share_gradients(self, parameters: Sequence[Parameter]) -> None:
        r"""Replaces every gradient by the sum over all processes."""

    def agree(self, decision: bool) -> bool:
        r"""The decision of the first process."""

    def write(self, checkpoint: Checkpoint, state: dict[str, Any]) -> None:
        r"""Writes one checkpoint for all processes, with the :obj:`"generator"` of each."""

    def read(self, checkpoint: Checkpoint) -> dict[str, Any] | None:
        r"""Reads the checkpoint, with this process's own :obj:`"generator"`."""


class _SingleProcess:
    rank = 0

    def total(self, values: Sequence[float]) -> list[float]:
        return list(values)

    def share_gradients(self, parameters: Sequence[Parameter]) -> None:
        pass

    def agree(self, decision: bool) -> bool:
        return decision

    def write(self, checkpoint: Checkpoint, state: dict[str, Any]) -> None:
        checkpoint.write(state)

    def read(self, checkpoint: Checkpoint) -> dict[str, Any] | None:
        return checkpoint.read()


SINGLE_PROCESS: Communicator = _SingleProcess()


class Steps:
    r"""The optimizers of a model, and the steps of an epoch on a batch."""

    def __init__(
        self, model: Trainable, schedule: Schedule, communicator: Communicator = SINGLE_PROCESS
    ) -> None:
        self.model, self.schedule, self.communicator = model, schedule, communicator
        self.weights = model.other_parameters()
        self.aggregators = [p for p in model.aggregator_parameters() if p.requires_grad]
        modules = model.modules() if schedule.aggregator_decay and communicator.rank == 0 else ()
        self.pulled = [one for one in modules if isinstance(one, LearnableAggregation)]
        weights: dict[str, Any] = {"params": self.weights, "weight_decay": schedule.weight_decay}
        groups, lr = [weights], schedule.aggregator_lr
        self.side: torch.optim.Optimizer | None = None
        if self.aggregators and schedule.schedule == "joint":
            groups.append({"params": self.aggregators, "lr": lr})
        elif self.aggregators and schedule.aggregator_optimizer == "adam":
            self.side = torch.optim.Adam(self.aggregators, lr=lr, fused=True)
        elif self.aggregators:
            momentum = schedule.aggregator_momentum
            self.side = torch.optim.SGD(self.aggregators, lr=lr, momentum=momentum)
        self.main = torch.optim.Adam(groups, lr=schedule.lr, fused=True)
        self.optimizers = [self.main] if self.side is None else [self.main, self.side]

    def __call__(self, batch: Sample, val: Sample | None) -> float:
        r"""Makes all steps of an epoch on one batch, and returns the training loss at the last.
        Validation nodes are for aggregators that minimize their loss.
        """
        schedule = self.schedule
        if self.side is not None:
            sample = val if schedule.aggregator_loss == "val" and val is not None else batch
            for _ in range(schedule.aggregator_steps):
                with _frozen(self.weights):
                    self._step(sample, self.side)
        value = math.nan
        for _ in range(schedule.weight_steps):
            with _frozen(self.aggregators if self.side is not None else ()):
                value = self._step(batch, self.main)
        return value

    def _step(self, sample: Sample, optimizer: torch.optim.Optimizer) -> float:
        if not self.model.training:  # a walk over all modules
            self.model.train()
        optimizer.zero_grad()
        loss = sample.nodes.loss(output(self.model, sample))
        (value,) = self.communicator.total([float(loss.detach())])
        _check_finite("training", value)
        extra = self.model.extra_loss(sample.graph) if optimizer is self.main else None
        if not loss.requires_grad:
            return value
        for one in self.pulled:
            linear = 0.0 if math.isinf(one.domain.lower) else one.domain.lower  # if signed
            far = one.value - linear
            loss = loss + self.schedule.aggregator_decay / 2 * far.square().sum()
        (loss if extra is None else loss + extra).backward()  # type: ignore[no-untyped-call]
        moved = [p for group in optimizer.param_groups for p in group["params"]]
        self.communicator.share_gradients(moved)
        clip = self.schedule.aggregator_clip
        moves_aggregators = self.side is None or optimizer is self.side
        # A baseline has nothing to clip, and PyTorch refuses an empty list.
        if clip is not None and moves_aggregators and self.aggregators:
            clip_grad_value_(self.aggregators, clip)
        optimizer.step()
        return value


def _check_finite(kind: str, loss: float) -> None:
    if not math.isfinite(loss):
        raise TrainingError(
            f"the {kind} loss became {loss}: lower the learning rate, or scale the features"
        )


def output(model: Trainable, sample: Sample) -> Tensor:
    r"""The model's output; raises a :class:`TrainingError` if it is no longer finite inside."""
    try:
        return sample.output(model)
    except ValueError as error:
        if "more than 1 value per channel" in str(error):
            raise TrainingError(
                "batch norm needs two nodes, or graphs, in every batch: use norm='layer', or more "
                "graphs in a batch (batch_graphs)"
            ) from error
        weights = all(bool(torch.isfinite(weight).all()) for weight in model.parameters())
        if weights and not isinstance(error, NotFiniteError):
            raise
        raise TrainingError(
            "weights or hidden features became infinite or NaN: lower the learning rate, or scale "
            "the features"
        ) from error


@contextmanager
def _frozen(parameters: Sequence[Parameter]) -> Iterator[None]:
    r"""Freezes some parameters: no gradients are computed for them."""
    frozen = [parameter for parameter in parameters if parameter.requires_grad]
    for parameter in frozen:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(True)


OnEpoch = Callable[[int, History], None]


def train(
    model: Trainable,
    problem: TrainingProblem,
    schedule: Schedule,
    on_epoch: OnEpoch | None = None,
    checkpoint: Checkpoint | None = None,
    communicator: Communicator = SINGLE_PROCESS,
) -> History:
    r"""Trains a model in place. It ends with the weights of the epoch that is best on validation
    nodes, or of the last epoch if there are none.

    With equal seeds of PyTorch's generator, threads and machine, results are equal bit for bit,
    also if training is interrupted and resumed.

    Args:
        model (Trainable): The model.
        problem (TrainingProblem): Training and validation nodes.
        schedule (Schedule): The schedule.
        on_epoch (callable, optional): Called after each epoch with its number and the history.
        checkpoint (Checkpoint, optional): The file that keeps the state; training resumes from it
            if it exists.
        communicator (Communicator, optional): The processes that train together.
            (default: this one alone)
    """
    run = _Run(model, problem, schedule, communicator)
    if checkpoint is not None:
        run.restore(checkpoint)
    start = time.perf_counter() - run.history.seconds
    while run.history.epochs < schedule.epochs and not run.early_stopping.exhausted:
        run.epoch()
        run.history.seconds = time.perf_counter() - start
        if on_epoch is not None:
            on_epoch(run.history.epochs - 1, run.history)
        if checkpoint is not None and communicator.agree(checkpoint.is_due()):
            communicator.write(checkpoint, run.state())
    if checkpoint is not None and checkpoint.keep and run.size <= checkpoint.largest:
        communicator.write(checkpoint, run.state())
    if run.best is not None:
        model.load_state_dict(run.best)
    model.eval()
    return run.history


class _Run:
    r"""A training whose state can be saved and restored."""

    def __init__(
        self,
        model: Trainable,
        problem: TrainingProblem,
        schedule: Schedule,
        communicator: Communicator,
    ) -> None:
        if schedule.aggregator_loss == "val" and problem.val is None:
            raise ValueError(f"aggregator_loss='val' needs validation {problem.level}s (got none)")
        if problem.val is not None:
            problem.val.nodes.check_metric("validation", problem.level)
        self.model, self.problem = model, restrict_to_field(problem, model)
        self.communicator = communicator
        self.steps = Steps(model, schedule, communicator)
        self.early_stopping = EarlyStopping(schedule.select, schedule.patience)
        self.history = History()
        self.best: dict[str, torch.Tensor] | None = None

    def epoch(self) -> None:
        history, val = self.history, self.problem.val
        losses = [self.steps(batch, val) for batch in self.problem.batches()]
        history.train_loss.append(sum(losses) / len(losses))
        for name, value in self.model.learned().items():
            history.learned.setdefault(name, []).append(value.reshape(-1).tolist())
        if val is None:
            history.best_epoch = history.epochs - 1
            return
        loss, score = evaluate(self.model, val, self.communicator)
        _check_finite("validation", loss)
        history.val_loss.append(loss)
        history.val_score.append(score)
        higher_is_better = METRICS[val.nodes.metric].higher_is_better
        if self.early_stopping.keeps(loss, score if higher_is_better else -score):
            history.best_epoch = history.epochs - 1
            state = self.model.state_dict()
            self.best = {name: value.detach().clone() for name, value in state.items()}

    @property
    def size(self) -> int:
        r"""About the bytes of the state: weights, the best ones, and Adam's two means of each."""
        return 4 * sum(int(tensor.nbytes) for tensor in self.model.state_dict().values())

    def state(self) -> dict[str, Any]:
        r"""All that training needs to continue."""
        return {
            "model": self.model.state_dict(),
            "steps": [optimizer.state_dict() for optimizer in self.steps.optimizers],
            "selection": asdict(self.early_stopping),
            "history": asdict(self.history),
            "best": self.best,
            "generator": torch.get_rng_state(),
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        state = self.communicator.read(checkpoint)
        if state is None:
            return
        try:
            self.model.load_state_dict(state["model"])
            for optimizer, own in zip(self.steps.optimizers, state["steps"], strict=True):
                optimizer.load_state_dict(own)
            self.early_stopping = EarlyStopping(**state["selection"])
            self.history = History(**state["history"])
            self.best = state["best"]
            if self.best is not None and not _same_shapes(self.best, self.model.state_dict()):
                raise ValueError("its best weights are those of another model")
            torch.set_rng_state(state["generator"])
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"checkpoint {checkpoint.path} does not fit this model ({error}): delete or move "
                f"it to start over"
            ) from error


def _same_shapes(first: dict[str, Any], second: dict[str, Any]) -> bool:
    r"""Whether two states have the same names, with values of the same shapes."""
    return first.keys() == second.keys() and all(
        isinstance(value, Tensor) and value.shape == second[name].shape
        for name, value in first.items()
        if isinstance(second[name], Tensor)
    )


@torch.no_grad()
def evaluate(
    model: Trainable, sample: Sample, communicator: Communicator = SINGLE_PROCESS
) -> tuple[float, float]:
    r"""The loss and the score on the nodes of a sample, without dropout. Of nodes that several
    processes share, only the accuracy and micro-F1 are those of all nodes.
    """
    model.eval()
    out = output(model, sample)
    nodes = sample.nodes
    if not nodes.is_counted:
        (loss,) = communicator.total([float(nodes.loss(out))])
        return loss, nodes.score(out)
    found = float(nodes.loss(out)), *nodes.hits(out)
    loss, hits, out_of = communicator.total(found)
    return loss, score_of(hits, out_of)
