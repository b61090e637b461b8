r"""The study: every comparison with equal tuning in one table, and on how many tasks a learned
aggregator differs from its baseline.

A task is a backbone on a data set with one kind of splits. All of it is computed from rows whose
settings were searched (:obj:`meanmax compare --settings auto`).
"""

from __future__ import annotations

import math
import shlex
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

from meanmax.data.fetch.catalog import CATALOG, is_name
from meanmax.names import AGGREGATORS, LEARNED
from meanmax.study.paper.result_tables import SETS
from meanmax.study.report.groups import PLACE, RunGroup, distinguish, groups, split_option
from meanmax.study.runs.row import Row, json_safe
from meanmax.study.settings.settings import AUTO
from meanmax.study.stats.cells import shown_metric
from meanmax.study.stats.comparison import ALPHA, BASELINE, CAVEAT, Line, Scale
from meanmax.study.stats.paired import Paired, holm, paired, reachable

Outcome: TypeAlias = Literal["better", "worse", "both", "level", "too few"]
OUTCOMES: dict[Outcome, str] = {
    "better": "clearly better on",
    "worse": "clearly worse on",
    "both": "clearly better in one form and clearly worse in another on",
    "level": "level on",
    "too few": "not judged, for too few splits, on",
}
METHODS = (BASELINE, *AGGREGATORS)
SPLITS = 10
r"""The splits that each task should have."""


class Planned(NamedTuple):
    r"""A task of the study, with all of :obj:`METHODS`, and how `meanmax compare` makes it."""

    data: str
    backbone: str
    split: str | None = None  # the scheme, as rows have it; None for any
    budget: int | None = None  # of the search; None for the default

    def is_of(self, task: StudyTask) -> bool:
        r"""Whether a task has this data set, backbone and kind of splits."""
        group = task.group
        same = (group.data, group.backbone) == (self.data, self.backbone)
        return same and self.split in (None, group.split)

    def source(self) -> tuple[str, list[str]]:
        r"""The name or path of the data, and the option for the folder of what is not downloaded.
        Files and folders that the user has to have stand behind :obj:`PLACE`.
        """
        entry = CATALOG.get(self.data)
        own = entry and entry.needs_files and not any(file.url for file in entry.files)
        source = self.data if is_name(self.data) else f"{PLACE}/{self.data}.npz"
        return source, ["--data-dir", f"{PLACE}/data"] if own else []

    def command(self, aggrs: Sequence[str], *more: str) -> str:
        r"""The command that runs these aggregators and the references.

        Example:
            >>> Planned("mutag", "gin", budget=8).command(["none", "lp"])
            'meanmax compare --data mutag --data-dir FOLDER-OF/data --backbone gin --aggr none,lp
                --budget 8'
        """
        source, folder = self.source()
        words = ["--data", source, *folder, "--backbone", self.backbone, "--aggr", ",".join(aggrs)]
        words += [] if self.split is None else split_option(self.split)
        words += [] if self.budget is None else ["--budget", str(self.budget)]
        return shlex.join(["meanmax", "compare", *words, *more])


AUTHORS = "file:citation_splits.npz"
r"""The splits of the authors' later code."""
PLANNED = (
    *(Planned(name, "gcn", AUTHORS) for name in SETS[:3]),
    *(Planned(name, "gcn") for name in SETS[3:]),
    *(Planned(name, "gat", budget=8) for name in SETS),
    *(
        Planned(name, backbone)
        for name in ("actor", "chameleon_filtered", "minesweeper")
        for backbone in ("gcn", "sage")
    ),
    *(Planned(name, "gcn") for name in ("blogcatalog", "digits", "wine", "cancer", "ppi-go")),
    *(
        Planned(name, backbone, budget=8)
        for name in ("mutag", "proteins", "enzymes", "imdb-binary")
        for backbone in ("sage", "gin", "gcn")
    ),
    *(Planned("nci1", backbone, budget=8) for backbone in ("sage", "gin")),
    Planned("digits-graphs", "sage", budget=8),
    Planned("reach:hops=2,degree=8,test_degree=64,graphs=20,nodes=1000,seed=0", "sage"),
)
r"""The tasks of the study."""


@dataclass(frozen=True, eq=False)
class StudyTask:
    r"""A task with all its methods."""

    heading: str  # data and backbone, and the splits where the same task has several
    group: RunGroup

    def line(self, aggr: str) -> Line | None:
        r"""The line of a method, if it was run."""
        return self.group.comparison.line(aggr)

    @property
    def is_generated(self) -> bool:
        r"""Whether the data were drawn with a known answer, so that a gain is no surprise."""
        entry = CATALOG.get(self.group.data.partition(":")[0])
        return entry is not None and entry.kind == "generated"

    @property
    def compared(self) -> list[Line]:
        r"""The learned aggregators that were run on the baseline's splits."""
        lines = self.group.comparison.lines
        return [line for line in lines if line.aggr in LEARNED and line.paired is not None]

    @property
    def chosen(self) -> Line | None:
        r"""The learned aggregator that has the best mean validation score, which is the one to use;
        test scores have no part in the choice.
        """
        known = [line for line in self.compared if not math.isnan(line.val_mean)]
        return self._best(known, lambda line: line.val_mean)

    @property
    def best_reference(self) -> Line | None:
        r"""The reference with the best mean test score."""
        known = [one for one in self.group.comparison.references if not math.isnan(one.mean)]
        return self._best(known, lambda line: line.mean)

    def _best(self, lines: Sequence[Line], score: Any) -> Line | None:
        best = max if shown_metric(self.group.rows).higher_is_better else min
        return best(lines, key=score, default=None)

    @property
    def outcome(self) -> Outcome | None:
        r"""Whether a learned aggregator is significantly better or worse than the baseline within
        this task, with the number of its aggregators taken into account; :obj:`None` without any.
        """
        found = {line.judgement for line in self.compared}
        if {"better", "worse"} <= found:
            return "both"
        for outcome in ("better", "worse"):
            if outcome in found:
                return outcome
        return "level" if "undecided" in found else "too few" if found else None


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
    p_in_task: float  # Holm's, over all aggregators of the task
    p_overall: float  # Holm's, over all differences of the study
    reachable_p: float  # the smallest such p that the number of splits allows


@dataclass(frozen=True, eq=False)
class Study:
    r"""All tasks, in the order of the rows' data. Generated data are not among :attr:`counts`,
    :attr:`differences` and the :attr:`statement`.
    """

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

    @property
    def compared(self) -> list[StudyTask]:
        r"""The tasks on real data with a learned aggregator beside the baseline."""
        return [task for task in self.tasks if task.compared and not task.is_generated]

    @cached_property
    def differences(self) -> list[StudyDifference]:
        r"""All differences of learned aggregators, the largest first."""
        pairs = [
            (task, line, line.paired)
            for task in self.compared
            for line in task.compared
            if line.paired is not None
        ]
        family = [pair for _, _, pair in pairs]
        overall, least = holm([pair.p for pair in family]), reachable(family)
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
                reachable_p=smallest,
            )
            for (task, line, pair), p, smallest in zip(pairs, overall, least, strict=True)
        ]
        return sorted(found, key=lambda one: -one.difference)

    @property
    def counts(self) -> dict[Outcome, int]:
        r"""The number of tasks with each outcome."""
        counted = Counter(task.outcome for task in self.compared)
        return {outcome: counted[outcome] for outcome in OUTCOMES}

    @property
    def visible(self) -> float:
        r"""The median half width of the intervals of differences in points: a smaller gain than
        this can hardly be told from none.
        """
        halves = [
            (one.high - one.low) / 2
            for one in self.differences
            if one.unit == "points" and not math.isnan(one.low)
        ]
        return statistics.median(halves) if halves else math.nan

    @cached_property
    def over_data(self) -> Paired | None:
        r"""The aggregators that validation chooses against the baseline, paired over data sets
        instead of splits: the mean of all tasks on a data set is one value. Data sets, unlike
        splits, are independent. :obj:`None` without any difference in points.
        """
        by_data: dict[str, list[float]] = {}
        for task in self.compared:
            if task.chosen and task.chosen.paired and task.group.comparison.percent:
                by_data.setdefault(task.group.data, []).append(task.chosen.paired.difference)
        values = [statistics.fmean(own) for own in by_data.values()]
        return paired(values, [0.0] * len(values)) if values else None

    @property
    def sentences(self) -> list[str]:
        r"""The outcome, whatever it is: within tasks, over data sets, and how sure it is."""
        tasks = self.compared
        if not tasks:
            return ["No task has a learned aggregator beside its baseline yet."]
        parts = [f"{OUTCOMES[one]} {count}" for one, count in self.counts.items() if count]
        sets = len({task.group.data for task in tasks})
        judged = len(tasks) - self.counts["too few"]
        found = [
            f"Compared with an equally tuned baseline on {_count(len(tasks), 'task')} "
            f"({_count(sets, 'data set')}), a learned aggregator is {', '.join(parts)} "
            f"(Holm-adjusted within each task; of {judged}, {ALPHA * judged:.1f} would differ by "
            f"chance)."
        ]
        if (pair := self.over_data) is not None:
            difference, low, high = Scale("", True).signed(pair.difference, pair.low, pair.high)
            end = "" if math.isnan(pair.p) else f" (interval {low} to {high}, p {pair.p:.2g})"
            found.append(
                f"Over {_count(pair.n, 'data set')}, the aggregator that validation chooses "
                f"differs from the baseline by {difference} points on average{end}."
            )
        doubtful = [task.heading for task in tasks if task.group.comparison.doubts]
        if doubtful:
            found.append(f"Not conclusive by themselves: {'; '.join(doubtful)}.")
        if not math.isnan(self.visible):
            found.append(
                f"Intervals reach {self.visible:.1f} points to either side (median), so that "
                f"smaller differences are hardly seen."
            )
        return [*found, CAVEAT]

    @property
    def statement(self) -> str:
        r"""The :attr:`sentences` as one text."""
        return " ".join(self.sentences)

    @property
    def missing(self) -> list[str]:
        r"""The commands that fill what is planned and not there: methods of a task with fewer than
        :obj:`SPLITS` successful runs, and tasks without references. A search is repeated where its
        trials are not in the folder of the command.
        """
        found = []
        for planned in PLANNED:
            lines: Mapping[str, Line] = {}
            references: Sequence[Line] = ()
            for task in self.tasks:  # of several, the one with most runs
                own = {line.aggr: line for line in task.group.comparison.lines}
                if planned.is_of(task) and _runs(own) > _runs(lines):
                    lines, references = own, task.group.comparison.references
            lacking = [a for a in METHODS if a not in lines or lines[a].n < SPLITS]
            if lacking or not any(line.n for line in references):
                failed = any(lines[aggr].failed for aggr in lacking if aggr in lines)
                aggrs = list(dict.fromkeys((BASELINE, *lacking)))
                found.append(planned.command(aggrs, *["--retry-failed"] * failed))
        return found

    def as_dict(self) -> dict[str, Any]:
        r"""The study for JSON."""
        return {
            "tasks": [
                {
                    "task": task.heading,
                    "generated": task.is_generated,
                    "outcome": task.outcome,
                    "chosen": None if task.chosen is None else task.chosen.aggr,
                    **task.group.comparison.as_dict(),
                }
                for task in self.tasks
            ],
            "differences": [json_safe(one) for one in self.differences],
            "counts": self.counts,
            "over_data": json_safe(self.over_data),
            "statement": self.statement,
            "missing": self.missing,
        }


def _runs(lines: Mapping[str, Line]) -> int:
    return sum(line.n for line in lines.values())


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
