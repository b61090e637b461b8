r"""Random search of settings, with the same number of trials for each method."""

from __future__ import annotations

import itertools
import json
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from meanmax.study.runs.row import Row, json_safe
from meanmax.study.settings.settings import SettingsError, apply_rules, packaged, settings_for
from meanmax.study.stats.comparison import BASELINE

_DRAWS = 100  # attempts to draw settings of an aggregator that are new


@dataclass(frozen=True)
class Trial:
    r"""One method with settings to try.

    Args:
        number (int): From 0, the trial with the settings of the file.
        aggr (str): The aggregator.
        settings (dict): All settings of the run.
    """

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

    Args:
        backbone (str): The backbone.
        data (str): The data set.
        settings_name (str): The settings file to start from.
        budget (int): Trials of each method.
        seed (int): The seed of the draws.
        fixed (mapping): Settings that are the same in all trials.
    """

    backbone: str
    data: str
    settings_name: str = "default"
    budget: int = 20
    seed: int = 0
    fixed: Mapping[str, Any] = field(default_factory=dict)

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
        seen = {json.dumps(found[0], sort_keys=True)}
        for shared in common[: self.budget - 1]:
            for _ in range(_DRAWS):
                drawn = {name: draw.choice(values) for name, values in own.items()}
                settings = self._settings(aggr, {**shared, **drawn})
                if (text := json.dumps(settings, sort_keys=True)) not in seen:
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
    r"""The outcome of a trial.

    Args:
        trial (Trial): The trial.
        n (int): Successful runs.
        failed (int): Failed runs.
        score (float): The mean validation score over splits, in percent; NaN without any.
        std (float): Its standard deviation; NaN for one split.
        loss (float): The mean validation loss.
    """

    trial: Trial
    n: int
    failed: int
    score: float
    std: float
    loss: float

    def as_dict(self) -> dict[str, Any]:
        r"""Plain values."""
        facts = {**vars(self), **vars(self.trial)}
        del facts["trial"]
        found: dict[str, Any] = json_safe(facts)
        return found


def tried(trial: Trial, rows: Sequence[Row]) -> Tried:
    r"""The outcome of a trial, from its runs, one for each split."""
    good = [row for row in rows if row.status == "ok"]
    scores = [row.metrics[SCORE] for row in good]
    return Tried(
        trial,
        n=len(good),
        failed=len(rows) - len(good),
        score=statistics.fmean(scores) if scores else math.nan,
        std=statistics.stdev(scores) if len(scores) > 1 else math.nan,
        loss=statistics.fmean(row.metrics[LOSS] for row in good) if good else math.nan,
    )


def best(listed: Sequence[Tried]) -> Tried | None:
    r"""The trial of a method with the highest validation score; at equal scores the one with the
    lowest loss, then the earliest. Trials with a failed run are left out; :obj:`None` without any.
    """
    whole = [one for one in listed if one.n and not one.failed]
    return max(whole, key=lambda one: (one.score, -one.loss, -one.trial.number), default=None)


def rules_text(search: Search, chosen: Mapping[str, Tried], splits: int) -> str:
    r"""The text of a settings file with the selected settings.

    Args:
        search (Search): The search.
        chosen (mapping): The trial of each aggregator.
        splits (int): The number of splits.
    """
    lines = [
        f"# Chosen by validation score alone: {search.budget} settings of each method, the first "
        f"those of '{search.settings_name}',",
        f"# on {splits} split{'s' if splits > 1 else ''}, drawn with seed {search.seed} from what "
        f"`meanmax tune` searches. Use: --settings FILE",
    ]
    lines += [f"base = {_toml(search.settings_name)}"]
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
