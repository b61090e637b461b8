r"""Which choices matter: one changed at a time, beside the published settings."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from meanmax.study.paper.tables import SCHEMES
from meanmax.study.runs.machine import revision_notes
from meanmax.study.runs.row import Row, json_safe
from meanmax.study.settings.settings import settings_for
from meanmax.study.stats.cells import Selected, select
from meanmax.study.stats.comparison import BASELINE, compare

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
    r"""What a variant came to on one data set.

    Args:
        variant (Variant): The variant; :obj:`None` for the baseline.
        data (str): The data set.
        n (int): Runs that ended well.
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

    def as_dict(self) -> dict[str, Any]:
        r"""Plain values."""
        variant = None if self.variant is None else vars(self.variant)
        found: dict[str, Any] = json_safe({**vars(self), "variant": variant})
        return found


@dataclass(frozen=True)
class Ablation:
    r"""What all variants came to.

    Args:
        effects (list): One for each variant and data set, the baselines first.
        notes (list): What else a reader has to know.
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


def ablation(
    rows: Sequence[Row], data: Sequence[str], splits: int | None = None, backbone: str = "gcn"
) -> Ablation:
    r"""What every variant came to, each against the baseline with the published settings.

    Args:
        rows (sequence): All rows there are.
        data (sequence): The data sets.
        splits (int, optional): How many splits, from seed 0 on. (default: all there are)
        backbone (str, optional): The backbone. (default: :obj:`"gcn"`)
    """
    found: list[Effect] = []
    shown: dict[str, Row] = {}
    for name in data:
        for variant in (None, *variants()):
            chosen = _chosen(rows, name, splits, variant)
            found.append(_effect(chosen, name, backbone, variant))
            aggr = BASELINE if variant is None else variant.aggr
            shown |= {row.key: row for row in chosen.of(backbone, aggr).values()}
    return Ablation(found, revision_notes(list(shown.values())))


def _chosen(
    rows: Sequence[Row], data: str, splits: int | None, variant: Variant | None
) -> Selected:
    def wanted(backbone: str, aggr: str, data: str) -> dict[str, Any]:
        overrides = variant.overrides if variant is not None and aggr != BASELINE else {}
        return settings_for(SETTINGS, backbone, aggr, data, overrides)

    return select(rows, data, wanted, SCHEMES.get(data), splits)


def _effect(chosen: Selected, data: str, backbone: str, variant: Variant | None) -> Effect:
    aggr = BASELINE if variant is None else variant.aggr
    line = compare(chosen, backbone, [BASELINE, aggr], data=data).lines[-1]
    pair = line.paired
    learned = [mean for mean, _, _ in line.learned.values()]
    return Effect(
        variant,
        data,
        line.n,
        line.mean,
        line.std,
        line.val_mean,
        difference=pair.difference if pair else math.nan,
        low=pair.low if pair else math.nan,
        high=pair.high if pair else math.nan,
        learned=learned[0] if learned else math.nan,
    )
