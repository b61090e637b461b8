r"""The search for settings on validation nodes: its space, its trials and its choice.

Every method gets the same number of trials, and trial :math:`i` of all methods shares one draw of
the settings that all of them have. A learnable aggregator also has the baseline's choice among its
candidates, frozen at its linear end, where it is the baseline: it may lose by noise, but not
because it was given a worse model to work in.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from meanmax.names import AGGREGATORS, BACKBONES, LEARNED, METRICS, PYG_BASELINES, Level
from meanmax.study.runs.row import Row, json_safe
from meanmax.study.settings.settings import (
    BASE,
    OPTIONAL,
    SettingsError,
    apply_rules,
    base_of,
    fitting_name,
    is_condition,
    is_tables,
    option_text,
    packaged,
    parsed_toml,
    settings_for,
    settings_key,
)
from meanmax.study.stats.cells import mean_and_std
from meanmax.study.stats.comparison import BASELINE
from meanmax.train.settings import KINDS, check_name

SPACE = "search"
r"""The space in the package."""
SPACES: dict[Level, str] = {"node": SPACE, "graph": "search_graphs"}
r"""The spaces in the package, by what has the labels."""
SHARES = (1.0, 1 / 3, 1 / 9)
r"""The share of the trials that reach each round."""
LIMITS: dict[Level, tuple[int, int, int]] = {"node": (40, 120, 1000), "graph": (10, 30, 200)}
r"""The most epochs of a trial in each round, the last ones also of reported runs, by what has the
labels. An epoch of graphs has many steps, one for each mini-batch.
"""
DEEP = 4
r"""Layers from which a model learns so slowly at first that halving would always drop it."""
LINEAR_END: dict[str, dict[str, Any]] = {
    "lp": {"start": 1.0, "shift": "consistent"},
    "poly": {"start": 0.0, "normalize": "sum"},
    "softmax": {"start": 0.0, "normalize": "sum"},
    "spread": {"start": 0.0, "normalize": "sum"},
}
r"""Where a learnable aggregator is the layer's own aggregation."""
_DRAWS = 100  # attempts to draw settings that are new


@dataclass(frozen=True)
class Trial:
    r"""A method with settings to try. Trial 0 has the settings of the file."""

    number: int
    aggr: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class Search:
    r"""A search for settings of one backbone on one data set.

    The first trials of each method have the settings of the file and the space's anchors. The
    others are random draws. A larger budget contains the trials of a smaller one.
    """

    backbone: str
    data: str
    metric: str  # that early stopping, the choice and the tables use
    budget: int = 12  # trials of each method
    seed: int = 0  # of the draws
    fixed: Mapping[str, Any] = field(default_factory=dict)  # the same in all trials
    space_name: str | None = None  # the file of the space; that of the package by default
    level: Level = "node"  # of the labels

    @property
    def content(self) -> dict[str, Any]:
        r"""The file of the space."""
        return read_space(self.space_name or SPACES[self.level])

    @property
    def limits(self) -> tuple[int, int, int]:
        r"""The most epochs of a trial in each round."""
        return LIMITS[self.level]

    def space(self, aggr: str) -> dict[str, list[Any]]:
        r"""The values of each setting that is searched for an aggregator."""
        found = apply_rules(self.content, self.backbone, aggr, self.data, metric=self.metric)
        start = self.settings(aggr, {})
        fitting = {
            name: [value for value in values if self._fits(name, value)]
            for name, values in found.items()
        }
        return {
            name: values
            for name, values in fitting.items()
            if name not in self.fixed
            # what the method does not have, such as a norm of PNA, makes no different trial
            if any(self.settings(aggr, {name: value}) != start for value in values)
        }

    def _fits(self, name: str, value: Any) -> bool:
        r"""Whether a value can stand beside the fixed settings: a sum is what :obj:`beta` leads to,
        and a readout other than these two leaves no place for the aggregator in it.
        """
        if (name, value) == ("readout", "sum"):
            return self.fixed.get("beta") is None
        if (name, value) == ("nonlinear", "readout"):
            return self.fixed.get("readout") in (None, "mean", "sum")
        return True

    def trials(self, aggr: str) -> list[Trial]:
        r"""The trials of an aggregator, the baseline's too."""
        shared, space = self._shared(), self.space(aggr)
        own = {n: values for n, values in space.items() if n not in self.space(BASELINE)}
        draw = random.Random(f"{self.seed} {self.backbone} {aggr}")
        found = [self.settings(aggr, {})]
        seen = {settings_key(found[0])}
        for common in shared:
            for _ in range(_DRAWS):
                drawn = {name: draw.choice(values) for name, values in own.items()}
                settings = self.settings(aggr, {**common, **drawn})
                if (text := settings_key(settings)) not in seen:
                    seen.add(text)
                    found.append(settings)
                    break
        return [Trial(number, aggr, settings) for number, settings in enumerate(found)]

    def contained(self, trial: Trial, aggr: str) -> list[Trial]:
        r"""A trial of the baseline as candidates of an aggregator: learned as by default, and
        frozen at the linear end, where it is the baseline, unless fixed settings exclude that. None
        for aggregators that have no linear end.
        """
        if aggr not in LEARNED:
            return []
        searched = self.space(BASELINE)
        common = {name: trial.settings.get(name) for name in searched}
        learned = self.settings(aggr, common)
        linear = {**LINEAR_END[aggr], "learn": False}
        frozen = self.settings(aggr, {**common, **linear, "per": "layer"})
        found = [Trial(self.budget, aggr, learned), Trial(self.budget + 1, aggr, frozen)]
        is_baseline = linear.items() <= frozen.items() and "beta" not in frozen
        return found if is_baseline else found[:1]

    def settings(self, aggr: str, drawn: Mapping[str, Any]) -> dict[str, Any]:
        r"""The settings of an aggregator with some of them drawn; :obj:`"none"` is no value."""
        given = {
            name: None if value == "none" and name != "activation" else value  # where it is a value
            for name, value in drawn.items()
        }
        always = {"metric": self.metric, "select": "score", "epochs": self.limits[-1]}
        overrides = {**always, **given, **self.fixed}
        base = fitting_name(BASE, self.level)
        return settings_for(base, self.backbone, aggr, self.data, overrides)

    def _shared(self) -> list[dict[str, Any]]:
        r"""The settings that all methods share, for every trial but the first."""
        space, draw = self.space(BASELINE), random.Random(f"{self.seed}")
        start = self.settings(BASELINE, {})
        seen, found = {settings_key(start)}, []
        for anchor in self.content.get("anchor", []):
            drawn = {
                name: value
                for name, value in anchor.items()
                if name in space and self._fits(name, value)
            }
            if (text := settings_key(self.settings(BASELINE, drawn))) not in seen:
                seen.add(text)
                found.append(drawn)
        for _ in range(_DRAWS * self.budget):
            if len(found) >= self.budget - 1:
                break
            drawn = {name: draw.choice(values) for name, values in space.items()}
            if (text := settings_key(self.settings(BASELINE, drawn))) not in seen:
                seen.add(text)
                found.append(drawn)
        if len(found) < self.budget - 1:
            raise SettingsError(
                f"the space has {len(found) + 1} different settings of the baseline (got a budget "
                f"of {self.budget}): lower --budget, or give the space more values"
            )
        return found[: self.budget - 1]


@cache
def read_space(name: str) -> dict[str, Any]:
    r"""A space: that of the package, or a .toml file of the same form."""
    if name in SPACES.values():
        return packaged(name)
    try:
        content = parsed_toml(Path(name).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"the space {name!r} cannot be read ({error})") from error
    rules, anchors = content.get("rule", []), content.get("anchor", [])
    if not (
        content.keys() <= {"default", "anchor", "rule"}
        and isinstance(content.get("default"), dict)
        and is_tables(rules)
        and is_tables(anchors)
        and all(is_condition(rule.get("when"), "metric") for rule in rules)
    ):
        raise SettingsError(
            f"the space {name!r} must have a table [default], and may have [[anchor]] and [[rule]] "
            f"with when = {{ backbone = [...], aggr = [...], data = [...], metric = [...] }} "
            f"(got {', '.join(content) or 'nothing'})"
        )
    for values in [content["default"], *rules]:
        for setting, listed in values.items():
            if setting == "when":
                continue
            check_name(setting)
            if not isinstance(listed, list) or not listed:
                raise SettingsError(
                    f"the space {name!r} must list the values of '{setting}', such as [0.01, 0.1] "
                    f"(got {listed!r})"
                )
    known = {"backbone": BACKBONES, "aggr": (BASELINE, *AGGREGATORS, *PYG_BASELINES)}
    for rule in rules:
        for fact, listed in {**known, "metric": tuple(METRICS)}.items():
            if unknown := set(rule["when"].get(fact, ())) - set(listed):
                raise SettingsError(
                    f"the space {name!r} has a rule for {fact} "
                    f"{', '.join(sorted(map(repr, unknown)))}, which does not exist: it must be "
                    f"one of {', '.join(listed)}"
                )
    for anchor in anchors:
        for setting in anchor:
            check_name(setting)
    return content


@dataclass(frozen=True)
class Tried:
    r"""The outcome of a trial: means over splits, NaN without any run. No metric of test nodes is
    read here.
    """

    trial: Trial
    n: int  # runs of status "ok"
    failed: int  # other runs
    score: float  # of validation nodes, in percent where the metric has percents
    std: float  # of the score; NaN for one split
    loss: float  # of validation nodes
    epochs: int  # that the runs could have at most

    def as_dict(self) -> dict[str, Any]:
        r"""Plain values."""
        facts: dict[str, Any] = json_safe({**vars(self), **vars(self.trial)})
        del facts["trial"]
        return facts


def tried(trial: Trial, rows: Sequence[Row], epochs: int) -> Tried:
    r"""The outcome of a trial, from its runs, one for each split."""
    good = [row for row in rows if row.status == "ok"]
    score, std = mean_and_std(row.metrics["val_score"] for row in good)
    loss, _ = mean_and_std(row.metrics["val_loss"] for row in good)
    return Tried(trial, len(good), len(rows) - len(good), score, std, loss, epochs)


def ranked(listed: Sequence[Tried], metric: str) -> list[Tried]:
    r"""The trials by validation score, best first; at equal scores by loss, then by number. Trials
    with a failed run are left out.
    """
    sign = -1.0 if METRICS[metric].higher_is_better else 1.0
    whole = [one for one in listed if one.n and not one.failed and not math.isnan(one.score)]
    return sorted(whole, key=lambda one: (sign * one.score, one.loss, one.trial.number))


def promoted(listed: Sequence[Tried], budget: int, rung: int) -> list[Trial]:
    r"""The trials that reach a round, of those of the round before, best first. The best deep model
    reaches the second round in any case.
    """
    best = listed[: survivors(budget, rung)]
    if rung == 1 and not any(_is_deep(one) for one in best):
        best = [*best, *[one for one in listed if _is_deep(one)][:1]]
    return [one.trial for one in best]


def _is_deep(one: Tried) -> bool:
    return int(one.trial.settings.get("layers", 0)) >= DEEP


def survivors(budget: int, rung: int) -> int:
    r"""How many of the trials reach a round.

    Example:
        >>> [survivors(12, rung) for rung in range(len(SHARES))]
        [12, 4, 2]
    """
    return max(1, math.ceil(budget * SHARES[rung] - 1e-9))


def settings_file(
    chosen: Mapping[tuple[str, str], Tried], data: str, budget: int, **search: Any
) -> str:
    r"""The text of a settings file with the settings chosen for each backbone and aggregator, and
    with further facts of the search in its table :obj:`[search]`.
    """
    base = next((base_of(one.trial.settings) for one in chosen.values()), BASE)
    lines = [
        f"# Chosen by validation scores alone, from {budget} trials of each method. "
        f"Use: --settings FILE",
        f"base = {_toml(base)}",
        "",
        "[search]",
        *[f"{name} = {_toml(value)}" for name, value in {"budget": budget, **search}.items()],
    ]
    for (backbone, aggr), one in chosen.items():
        when = {"backbone": backbone, "aggr": aggr, "data": data}
        facts = ", ".join(f"{fact} = [{_toml(value)}]" for fact, value in when.items())
        lines += ["", "[[rule]]", f"when = {{ {facts} }}"]
        usual = settings_for(base, backbone, aggr, data)
        left_out = {n: "none" for n in usual if n in OPTIONAL and n not in one.trial.settings}
        listed = {**one.trial.settings, **left_out}
        lines += [f"{name} = {_toml(value)}" for name, value in listed.items()]
    return "\n".join(lines) + "\n"


def changes(search: Search, trial: Trial) -> str:
    r"""The searched settings of a trial, and others that differ from the first trial, such as those
    of the linear end, as :obj:`--set` takes them.
    """
    first, space = search.settings(trial.aggr, {}), search.space(trial.aggr)
    found = {n: trial.settings.get(n) for n in KINDS if n in space or n in first}
    return ", ".join(
        f"{name}={option_text(value)}"
        for name, value in found.items()
        if (name in space or value != first.get(name)) and (value is not None or name in OPTIONAL)
    )


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        marks = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
        return f'"{"".join(marks.get(mark, mark) for mark in value)}"'
    return repr(value)
