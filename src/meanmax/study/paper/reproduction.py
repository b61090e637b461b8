r"""A reproduction of the paper: its tables and figures, the ablation, and the runs that they need.

The ablation is the published settings of GCN with one choice changed at a time.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from meanmax.data import CATALOG
from meanmax.study.paper import depth
from meanmax.study.paper.depth import SETTINGS
from meanmax.study.paper.result_tables import AGGRS, BACKBONES, PPI, SCHEMES, SETS, Tabled, table
from meanmax.study.runs.machine import revision_notes
from meanmax.study.runs.plan import Plan, reference, settings_text
from meanmax.study.runs.row import Row
from meanmax.study.settings.settings import override_options, packaged, settings_for
from meanmax.study.stats.cells import select
from meanmax.study.stats.comparison import BASELINE, compare

ABLATION = ("cora", "photo")
EMBEDDED = (("photo", "gcn"), ("computers", "gat"))


@dataclass(frozen=True)
class Variant:
    r"""One aggregator with one choice changed by settings that differ from the published ones."""

    name: str
    aggr: str
    overrides: dict[str, Any]


@dataclass(frozen=True)
class Effect:
    r"""The result of a variant on one data set; scores are in percent."""

    variant: Variant | None  # None for the baseline
    data: str
    n: int  # runs of status "ok"
    mean: float
    std: float
    val_mean: float
    difference: float  # to the baseline, paired, with its 95 % interval
    low: float
    high: float
    learned: float  # the mean of the learned parameter


class Ablation(NamedTuple):
    r"""The effects for each data set, that of the baseline first, and notes on the rows."""

    effects: list[Effect]
    notes: list[str]


@cache
def variants() -> tuple[Variant, ...]:
    r"""All variants, in the order of the file."""
    found = []
    for entry in packaged("ablation")["variant"]:
        own = entry.get("by_aggr", {})
        for aggr in own or AGGRS[1:]:
            changed = {**entry.get("set", {}), **own.get(aggr, {})}
            found.append(Variant(entry["name"], aggr, changed))
    return tuple(found)


def ablation(rows: Sequence[Row], data: Sequence[str], splits: int | None = None) -> Ablation:
    r"""Compares every variant of GCN with the baseline of the published settings, on a number of
    splits from seed 0 on (by default all).
    """
    found: list[Effect] = []
    shown: dict[str, Row] = {}
    for name in data:
        for variant in (None, *variants()):
            aggr = variant.aggr if variant else BASELINE
            wanted = partial(_settings, variant.overrides if variant else {})
            selected = select(rows, name, wanted, SCHEMES.get(name), splits)
            line = compare(selected, "gcn", [BASELINE, aggr], data=name).lines[-1]
            pair = line.paired
            ends = (pair.difference, pair.low, pair.high) if pair else (math.nan,) * 3
            learned = next(iter(line.learned.values()), (math.nan,))[0]
            means = line.n, line.mean, line.std, line.val_mean
            found.append(Effect(variant, name, *means, *ends, learned))
            shown |= {row.key: row for row in selected.of("gcn", aggr).values()}
    return Ablation(found, revision_notes(list(shown.values())))


def _settings(overrides: dict[str, Any], backbone: str, aggr: str, data: str) -> dict[str, Any]:
    return settings_for(SETTINGS, backbone, aggr, data, {} if aggr == BASELINE else overrides)


@dataclass(frozen=True)
class Reproduction:
    r"""Which parts of the paper to reproduce, and how."""

    tables: Sequence[int] = ()  # any of 2, 3 and 4
    ablation: bool = False
    figures: bool = False
    data: Sequence[str] = ()  # empty for the data sets of each table
    backbones: Sequence[str] = BACKBONES
    aggrs: Sequence[str] = AGGRS
    splits: int = 10
    scheme: str | None = None  # None for the paper's splits
    settings_name: str = "published"
    overrides: dict[str, Any] = field(default_factory=dict)
    data_dir: Path | None = None
    store: Path | None = None  # the folder of the runs, if it is not the default

    def sets(self, number: int) -> list[str]:
        r"""The data sets of a table."""
        if not self.data:
            return [some_ppi(self.data_dir)] if number == 4 else list(SETS)
        return [name for name in self.data if (name in PPI) == (number == 4)]

    def ablation_sets(self) -> list[str]:
        r"""The data sets of the ablation."""
        return list(self.data or ABLATION)

    def described(self) -> str:
        r"""The settings in words."""
        return settings_text(self.settings_name, self.overrides, self.scheme)

    def plans(self) -> list[Plan]:
        r"""All runs, data set by data set."""
        options = range(self.splits), self.settings_name, self.scheme, self.overrides
        plans = [
            Plan(reference(name, self.data_dir), self.backbones, self.aggrs, *options)
            for name in dict.fromkeys(name for number in self.tables for name in self.sets(number))
        ]
        for name in self.ablation_sets() if self.ablation else ():
            base = self._published(name, "gcn", ["none"], self.splits)
            plans.append(base)
            plans += [replace(base, aggrs=[v.aggr], overrides=v.overrides) for v in variants()]
        return plans + (self._plans_of_figures() if self.figures else [])

    def _plans_of_figures(self) -> list[Plan]:
        r"""Losses on the citation graphs, one split for each embedding, and depths."""
        cited = [name for name in depth.SETS if name in (self.data or depth.SETS)]
        losses = [self._published(name, "gcn", AGGRS, self.splits) for name in cited]
        embeddings = [
            self._published(name, backbone, AGGRS, 1)
            for name, backbone in EMBEDDED
            if name in (self.data or [name])
        ]
        splits = min(self.splits, depth.SPLITS)
        return losses + embeddings + depth.plans(cited, splits=splits, data_dir=self.data_dir)

    def _published(self, data: str, backbone: str, aggrs: Sequence[str], splits: int) -> Plan:
        return Plan(reference(data, self.data_dir), [backbone], aggrs, range(splits), SETTINGS)

    def table(self, rows: Sequence[Row], number: int) -> Tabled:
        r"""A table from rows."""
        names = ("backbones", "aggrs", "settings_name", "overrides", "scheme", "splits")
        options = {name: getattr(self, name) for name in names}
        return table(rows, number, data=self.sets(number), **options)

    def missing(self, tabled: Tabled) -> list[str]:
        r"""The commands that complete cells with too few runs, each once."""
        short = [cell for cell in tabled.cells if cell.n < self.splits]
        failed = {(cell.data, cell.backbone) for cell in short if cell.failed}
        places = dict.fromkeys((cell.data, cell.backbone) for cell in short)
        return [self._command(tabled.number, *place, retry=place in failed) for place in places]

    def missing_in_ablation(self, effects: Sequence[Effect]) -> list[str]:
        r"""The commands that complete lines of the ablation with too few runs."""
        short = dict.fromkeys(effect.data for effect in effects if effect.n < self.splits)
        return [shlex.join([*self._words("ablation", name), *self._places()]) for name in short]

    def _command(self, number: int, data: str, backbone: str, *, retry: bool) -> str:
        words = self._words(f"table{number}", data, "--backbone", backbone)
        if tuple(self.aggrs) != AGGRS:
            words += ["--aggr", ",".join(self.aggrs)]
        if retry:
            words += ["--retry-failed"]
        words += self._places()
        if self.settings_name != "published":
            words += ["--settings", self.settings_name]
        if self.scheme is not None:
            words += ["--split", self.scheme]
        return shlex.join(words + override_options(self.overrides))

    def _words(self, what: str, data: str, *more: str) -> list[str]:
        return ["meanmax", "reproduce", what, "--data", data, *more, "--splits", str(self.splits)]

    def _places(self) -> list[str]:
        words = [] if self.store is None else ["--store", str(self.store)]
        return words + ([] if self.data_dir is None else ["--data-dir", str(self.data_dir)])


def some_ppi(data_dir: Path | None) -> str:
    r"""The released PPI, unless only the one with rebuilt labels is on disk."""
    here = [name for name in PPI if CATALOG[name].located(data_dir) is not None]
    return here[0] if here else "ppi"
