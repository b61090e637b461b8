r"""The length of training against test accuracy: after how many epochs does our GCN pass the
paper's?

The runs have the published settings with fewer epochs, and the model with the lowest validation
loss until then. Curves by epoch hold no test scores, which have no part in training.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from meanmax.study.paper.depth import SETTINGS
from meanmax.study.paper.result_tables import SCHEMES, Published, paper_value
from meanmax.study.report.groups import split_option
from meanmax.study.runs.row import Row
from meanmax.study.settings.settings import settings_for
from meanmax.study.stats.cells import mean_and_std, scores, select
from meanmax.study.stats.comparison import BASELINE

LIMITS = (5, 10, 20, 40, 80, 160, 400)
r"""The most epochs of a run."""
BACKBONE = "gcn"


@dataclass(frozen=True)
class Limited:
    r"""The baseline with at most so many epochs; scores are in percent."""

    epochs: int
    n: int  # runs of status "ok"
    mean: float
    std: float


@dataclass(frozen=True)
class Training:
    r"""The baseline on one data set, by the most epochs that it had."""

    data: str
    split: str
    points: Sequence[Limited]  # fewest epochs first
    paper: Published

    @property
    def passes(self) -> int | None:
        r"""The fewest epochs with a mean of at least the paper's, or :obj:`None`."""
        found = (point.epochs for point in self.points if point.mean >= self.paper.mean)
        return next(found, None)

    def missing(self, splits: int) -> list[tuple[str, int, str]]:
        r"""The data, the limits with fewer runs than splits, and the kind of splits."""
        there = {point.epochs: point.n for point in self.points}
        short = [limit for limit in LIMITS if there.get(limit, 0) < splits]
        return [(self.data, limit, self.split) for limit in short]


def trainings(rows: Sequence[Row]) -> list[Training]:
    r"""The data sets and kinds of splits of which there are runs with several limits."""
    found = []
    for data, split in dict.fromkeys((row.data, row.split) for row in rows):
        paper = paper_value(2, BACKBONE, BASELINE, data)
        points = []
        for epochs in LIMITS if paper else ():
            wanted = partial(settings_for, SETTINGS, overrides={"epochs": epochs})
            own = select(rows, data, wanted, split).of(BACKBONE, BASELINE).values()
            if good := scores(own, "test_score"):
                points.append(Limited(epochs, len(good), *mean_and_std(good.values())))
        if paper and len(points) > 1:
            found.append(Training(data, split, points, paper))
    return found


def command(data: str, epochs: int, split: str) -> str:
    r"""The command that makes the runs with a limit.

    Example:
        >>> command("cora", 20, "citation")
        'meanmax reproduce table2 --data cora --backbone gcn --aggr none --set epochs=20'
    """
    words = ["meanmax", "reproduce", "table2", "--data", data]
    words += ["--backbone", BACKBONE, "--aggr", BASELINE, "--set", f"epochs={epochs}"]
    return shlex.join(words + ([] if split == SCHEMES.get(data) else split_option(split)))
