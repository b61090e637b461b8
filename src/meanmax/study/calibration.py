r"""How often a comparison tells two methods apart that are the same, and finds a small difference.

The baseline is compared with a copy of itself, whose search draws other trials and whose weights
start from other seeds: every other step is that of :obj:`meanmax compare`. Then a share of the
copy's correct answers is counted as wrong, which is a difference that should be found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from meanmax.data.files import refusing
from meanmax.study.runs.engine import in_parallel
from meanmax.study.runs.plan import Plan, Task, reference
from meanmax.study.runs.row import Row
from meanmax.study.runs.search import Method, SearchRuns
from meanmax.study.settings.search import Search
from meanmax.study.settings.settings import BASE
from meanmax.study.stats.cells import Selected
from meanmax.study.stats.comparison import BASELINE, compare

COPY = "copy"
OTHER_SEEDS = 10_000  # added to the seeds of the copy's weights


@dataclass(frozen=True)
class Case:
    r"""One comparison of the baseline with its copy, on a graph of its own."""

    number: int
    data: str  # a graph by name, with {seed} in it
    backbone: str = "gcn"
    budget: int = 6
    splits: int = 10
    epochs: int = 150
    searches: int = 3  # that serve all splits, which come from one development pool; 0 for each


@dataclass(frozen=True)
class Outcome:
    r"""Test scores of the baseline and of the copy by split, in percent."""

    case: Case
    baseline: list[float]
    copy: list[float]

    def judgement(self, planted: float = 0.0) -> str | None:
        r"""What the comparison says of the copy, of whose correct answers a share is wrong."""
        scores = {BASELINE: self.baseline, COPY: [s * (1 - planted) for s in self.copy]}
        rows = [
            _row(aggr, split, score)
            for aggr, own in scores.items()
            for split, score in enumerate(own)
        ]
        result = compare(Selected(rows, []), "gcn", [BASELINE, COPY], data="calibration")
        return result.lines[1].judgement


def run_case(case: Case) -> Outcome:
    r"""Searches and trains the baseline twice."""
    from meanmax.data import load

    source = case.data.format(seed=case.number)
    dataset, overrides = load(source), {"epochs": case.epochs}
    plan = Plan(
        reference(source, None), [case.backbone], [BASELINE], range(case.splits), BASE,
        None, overrides, pool=case.searches > 0,
    )  # fmt: skip
    tasks = {task.spec.split_seed: task for task in plan.tasks(dataset)}
    groups = [(seed,) for seed in list(tasks)[: case.searches or None]]
    found = []
    for arm in range(2):
        moved = {
            seed: replace(task, spec=replace(task.spec, seed=task.spec.seed + arm * OTHER_SEEDS))
            for seed, task in tasks.items()
        }
        name = plan.name_of(dataset)
        search = Search(
            case.backbone, name, "accuracy", case.budget, 2 * case.number + arm, overrides
        )
        method = Method(search, BASELINE)
        scores = []
        with TemporaryDirectory(prefix="meanmax-") as trained:
            runs = SearchRuns([method], groups, {method.name: moved}, trained)
            chosen = runs.run(_execute_all)
            for seed, task in moved.items():
                settings = chosen[method.name, groups[seed % len(groups)]][0].trial.settings
                spec = replace(task.spec, settings=settings)
                (row,) = _execute_all("", [replace(task, spec=spec, trained=trained)])
                scores.append(row.metrics["test_score"])
        found.append(scores)
    return Outcome(case, *found)


def run_cases(cases: Sequence[Case], file: Path, jobs: int | None) -> Iterator[Outcome]:
    r"""Yields the outcomes of all cases; those in the file are not repeated, others are added."""
    done = {outcome.case: outcome for outcome in read_outcomes(file)}
    yield from (done[case] for case in cases if case in done)
    left = [case for case in cases if case not in done]
    for _, result in in_parallel(run_case, left, jobs=jobs):
        if result.result is None:
            raise RuntimeError(f"a comparison failed: {result.error}")
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(result.result)) + "\n")
        yield result.result


def read_outcomes(file: Path) -> list[Outcome]:
    r"""The outcomes in a file; a line that was written in part is left out."""
    if not file.is_file():
        return []
    found = []
    for number, line in enumerate(file.read_bytes().splitlines(keepends=True), start=1):
        if line.endswith(b"\n"):
            with refusing(f"{file}:{number}", "remove the line, or choose another file"):
                facts: dict[str, Any] = json.loads(line)
                outcome = Outcome(Case(**facts.pop("case")), **facts)
                for scores in (outcome.baseline, outcome.copy):
                    if not isinstance(scores, list) or not all(map(_is_score, scores)):
                        raise ValueError("scores must be lists of numbers")
                found.append(outcome)
    return found


def _is_score(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= 100


def counts(outcomes: Sequence[Outcome], planted: float = 0.0) -> dict[str, int]:
    r"""How many comparisons end with each judgement."""
    listed = [str(outcome.judgement(planted)) for outcome in outcomes]
    return {name: listed.count(name) for name in sorted(set(listed))}


def _execute_all(what: str, tasks: Sequence[Task]) -> list[Row]:
    from meanmax.study.runs.execute import execute

    return [execute(task).row for task in tasks]


def _row(aggr: str, split: int, score: float) -> Row:
    facts: dict[str, Any] = {name: "" for name in ("data", "data_hash", "split", "key")}
    facts |= {"split_seed": split, "split_hash": str(split), "seed": split, "settings": {}}
    facts |= {"backbone": "gcn", "aggr": aggr, "settings_name": "auto", "status": "ok"}
    return Row(**facts, metrics={"test_score": score})
