r"""Random search of settings, with the same number of trials for each method."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from meanmax.study.runs.row import Row, json_safe
from meanmax.study.settings.settings import (
    SettingsError,
    apply_rules,
    packaged,
    settings_for,
    settings_key,
)
from meanmax.study.stats.cells import mean_and_std
from meanmax.study.stats.comparison import BASELINE

_DRAWS = 100  # attempts to draw settings of an aggregator that are new


@dataclass(frozen=True)
class Trial:
    r"""One method with settings to try. Trial 0 has the settings of the file."""

    number: int
    aggr: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class Search:
    r"""A search for settings of one backbone on one data set.

    The first trial of each method has the settings of the file. After that, trial :math:`i` of all
    methods shares one draw, without repetition, of the settings that all of them have (width,
    learning rate, dropout, weight decay), and has its own draw of the aggregator's settings. A
    larger budget contains the trials of a smaller one.
    """

    backbone: str
    data: str
    settings_name: str = "default"  # the settings file to start from
    budget: int = 20  # trials of each method
    seed: int = 0  # of the draws
    fixed: Mapping[str, Any] = field(default_factory=dict)  # the same in all trials

    def space(self, aggr: str) -> dict[str, list[Any]]:
        r"""The values of each setting that is searched for an aggregator."""
        found = apply_rules(packaged("search"), self.backbone, aggr, self.data)
        return {name: values for name, values in found.items() if name not in self.fixed}

    def trials(self, aggr: str) -> list[Trial]:
        r"""The trials of an aggregator, the baseline's too."""
        common = self._common()
        own = {n: values for n, values in self.space(aggr).items() if n not in common[0]}
        draw = random.Random(f"{self.seed} {self.backbone} {aggr}")
        found = [self._settings(aggr, {})]
        seen = {settings_key(found[0])}
        for shared in common[: self.budget - 1]:
            for _ in range(_DRAWS):
                drawn = {name: draw.choice(values) for name, values in own.items()}
                settings = self._settings(aggr, {**shared, **drawn})
                if (text := settings_key(settings)) not in seen:
                    seen.add(text)
                    found.append(settings)
                    break
        return [Trial(number, aggr, settings) for number, settings in enumerate(found)]

    def _common(self) -> Sequence[dict[str, Any]]:
        r"""The settings that all methods share, for every trial but the first."""
        space = self.space(BASELINE)
        start = self._settings(BASELINE, {})
        combined = [dict(zip(space, v, strict=True)) for v in itertools.product(*space.values())]
        left = [one for one in combined if any(start.get(n) != one[n] for n in one)]
        if self.budget > len(left) + 1:
            raise SettingsError(
                f"there are {len(left) + 1} different settings of the baseline to try "
                f"(got a budget of {self.budget}): ask for no more than that"
            )
        random.Random(f"{self.seed}").shuffle(left)
        return left or [{}]

    def _settings(self, aggr: str, drawn: Mapping[str, Any]) -> dict[str, Any]:
        overrides = {**drawn, **self.fixed}
        return settings_for(self.settings_name, self.backbone, aggr, self.data, overrides)


SCORE, LOSS = "val_score", "val_loss"
r"""The metrics that select a trial. No metric of test nodes is read here."""


@dataclass(frozen=True)
class Tried:
    r"""The outcome of a trial: means over splits, NaN without any run."""

    trial: Trial
    n: int  # runs of status "ok"
    failed: int  # other runs
    score: float  # of validation nodes, in percent
    std: float  # of the score; NaN for one split
    loss: float  # of validation nodes

    def as_dict(self) -> dict[str, Any]:
        r"""Plain values."""
        facts: dict[str, Any] = json_safe({**vars(self), **vars(self.trial)})
        del facts["trial"]
        return facts


def tried(trial: Trial, rows: Sequence[Row]) -> Tried:
    r"""The outcome of a trial, from its runs, one for each split."""
    good = [row for row in rows if row.status == "ok"]
    score, std = mean_and_std(row.metrics[SCORE] for row in good)
    loss, _ = mean_and_std(row.metrics[LOSS] for row in good)
    return Tried(trial, len(good), len(rows) - len(good), score, std, loss)


def best(listed: Sequence[Tried]) -> Tried | None:
    r"""The trial of a method with the highest validation score; at equal scores the one with the
    lowest loss, then the earliest. Trials with a failed run are left out; :obj:`None` without any.
    """
    whole = [one for one in listed if one.n and not one.failed]
    return max(whole, key=lambda one: (one.score, -one.loss, -one.trial.number), default=None)


def rules_text(search: Search, chosen: Mapping[str, Tried], splits: int) -> str:
    r"""The text of a settings file with the trial that was selected for each aggregator."""
    lines = [
        f"# Chosen by validation score alone: {search.budget} settings of each method, the first "
        f"those of '{search.settings_name}',",
        f"# on {splits} split{'s' if splits > 1 else ''}, drawn with seed {search.seed} from what "
        f"`meanmax tune` searches. Use: --settings FILE",
        f"base = {_toml(search.settings_name)}",
    ]
    for aggr, one in chosen.items():
        when = {"backbone": search.backbone, "aggr": aggr, "data": search.data}
        listed = ", ".join(f"{fact} = [{_toml(value)}]" for fact, value in when.items())
        lines += ["", "[[rule]]", f"when = {{ {listed} }}"]
        lines += [f"{name} = {_toml(value)}" for name, value in settled(search, one.trial).items()]
    return "\n".join(lines) + "\n"


def settled(search: Search, trial: Trial) -> dict[str, Any]:
    r"""The settings of a trial that were searched, or fixed for all trials."""
    names = {**search.space(trial.aggr), **search.fixed}
    return {name: trial.settings[name] for name in names if name in trial.settings}


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        marks = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
        return f'"{"".join(marks.get(mark, mark) for mark in value)}"'
    return repr(value)
