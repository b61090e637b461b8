r"""What happened in training, epoch by epoch."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class History:
    r"""What happened in training, epoch by epoch.

    Args:
        train_loss (list): The loss on training nodes at the last step on the weights, with dropout
            and without what the model adds to it; the mean over batches.
        val_loss (list): The loss on validation nodes, if there are any.
        val_score (list): Their accuracy or micro-F1.
        learned (dict): The aggregators' parameters by name, a list of values for each epoch.
        best_epoch (int): The epoch whose weights the model has now, from 0.
        seconds (float): How long training took.
    """

    train_loss: list[float] = field(default_factory=list)
    val_loss: list[float] = field(default_factory=list)
    val_score: list[float] = field(default_factory=list)
    learned: dict[str, list[list[float]]] = field(default_factory=dict)
    best_epoch: int = -1
    seconds: float = 0.0

    @property
    def epochs(self) -> int:
        r"""How many epochs there were."""
        return len(self.train_loss)
