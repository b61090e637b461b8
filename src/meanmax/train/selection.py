r"""Which epoch is the best so far, and when to stop looking for a better one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from meanmax.train.schedule import Select


@dataclass
class Selection:
    r"""Chooses among epochs by what it is told of validation nodes, and by nothing else.

    Args:
        select (str): :obj:`"loss"`, :obj:`"score"` or :obj:`"both"`; see
            :class:`~meanmax.train.schedule.Schedule`.
        patience (int): Epochs without a better one after which to stop.
        lowest (float): The lowest loss so far.
        highest (float): The highest score so far.
        waited (int): Epochs since the last better one.
    """

    select: Select
    patience: int
    lowest: float = math.inf
    highest: float = -math.inf
    waited: int = 0

    def keeps(self, loss: float, score: float) -> bool:
        r"""Takes note of an epoch; whether its weights are to be kept."""
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
        r"""Whether it is time to stop."""
        return self.waited >= self.patience
