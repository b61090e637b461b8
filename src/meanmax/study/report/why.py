r"""What predicts a gain: facts of data sets against the difference that a learned aggregator makes.

The difference of a task is that of the learned aggregator with the best validation score. Rows do
not hold the facts: `meanmax data facts` writes them to a file :obj:`datasets.jsonl` next to them.
"""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from meanmax.names import Level
from meanmax.study.report.groups import PLACE, RunGroup, split_option
from meanmax.study.report.study import PLANNED, Study
from meanmax.study.runs.plan import POOLED
from meanmax.study.stats.cells import without_folder
from meanmax.study.stats.comparison import ALPHA
from meanmax.study.stats.paired import holm
from meanmax.study.store.store import StoreError, reported

if TYPE_CHECKING:
    from meanmax.data import Dataset

FILE = "datasets.jsonl"
ENOUGH = 10
r"""The data sets from which on a correlation is judged; with fewer, one can turn its sign."""
DRAWS = 9999  # permutations of a test; all of them where there are not more
LEVEL = "level"


@dataclass(frozen=True)
class Facts:
    r"""A data set with one scheme of splits, as far as it may explain a difference."""

    data: str
    data_hash: str
    split: str
    level: Level
    mean_degree: float
    homophily: float | None  # None where edges do not join labels
    density: float  # the share of features that are not 0
    label_rate: float  # the share of nodes, or of graphs, whose labels train a model

    @classmethod
    def of(cls, dataset: Dataset, scheme: str | None = None) -> Facts:
        r"""Counts them, on split 0 of a scheme, by default the one that fits."""
        from meanmax.data import fingerprint, make_split, statistics
        from meanmax.data.splits import default_scheme

        scheme = scheme or default_scheme(dataset)
        counted = statistics(dataset)
        return cls(
            data=dataset.name,
            data_hash=fingerprint(dataset)[:20],
            split=without_folder(scheme),
            level=dataset.level,
            mean_degree=counted.mean_degree,
            homophily=counted.homophily,
            density=counted.density,
            label_rate=make_split(dataset, scheme).train.numel() / dataset.num_items,
        )


FactsByKey: TypeAlias = Mapping[tuple[str, str], Facts]


def read_facts(rows: Path) -> dict[tuple[str, str], Facts]:
    r"""The facts in the file next to a file of rows, or inside a store, by the fingerprint of the
    data and the scheme of splits; the last of each. Empty without that file.
    """
    path = rows / FILE if rows.is_dir() else rows.with_name(FILE)
    names, found = {field.name for field in dataclasses.fields(Facts)}, {}
    with reported(path):
        lines = path.read_bytes().splitlines() if path.exists() else []
    for number, line in enumerate(lines, start=1):
        try:
            given = json.loads(line)
            if not isinstance(given, dict) or given.keys() != names:
                raise ValueError(f"a line must have exactly {', '.join(sorted(names))}")
            if wrong := [name for name, value in given.items() if not _is_fact(name, value)]:
                raise ValueError(f"{wrong[0]} cannot be {str(given[wrong[0]])[:60]!r}")
        except ValueError as error:
            raise StoreError(
                f"{path}:{number} is damaged ({error}): write it again with `meanmax data facts`"
            ) from error
        one = Facts(**given)
        found[one.data_hash, one.split] = one
    return found


def _is_fact(name: str, value: object) -> bool:
    if name in ("data", "data_hash", "split", "level"):
        return isinstance(value, str)
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return known or (value is None and name == "homophily")


class Point(NamedTuple):
    r"""One task: the difference of its chosen aggregator, and what may explain it, by the names of
    :obj:`PREDICTORS`; those that are not known are left out.
    """

    task: str
    data: str
    aggr: str
    level: Level
    n: int
    difference: float
    low: float
    high: float
    values: dict[str, float]


PREDICTORS = {
    "mean_degree": "mean degree",
    "homophily": "edge homophily",
    "density": "feature density",
    "label_rate": "label rate",
    LEVEL: "level (0 node, 1 graph)",
    "maxness": "maxness",
}
r"""What may predict a difference, and its label."""
LOGARITHMIC = ("mean_degree", "density", "label_rate")


def points(study: Study, facts: FactsByKey) -> list[Point]:
    r"""The tasks on real data whose differences are in points."""
    found = []
    for task in study.compared:
        line, comparison = task.chosen, task.group.comparison
        if line is None or line.paired is None or not comparison.percent:
            continue
        known = facts.get(_key(task.group))
        if known is None:
            continue
        given: dict[str, Any] = {**vars(known), "maxness": line.maxness}
        given[LEVEL] = float(known.level == "graph")
        values = {name: given[name] for name in PREDICTORS if given[name] is not None}
        pair = line.paired
        ends = (pair.difference, pair.low, pair.high)
        found.append(
            Point(task.heading, task.group.data, line.aggr, known.level, pair.n, *ends, values)
        )
    return found


def missing_facts(study: Study, facts: FactsByKey) -> list[str]:
    r"""The commands that write the facts of compared tasks that are not there."""
    wanted = [task for task in study.compared if _key(task.group) not in facts]
    found = []
    for task in wanted:
        planned = next((one for one in PLANNED if one.is_of(task)), None)
        source, folder = planned.source() if planned else (f"{PLACE}/{task.group.data}", [])
        words = ["meanmax", "data", "facts", source, *folder, *split_option(task.group.split)]
        found.append(f"{shlex.join(words)} >> {FILE}")
    return list(dict.fromkeys(found))


def _key(group: RunGroup) -> tuple[str, str]:
    return group.data_hash, group.split.removesuffix(POOLED)


@dataclass(frozen=True)
class Correlation:
    r"""Spearman's rank correlation of a predictor with the difference, over data sets: tasks on
    the same data are averaged first.
    """

    predictor: str
    n: int  # data sets
    rho: float  # NaN where all values are equal
    p: float  # two-sided, of a permutation test
    adjusted_p: float  # Holm's, over the predictors

    @property
    def judgement(self) -> str:
        r"""What may be said of it."""
        if self.n < ENOUGH:
            return "too few data sets"
        return "related" if self.adjusted_p < ALPHA else "no clear relation"


def correlations(listed: Sequence[Point]) -> list[Correlation]:
    r"""The correlation of each predictor, over the data sets that have it."""
    found = []
    for name in PREDICTORS:
        by_data: dict[str, list[Point]] = {}
        for point in listed:
            if name in point.values:
                by_data.setdefault(point.data, []).append(point)
        x = [statistics.fmean(one.values[name] for one in own) for own in by_data.values()]
        y = [statistics.fmean(one.difference for one in own) for own in by_data.values()]
        found.append((name, len(by_data), *spearman(x, y)))
    adjusted = holm([p for *_, p in found])
    return [Correlation(*one, p) for one, p in zip(found, adjusted, strict=True)]


def spearman(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    r"""Spearman's correlation and the two-sided p-value of a permutation test: of all permutations
    up to seven values, else of 9,999 drawn with a fixed seed. NaN for fewer than three values, or
    if all are equal.

    Example:
        >>> rho, p = spearman([1, 2, 3, 4, 5], [10, 20, 30, 40, 50])
        >>> rho, round(p * 120)  # the order itself and its reverse, of 120 orders
        (1.0, 2)
    """
    import numpy as np
    from scipy.stats import permutation_test, rankdata

    ranks = [rankdata(values) - (len(values) + 1) / 2 for values in (x, y)]
    size = math.prod(float(np.sqrt((own**2).sum())) for own in ranks)
    if len(x) < 3 or size == 0:
        return math.nan, math.nan

    def rho(own: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.asarray((own * ranks[1]).sum(axis=axis) / size)

    options = {"permutation_type": "pairings", "vectorized": True, "n_resamples": DRAWS}
    test = permutation_test((ranks[0],), rho, **options, random_state=0)
    return round(float(test.statistic), 12), float(test.pvalue)
