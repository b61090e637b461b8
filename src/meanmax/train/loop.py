r"""Training on one graph, or on several in batches, with early stopping on validation nodes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch

from meanmax.nn.models_init import Trainable
from meanmax.train.files import (Checkpoint, CheckpointError)
from meanmax.train.history import History
from meanmax.train.narrow import narrowed
from meanmax.train.nodes import score_of
from meanmax.train.problem import (Problem, Sample)
from meanmax.train.communicator import (ALONE, Ranks)
from meanmax.train.schedule import Schedule
from meanmax.train.selection import Selection
from meanmax.train.steps import (Steps, TrainingError, copied, output)

OnEpoch = Callable[[int, History], None]


def train(
    model: Trainable,
    problem: Problem,
    schedule: Schedule,
    on_epoch: OnEpoch | None = None,
    checkpoint: Checkpoint | None = None,
    ranks: Ranks = ALONE,
) -> History:
    r"""Trains a model in place and leaves it with the weights of its best epoch, chosen by
    validation nodes alone; the last one if there are none.

    With equal seeds of PyTorch's generator, threads and machine it repeats bit for bit, interrupted
    and resumed or not.

    Args:
        model (Trainable): The model.
        problem (Problem): What to learn from and to validate on.
        schedule (Schedule): How long and how fast.
        on_epoch (callable, optional): Called after each epoch with its number and the history.
        checkpoint (Checkpoint, optional): Where to keep the state, and to go on from if it is
            there.
        ranks (Ranks, optional): The processes that train together. (default: this one alone)
    """
    run = _Run(model, problem, schedule, ranks)
    if checkpoint is not None:
        run.restore(checkpoint)
    start = time.perf_counter() - run.history.seconds
    while run.goes_on:
        run.epoch()
        run.history.seconds = time.perf_counter() - start
        if on_epoch is not None:
            on_epoch(run.history.epochs - 1, run.history)
        if checkpoint is not None and ranks.agree(checkpoint.is_due()):
            ranks.write(checkpoint, run.state())
    if run.best is not None:
        model.load_state_dict(run.best)
    model.eval()
    return run.history


class _Run:
    r"""One training, which can be taken apart into a state and put together again."""

    def __init__(
        self, model: Trainable, problem: Problem, schedule: Schedule, ranks: Ranks
    ) -> None:
        if schedule.aggregator_loss == "val" and problem.val is None:
            raise ValueError("aggregator_loss='val' needs validation nodes (got none)")
        self.model, self.problem, self.schedule = model, narrowed(problem, model), schedule
        self.ranks = ranks
        self.steps = Steps(model, schedule, ranks)
        self.selection = Selection(schedule.select, schedule.patience)
        self.history = History()
        self.best: dict[str, torch.Tensor] | None = None

    @property
    def goes_on(self) -> bool:
        return self.history.epochs < self.schedule.epochs and not self.selection.exhausted

    def epoch(self) -> None:
        history, val = self.history, self.problem.val
        losses = [self.steps(batch, val) for batch in self.problem.batches()]
        history.train_loss.append(sum(losses) / len(losses))
        for name, value in self.model.learned().items():
            history.learned.setdefault(name, []).append(value.reshape(-1).tolist())
        if val is None:
            history.best_epoch = history.epochs - 1
            return
        loss, score = evaluate(self.model, val, self.ranks)
        if not math.isfinite(loss):
            raise TrainingError(
                f"the validation loss became {loss}: lower the learning rate, or scale the features"
            )
        history.val_loss.append(loss)
        history.val_score.append(score)
        if self.selection.keeps(loss, score):
            history.best_epoch = history.epochs - 1
            self.best = copied(self.model)

    def state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "steps": self.steps.state(),
            "selection": asdict(self.selection),
            "history": asdict(self.history),
            "best": self.best,
            "generator": torch.get_rng_state(),
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        state = self.ranks.read(checkpoint)
        if state is None:
            return
        try:
            self.model.load_state_dict(state["model"])
            self.steps.restore(state["steps"])
            self.selection = Selection(**state["selection"])
            self.history = History(**state["history"])
            self.best = state["best"]
            torch.set_rng_state(state["generator"])
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"checkpoint {checkpoint.path} does not fit this model ({error}): delete or move "
                f"it to start over"
            ) from error


@torch.no_grad()
def evaluate(model: Trainable, sample: Sample, ranks: Ranks = ALONE) -> tuple[float, float]:
    r"""The loss on a sample's nodes and their score, without dropout."""
    model.eval()
    out = output(model, sample)
    loss, hits, out_of = ranks.total([float(sample.nodes.loss(out)), *sample.nodes.hits(out)])
    return loss, score_of(hits, out_of)
