r"""The schedule of a training, early stopping, and the history."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Literal, TypeAlias, get_args

Order: TypeAlias = Literal["joint", "alternating"]
Optimizer: TypeAlias = Literal["adam", "sgd"]
Select: TypeAlias = Literal["loss", "score", "both"]
Part: TypeAlias = Literal["train", "val"]

_CHOICES = {
    "schedule": get_args(Order),
    "aggregator_optimizer": get_args(Optimizer),
    "aggregator_loss": get_args(Part),
    "select": get_args(Select),
}
_COUNTS = ("epochs", "patience", "weight_steps", "aggregator_steps")


@dataclass(frozen=True)
class Schedule:
    r"""How a model is trained. *Weights* are all parameters but those of the aggregators.

    In each epoch, and on each batch, the :obj:`"joint"` schedule makes :obj:`weight_steps` steps of
    Adam on everything. The :obj:`"alternating"` schedule, which is the paper's, makes
    :obj:`aggregator_steps` steps on the aggregators' parameters with the weights frozen, then
    :obj:`weight_steps` on the weights with the aggregators frozen, each with its own optimizer.

    Args:
        epochs (int): The maximum number of epochs.
        lr (float): Adam's learning rate for the weights.
        weight_decay (float): Adam's weight decay; the aggregators' parameters have none.
        aggregator_lr (float): The learning rate of the aggregators' parameters.
        patience (int): Epochs without a better one after which training stops.
        schedule (str): :obj:`"joint"` or :obj:`"alternating"`.
        weight_steps (int): Steps on the weights per epoch.
        aggregator_steps (int): Steps on the aggregators' parameters per epoch, alternating.
        aggregator_optimizer (str): :obj:`"sgd"` or :obj:`"adam"`, alternating.
        aggregator_momentum (float): Momentum of :obj:`"sgd"`.
        aggregator_clip (float, optional): The limit for entries of the aggregators' gradient, which
            are clipped to it. :obj:`None` for no limit.
        aggregator_decay (float): The weight :math:`\lambda` of the penalty
            :math:`\lambda/2 \, (\theta - l)^2`, which pulls each entry of the aggregators'
            parameter :math:`\theta` towards the linear end :math:`l` of its domain.
        aggregator_loss (str): The loss that aggregators minimize, alternating: on
            :obj:`"train"` or on :obj:`"val"` nodes.
        select (str): The criterion of the best epoch: the lowest validation :obj:`"loss"`, the
            best :obj:`"score"` (at equal scores, the lowest loss), or :obj:`"both"` as in GAT:
            weights are kept when neither is worse, and patience restarts when either is better.
    """

    epochs: int = 400
    lr: float = 0.01
    weight_decay: float = 5e-4
    aggregator_lr: float = 0.01
    patience: int = 100
    schedule: Order = "joint"
    weight_steps: int = 1
    aggregator_steps: int = 1
    aggregator_optimizer: Optimizer = "sgd"
    aggregator_momentum: float = 0.9
    aggregator_clip: float | None = None
    aggregator_decay: float = 0.0
    aggregator_loss: Part = "train"
    select: Select = "loss"

    def __post_init__(self) -> None:
        for each in fields(self):
            _check(each.name, getattr(self, each.name))
        if self.aggregator_loss == "val" and self.schedule == "joint":
            raise ValueError("aggregator_loss='val' needs schedule='alternating' (got 'joint')")


def _check(name: str, value: object) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            listed = ", ".join(map(repr, _CHOICES[name]))
            raise ValueError(f"'{name}' must be one of {listed} (got {value!r})")
    elif name in _COUNTS:
        if not (is_number and isinstance(value, int) and value > 0):
            raise ValueError(f"'{name}' must be a whole number from 1 on (got {value!r})")
    elif name == "aggregator_clip" and value is None:
        return
    elif not (is_number and 0 <= value < math.inf):  # type: ignore[operator]
        raise ValueError(f"'{name}' must be a number and not negative (got {value!r})")


@dataclass
class EarlyStopping:
    r"""Selects the best epoch by the loss and score on validation nodes, and by nothing else."""

    select: Select
    patience: int
    lowest: float = math.inf  # loss so far
    highest: float = -math.inf  # score so far
    waited: int = 0  # epochs since the last better one

    def keeps(self, loss: float, score: float) -> bool:
        r"""Records an epoch, and returns whether its weights are to be kept."""
        if self.select == "loss":
            kept = improved = loss < self.lowest
        elif self.select == "score":
            tie = score == self.highest and loss < self.lowest
            kept = improved = score > self.highest or tie
        else:
            improved = loss < self.lowest or score > self.highest
            kept = improved and loss <= self.lowest and score >= self.highest
        self.waited = 0 if improved else self.waited + 1
        if self.select == "both" or kept:
            self.lowest = min(self.lowest, loss) if self.select == "both" else loss
            self.highest = max(self.highest, score)
        return kept

    @property
    def exhausted(self) -> bool:
        r"""Whether training stops."""
        return self.waited >= self.patience


@dataclass
class History:
    r"""Losses, scores and parameters, epoch by epoch.

    The training loss is that of the last step on the weights, with dropout and without the model's
    extra loss, the mean over batches. Validation losses and scores (the metric of the settings:
    accuracy or micro-F1 unless another is chosen) are empty if there are no validation nodes.
    """

    train_loss: list[float] = field(default_factory=list)
    val_loss: list[float] = field(default_factory=list)
    val_score: list[float] = field(default_factory=list)
    learned: dict[str, list[list[float]]] = field(default_factory=dict)  # aggregators' parameters
    best_epoch: int = -1  # whose weights were kept, from 0
    seconds: float = 0.0  # of training

    @property
    def epochs(self) -> int:
        r"""The number of epochs."""
        return len(self.train_loss)
