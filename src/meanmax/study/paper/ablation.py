r"""The ablation: the published settings with one choice changed at a time."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from typing import Any

from meanmax.study.paper.result_tables import SCHEMES
from meanmax.study.runs.machine import revision_notes
from meanmax.study.runs.row import Row
from meanmax.study.settings.settings import settings_for
from meanmax.study.stats.cells import select
from meanmax.study.stats.comparison import BASELINE, Line, compare

AGGRS = ("lp", "poly", "softmax")
SETTINGS = "published"


@dataclass(frozen=True)
class Variant:
    r"""One aggregator with one choice changed.

    Args:
        name (str): The choice.
        aggr (str): The aggregator.
        overrides (dict): The settings that differ from the published ones.
    """

    name: str
    aggr: str
    overrides: dict[str, Any]


@dataclass(frozen=True)
class Effect:
    r"""The result of a variant on one data set.

    Args:
        variant (Variant): The variant; :obj:`None` for the baseline.
        data (str): The data set.
        n (int): The number of runs of status :obj:`"ok"`.
        mean (float): The test score in percent.
        std (float): Its deviation over splits.
        val_mean (float): The validation score.
        difference (float): To the baseline, paired.
        low (float): The lower end of its 95 % interval.
        high (float): The upper end.
        learned (float): The mean of the learned parameter.
    """

    variant: Variant | None
    data: str
    n: int
    mean: float
    std: float
    val_mean: float
    difference: float = math.nan
    low: float = math.nan
    high: float = math.nan
    learned: float = math.nan


@dataclass(frozen=True)
class Ablation:
    r"""The results of all variants.

    Args:
        effects (list): One for each variant and data set, the baselines first.
        notes (list): Further sentences for the reader.
    """

    effects: list[Effect]
    notes: list[str]


@cache
def variants() -> tuple[Variant, ...]:
    r"""All variants, in the order of the file."""
    text = files("meanmax.study").joinpath("settings", "ablation.toml").read_text("utf-8")
    found = []
    for entry in tomllib.loads(text)["variant"]:
        own = entry.get("by_aggr", {})
        for aggr in AGGRS:
            if not own or aggr in own:
                changed = {**entry.get("set", {}), **own.get(aggr, {})}
                found.append(Variant(entry["name"], aggr, changed))
    return tuple(found)


def ablation(rows: Sequence[Row], data: Sequence[str], splits: int | None = None) -> Ablation:
    r"""Compares every variant of GCN with the baseline of the published settings.

    Args:
        rows (sequence): All rows.
        data (sequence): The data sets.
        splits (int, optional): The number of splits, from seed 0 on. (default: all)
    """
    found: list[Effect] = []
    shown: dict[str, Row] = {}
    for name in data:
        for variant in (None, *variants()):
            aggr = BASELINE if variant is None else variant.aggr
            wanted = partial(_settings, {} if variant is None else variant.overrides)
            selected = select(rows, name, wanted, SCHEMES.get(name), splits)
            line = compare(selected, "gcn", [BASELINE, aggr], data=name).lines[-1]
            found.append(_effect(line, name, variant))
            shown |= {row.key: row for row in selected.of("gcn", aggr).values()}
    return Ablation(found, revision_notes(list(shown.values())))


def _settings(overrides: dict[str, Any], backbone: str, aggr: str, data: str) -> dict[str, Any]:
    return settings_for(SETTINGS, backbone, aggr, data, {} if aggr == BASELINE else overrides)


def _effect(line: Line, data: str, variant: Variant | None) -> Effect:
    pair = line.paired
    ends = {} if pair is None else {n: getattr(pair, n) for n in ("difference", "low", "high")}
    learned = next(iter(line.learned.values()), (math.nan,))[0]
    means = line.n, line.mean, line.std, line.val_mean
    return Effect(variant, data, *means, **ends, learned=learned)
