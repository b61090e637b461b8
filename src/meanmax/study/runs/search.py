r"""Runs a search by successive halving: all trials for a few epochs, the best for more.

The search of every group of splits is one of its own: it sees the training and validation labels of
its splits and nothing else. A comparison makes several searches, so that the variance of the choice
is part of what splits differ by.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace

from meanmax.names import LEARNED
from meanmax.study.runs.plan import Task
from meanmax.study.runs.row import Row
from meanmax.study.settings.search import (
    SHARES,
    Search,
    Trial,
    Tried,
    promoted,
    ranked,
    survivors,
    tried,
)
from meanmax.study.stats.comparison import BASELINE

KEPT_BYTES = 2**29
r"""The most bytes of states that a round leaves."""
RunAll = Callable[[str, Sequence[Task]], Sequence[Row]]
r"""Makes the runs of a round, which the text names, and returns their rows."""


@dataclass(frozen=True)
class Method:
    r"""A backbone with an aggregator, and the search that its trials are drawn from."""

    search: Search
    aggr: str

    @property
    def name(self) -> tuple[str, str]:
        r"""The backbone and the aggregator."""
        return self.search.backbone, self.aggr


Group = tuple[int, ...]  # the seeds of splits that are searched together
Found = dict[tuple[tuple[str, str], Group], list[Tried]]


@dataclass(frozen=True)
class SearchRuns:
    r"""A search of several methods on the same groups of splits.

    Args:
        methods: The methods. The baseline of a backbone is searched before its aggregators end.
        groups: The groups of splits.
        bare: The runs of each method by the seed of the split, whose settings are replaced.
        trained: A folder for the states of trials at the end of a round, from which the next round
            and the runs after the search continue. Without it, and where states are too large for
            :obj:`KEPT_BYTES`, training starts over, with the same outcome.
    """

    methods: Sequence[Method]
    groups: Sequence[Group]
    bare: Mapping[tuple[str, str], Mapping[int, Task]]
    trained: str | None = None

    def run(self, run_all: RunAll) -> Found:
        r"""Makes all rounds; returns the candidates of each method and group, best first."""
        alive = {
            (method.name, group): method.search.trials(method.aggr)
            for group in self.groups
            for method in self.methods
        }
        found: Found = {}
        for rung in range(len(SHARES)):
            if rung:
                alive = {place: promoted(found[place], self._budget, rung) for place in alive}
            found = self._round(f"search, round {rung + 1} of {self.rounds}", alive, rung, run_all)
        learned: dict[tuple[tuple[str, str], Group], Sequence[Trial]] = {}
        frozen: Found = {}
        for method in self.methods:
            for group in self.groups:
                best = found.get(((method.name[0], BASELINE), group))
                if method.aggr == BASELINE or not best:
                    continue
                place = (method.name, group)
                contained = method.search.contained(best[0].trial, method.aggr)
                learned[place] = contained[:1]
                # It is the baseline, so that it has been run.
                frozen[place] = [replace(best[0], trial=trial) for trial in contained[1:]]
        last = f"search, round {self.rounds} of {self.rounds}"
        for place, own in self._round(last, learned, len(SHARES) - 1, run_all).items():
            if trained := [*found[place], *own]:  # else the method itself does not run
                metric = self.methods[0].search.metric
                found[place] = ranked([*trained, *frozen[place]], metric)
        return found

    def begun_in(self, finished: Container[str]) -> bool:
        r"""Whether the whole first round is among finished runs."""
        return all(
            self._task(method.name, seed, trial, 0).spec.key in finished
            for method in self.methods
            for trial in method.search.trials(method.aggr)
            for group in self.groups
            for seed in group
        )

    @property
    def rounds(self) -> int:
        r"""The number of rounds, that of the contained candidates included."""
        return len(SHARES) + 1

    @property
    def epochs(self) -> int:
        r"""The epochs of all rounds, if no trial stops early."""
        total = 0
        for method in self.methods:
            most = self.longest(method)
            for rung, limit in enumerate(self._limits):
                last = rung == len(SHARES) - 1
                new = (most if last else min(limit, most)) - self._begun(rung, most)
                total += (survivors(self._budget, rung) + (rung == 1)) * new
            total += most if method.aggr in LEARNED else 0
        return total * sum(map(len, self.groups))

    @property
    def runs(self) -> int:
        r"""The most runs of all rounds."""
        total = 0
        for method in self.methods:
            for rung in range(len(SHARES)):
                total += survivors(self._budget, rung) + (rung == 1)
            total += method.aggr in LEARNED
        return total * sum(map(len, self.groups))

    def longest(self, method: Method) -> int:
        r"""The most epochs of a trial of a method."""
        trials = method.search.trials(method.aggr)
        return max(int(trial.settings["epochs"]) for trial in trials)

    @property
    def _budget(self) -> int:
        return self.methods[0].search.budget

    def _round(
        self,
        what: str,
        trials: Mapping[tuple[tuple[str, str], Group], Sequence[Trial]],
        rung: int,
        run_all: RunAll,
    ) -> Found:
        tasks = {
            (place, trial.number): [
                self._task(place[0], seed, trial, rung) for seed in sorted(place[1])
            ]
            for place, own in trials.items()
            for trial in own
        }
        made = [task for own in tasks.values() for task in own]
        largest = KEPT_BYTES / max(1, len(made))
        rows = {row.key: row for row in run_all(what, [replace(t, largest=largest) for t in made])}
        return {
            place: ranked(
                [
                    tried(
                        one,
                        [rows[t.spec.key] for t in tasks[place, one.number]],
                        self._epochs(one, rung),
                    )
                    for one in own
                ],
                self.methods[0].search.metric,
            )
            for place, own in trials.items()
        }

    def _task(self, name: tuple[str, str], seed: int, trial: Trial, rung: int) -> Task:
        r"""A run of a trial; it reads no test label and keeps no artefact."""
        bare = self.bare[name][seed]
        settings = {**trial.settings, "epochs": self._epochs(trial, rung)}
        begun = 0 if trial.number >= self._budget else self._begun(rung, trial.settings["epochs"])
        spec = replace(bare.spec, settings=settings)
        return replace(bare, spec=spec, brief=True, trained=self.trained, begun=begun)

    def _begun(self, rung: int, most: int) -> int:
        r"""The epochs that trials have made before a round, if their states are kept."""
        return 0 if rung == 0 or self.trained is None else min(self._limits[rung - 1], most)

    def _epochs(self, trial: Trial, rung: int) -> int:
        r"""The epochs of a trial in a round; in the last one, those of its settings."""
        own = int(trial.settings["epochs"])
        return own if rung == len(SHARES) - 1 else min(self._limits[rung], own)

    @property
    def _limits(self) -> tuple[int, ...]:
        return self.methods[0].search.limits
