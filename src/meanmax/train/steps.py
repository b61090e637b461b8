r"""Optimiser steps: on everything at once, or on aggregators and weights in turn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.nn.utils import clip_grad_value_

from meanmax.ops.scaling import NotFiniteError
from meanmax.nn.models_init import Trainable
from meanmax.train.problem import Sample
from meanmax.train.communicator import (ALONE, Ranks)
from meanmax.train.schedule import Schedule


class TrainingError(RuntimeError):
    r"""Training could not go on."""


class Steps:
    r"""The optimisers of a model and the steps that an epoch makes on a batch.

    Args:
        model (Trainable): The model.
        schedule (Schedule): Which steps, and how fast.
        ranks (Ranks, optional): The processes that take part. (default: this one)
    """

    def __init__(self, model: Trainable, schedule: Schedule, ranks: Ranks = ALONE) -> None:
        self.model = model
        self.ranks = ranks
        self.schedule = schedule
        self.weights = model.other_parameters()
        self.aggregators = [p for p in model.aggregator_parameters() if p.requires_grad]
        weights: dict[str, Any] = {"params": self.weights, "weight_decay": schedule.weight_decay}
        groups = [weights]
        alternates = schedule.schedule == "alternating" and bool(self.aggregators)
        if self.aggregators and not alternates:
            groups.append({"params": self.aggregators, "lr": schedule.aggregator_lr})
        self.main = torch.optim.Adam(groups, lr=schedule.lr, fused=True)
        self.side = self._side() if alternates else None

    def __call__(self, batch: Sample, val: Sample | None) -> float:
        r"""All steps of an epoch on one batch; the training loss at the last.

        Args:
            batch (Sample): The batch.
            val (Sample, optional): Validation nodes, for aggregators that descend their loss.
        """
        schedule = self.schedule
        if self.side is not None:
            held_out = schedule.aggregator_loss == "val" and val is not None
            for _ in range(schedule.aggregator_steps):
                with _held(self.weights):
                    self._step(val if held_out and val is not None else batch, self.side)
        value = math.nan
        for _ in range(schedule.weight_steps):
            with _held(self.aggregators if self.side is not None else ()):
                value = self._step(batch, self.main)
        return value

    def state(self) -> list[dict[str, Any]]:
        r"""The optimisers' states, for a checkpoint."""
        return [side.state_dict() for side in (self.main, self.side) if side is not None]

    def restore(self, states: list[dict[str, Any]]) -> None:
        r"""Takes states back."""
        own = [side for side in (self.main, self.side) if side is not None]
        for side, state in zip(own, states, strict=True):
            side.load_state_dict(state)

    def _side(self) -> torch.optim.Optimizer:
        lr = self.schedule.aggregator_lr
        if self.schedule.aggregator_optimizer == "adam":
            return torch.optim.Adam(self.aggregators, lr=lr, fused=True)
        return torch.optim.SGD(self.aggregators, lr=lr, momentum=self.schedule.aggregator_momentum)

    def _step(self, sample: Sample, optimizer: torch.optim.Optimizer) -> float:
        model = self.model
        model.train()
        optimizer.zero_grad()
        loss = sample.nodes.loss(output(model, sample))
        (value,) = self.ranks.total([float(loss.detach())])
        if not math.isfinite(value):
            raise TrainingError(
                f"the training loss became {value}: lower the learning rate, or scale the features"
            )
        extra = model.extra_loss(sample.graph) if optimizer is self.main else None
        if not loss.requires_grad:
            return value
        (loss if extra is None else loss + extra).backward()  # type: ignore[no-untyped-call]
        self.ranks.share_gradients([p for group in optimizer.param_groups for p in group["params"]])
        clip = self.schedule.aggregator_clip
        moves_aggregators = self.side is None or optimizer is self.side
        # A baseline has nothing to clip, and PyTorch refuses an empty list.
        if clip is not None and moves_aggregators and self.aggregators:
            clip_grad_value_(self.aggregators, clip)
        optimizer.step()
        return value


def output(model: Trainable, sample: Sample) -> Tensor:
    r"""The model's output; a :class:`TrainingError` if numbers inside it are no longer finite."""
    try:
        return sample.output(model)
    except ValueError as error:
        weights = all(bool(torch.isfinite(weight).all()) for weight in model.parameters())
        if weights and not isinstance(error, NotFiniteError):
            raise
        raise TrainingError(
            "weights or hidden features became infinite or NaN: lower the learning rate, or scale "
            "the features"
        ) from error


@contextmanager
def _held(parameters: Sequence[Parameter]) -> Iterator[None]:
    r"""Parameters that take no gradient, which spares computing it."""
    held = [parameter for parameter in parameters if parameter.requires_grad]
    for parameter in held:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in held:
            parameter.requires_grad_(True)


def copied(model: Module | Trainable) -> dict[str, torch.Tensor]:
    r"""A model's state that later steps do not change."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
