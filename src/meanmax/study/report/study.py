r"""The study: every comparison with equal tuning in one table, and on how many tasks a learned
aggregator differs from its baseline.

A task is a backbone on a data set with one kind of splits. All of it is computed from rows whose
settings were searched (:obj:`meanmax compare --settings auto`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

from meanmax.data.fetch.catalog import CATALOG
from meanmax.names import AGGREGATORS, LEARNED
from meanmax.study.report.groups import PLACE, RunGroup, distinguish, groups
from meanmax.study.runs.row import Row, json_safe
from meanmax.study.settings.settings import AUTO
from meanmax.study.stats.cells import shown_metric
from meanmax.study.stats.comparison import ALPHA, BASELINE, CAVEAT, Line
from meanmax.study.stats.paired import holm

Outcome: TypeAlias = Literal["better", "worse", "both", "level", "too few"]
OUTCOMES: tuple[Outcome, ...] = ("better", "worse", "both", "level", "too few")
METHODS = (BASELINE, *AGGREGATORS)
SPLITS = 10
r"""The splits that each task should have."""
PLANNED = {
    "gcn": (
        "cora", "citeseer", "pubmed", "photo", "computers", "actor", "blogcatalog",
        "chameleon_filtered", "minesweeper", "digits", "wine", "cancer", "ppi-go", "proteins",
        "enzymes", "imdb-binary", "mutag",
    ),
    "gat": ("cora", "citeseer", "pubmed", "photo", "computers"),
    "sage": (
        "actor", "chameleon_filtered", "minesweeper", "mutag", "proteins", "enzymes", "nci1",
        "imdb-binary", "digits-graphs",
    ),
    "gin": ("proteins", "enzymes", "imdb-binary", "mutag", "nci1"),
}  # fmt: skip
r"""The tasks of the study by backbone, each with all of :obj:`METHODS`."""


@dataclass(frozen=True, eq=False)
class StudyTask:
    r"""A task with all its methods."""

    heading: str  # data and backbone, and the splits where the same task has several
    group: RunGroup

    def line(self, aggr: str) -> Line | None:
        r"""The line of a method, if it was run."""
        return self.group.comparison.line(aggr)

    @property
    def compared(self) -> list[Line]:
        r"""The learned aggregators that were run on the baseline's splits."""
        lines = self.group.comparison.lines
        return [line for line in lines if line.aggr in LEARNED and line.paired is not None]

    @property
    def best_reference(self) -> Line | None:
        r"""The reference with the best mean score."""
        known = [one for one in self.group.comparison.references if not math.isnan(one.mean)]
        best = max if shown_metric(self.group.rows).higher_is_better else min
        return best(known, key=lambda one: one.mean, default=None)

    @property
    def outcome(self) -> Outcome:
        r"""Whether a learned aggregator is significantly better or worse than the baseline within
        this task, with the number of its aggregators taken into account.
        """
        found = {line.judgement for line in self.compared}
        if {"better", "worse"} <= found:
            return "both"
        if "better" in found:
            return "better"
        if "worse" in found:
            return "worse"
        return "level" if "undecided" in found else "too few"


@dataclass(frozen=True)
class StudyDifference:
    r"""A learned aggregator against the baseline on one task."""

    task: str
    aggr: str
    n: int
    difference: float  # positive where the aggregator is better
    low: float
    high: float
    unit: str
    p: float
    p_in_task: float  # Holm's, over the aggregators of the task
    p_overall: float  # Holm's, over all differences of the study

    @property
    def holds_overall(self) -> bool:
        r"""Whether it is significant among all differences of the study."""
        return self.p_overall < ALPHA and (self.low > 0 or self.high < 0)


@dataclass(frozen=True, eq=False)
class Study:
    r"""All tasks, in the order of the rows' data."""

    tasks: Sequence[StudyTask]

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Study:
        r"""The tasks that rows allow: those with a baseline and searched settings."""
        listed = [
            group
            for group in groups(list(rows), AUTO)
            if (line := group.comparison.line(BASELINE)) is not None and line.n
        ]
        names = distinguish(listed, [f"{group.data}, {group.backbone}" for group in listed])
        return cls([StudyTask(*pair) for pair in zip(names, listed, strict=True)])

    @cached_property
    def differences(self) -> list[StudyDifference]:
        r"""All differences of learned aggregators, the largest first."""
        pairs = [
            (task, line, line.paired)
            for task in self.tasks
            for line in task.compared
            if line.paired is not None
        ]
        overall = holm([pair.p for _, _, pair in pairs])
        found = [
            StudyDifference(
                task=task.heading,
                aggr=line.aggr,
                n=pair.n,
                difference=pair.difference,
                low=pair.low,
                high=pair.high,
                unit=task.group.comparison.scale.points,
                p=pair.p,
                p_in_task=line.adjusted_p,
                p_overall=p,
            )
            for (task, line, pair), p in zip(pairs, overall, strict=True)
        ]
        return sorted(found, key=lambda one: -one.difference)

    @property
    def counts(self) -> dict[Outcome, int]:
        r"""The number of tasks with each outcome, of those where an aggregator was compared."""
        outcomes = [task.outcome for task in self.tasks if task.compared]
        return {outcome: outcomes.count(outcome) for outcome in OUTCOMES}

    @property
    def statement(self) -> str:
        r"""The outcome in sentences, whatever it is."""
        counts = self.counts
        compared = sum(counts.values())
        if not compared:
            return "No task has a learned aggregator beside its baseline yet."
        words = {
            "better": "clearly better on",
            "worse": "clearly worse on",
            "both": "one better and another worse on",
            "level": "level on",
            "too few": "not judged, for too few splits, on",
        }
        parts = [f"{words[one]} {counts[one]}" for one in OUTCOMES if counts[one]]
        overall = [one for one in self.differences if one.holds_overall]
        up = sum(one.difference > 0 for one in overall)
        doubtful = [t for t in self.tasks if t.compared and t.group.comparison.doubts]
        text = (
            f"Compared with an equally tuned baseline on {compared} tasks, a learned aggregator is "
            f"{', '.join(parts)} (Holm-adjusted within each task). Adjusted over all "
            f"{len(self.differences)} differences, {up} are better and {len(overall) - up} worse. "
        )
        if doubtful:
            text += f"{len(doubtful)} of the comparisons are not conclusive by themselves. "
        return text + CAVEAT

    @property
    def missing(self) -> list[str]:
        r"""The commands that fill what is planned and not there: methods of a task with fewer than
        :obj:`SPLITS` successful runs. Data that are not in the catalogue stand for their files.
        """
        there: dict[tuple[str, str], set[str]] = {}
        for task in self.tasks:
            lines = task.group.comparison.lines
            done = {line.aggr for line in lines if line.n >= SPLITS}
            there.setdefault((task.group.data, task.group.backbone), set()).update(done)
        found = []
        for backbone, sets in PLANNED.items():
            for data in sets:
                lacking = [aggr for aggr in METHODS if aggr not in there.get((data, backbone), ())]
                source = data if data in CATALOG else f"{PLACE}/{data}.npz"
                if lacking:
                    found.append(
                        f"meanmax compare --data {source} --backbone {backbone} "
                        f"--aggr {','.join(dict.fromkeys((BASELINE, *lacking)))}"
                    )
        return found

    def as_dict(self) -> dict[str, Any]:
        r"""The study for JSON."""
        return {
            "tasks": [
                {
                    "task": task.heading,
                    "outcome": task.outcome if task.compared else None,
                    **task.group.comparison.as_dict(),
                }
                for task in self.tasks
            ],
            "differences": [json_safe(one) for one in self.differences],
            "counts": self.counts,
            "statement": self.statement,
            "missing": self.missing,
        }
