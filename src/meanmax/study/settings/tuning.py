r"""Settings chosen among trials, by validation nodes alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from meanmax.study.runs.plain import plain
from meanmax.study.runs.row import Row
from meanmax.study.settings.search import (Search, Trial)

SCORE, LOSS = "val_score", "val_loss"
r"""The metrics that choose. No other is read here, least of all one of test nodes."""


@dataclass(frozen=True)
class Tried:
    r"""What a trial came to.

    Args:
        trial (Trial): The trial.
        n (int): Runs that ended well.
        failed (int): Runs that did not.
        score (float): The mean validation score over splits, in percent; NaN if there is none.
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
        found: dict[str, Any] = plain({**vars(self), **vars(self.trial), "trial": None})
        del found["trial"]
        return found


def tried(trial: Trial, rows: Sequence[Row]) -> Tried:
    r"""What a trial came to.

    Args:
        trial (Trial): The trial.
        rows (sequence): Its runs, one for each split.
    """
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
    r"""The trial with the highest validation score, at equal ones that with the lowest loss, then
    the earlier one. A trial of which a run failed cannot be chosen; :obj:`None` if none can.

    Args:
        listed (sequence): The trials of one method.
    """
    whole = [one for one in listed if one.n and not one.failed]
    return max(whole, key=lambda one: (one.score, -one.loss, -one.trial.number), default=None)


def rules_text(search: Search, chosen: Mapping[str, Tried], splits: int) -> str:
    r"""Chosen settings in the form of a settings file.

    Args:
        search (Search): The search.
        chosen (mapping): The trial for each aggregator.
        splits (int): How many splits chose it.
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
    r"""The settings of a trial that were searched, or fixed for all trials.

    Args:
        search (Search): The search.
        trial (Trial): One of its trials.
    """
    names = {**search.space(trial.aggr), **search.fixed}
    return {name: trial.settings[name] for name in names if name in trial.settings}


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        marks = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
        return f'"{"".join(marks.get(mark, mark) for mark in value)}"'
    return repr(value)
