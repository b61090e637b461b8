r"""Training that goes on from a checkpoint, where there is one that can be used."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from meanmax.nn.models_init import Trainable
from meanmax.train import (Checkpoint, CheckpointError, History, Problem, Schedule, train)
from meanmax.train.loop import OnEpoch


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
    problem: Problem,
    schedule: Schedule,
    checkpoint: Checkpoint,
    on_epoch: OnEpoch | None = None,
) -> tuple[Trainable, History]:
    r"""Trains a new model, from its checkpoint on if that is there.

    A checkpoint that is damaged or does not fit is set aside, with the ending :obj:`.damaged`, and
    training starts over.

    Args:
        new_model (callable): Makes the model, from the same seed each time.
        problem (Problem): What to learn from and to validate on.
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
