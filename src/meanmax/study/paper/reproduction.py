r"""A reproduction of the paper: its tables and the ablation, and the runs that they need."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from meanmax.data import CATALOG
from meanmax.study.paper import depth
from meanmax.study.paper.ablation import SETTINGS, Effect, variants
from meanmax.study.paper.result_tables import AGGRS, BACKBONES, SETS, Cell, Tabled, table
from meanmax.study.runs.plan import Plan, reference
from meanmax.study.runs.row import Row
from meanmax.study.stats.cells import without_folder

ABLATION = ("cora", "photo")
EMBEDDED = (("photo", "gcn"), ("computers", "gat"))
PPI = ("ppi", "ppi-go")


@dataclass(frozen=True)
class Reproduction:
    r"""Which parts of the paper to reproduce, and how.

    Args:
        tables (sequence): Any of 2, 3 and 4.
        ablation (bool): Whether to include the ablation.
        figures (bool): Whether to include the runs of the figures.
        data (sequence): The data sets; empty for those of each table.
        backbones (sequence): The backbones.
        aggrs (sequence): The aggregators.
        splits (int): The number of splits.
        scheme (str, optional): The scheme of splits; :obj:`None` for the paper's.
        settings_name (str): The settings file.
        overrides (dict): Settings that replace the file's.
        data_dir (Path, optional): The folder of the data.
        store (Path, optional): The folder of the runs, if it is not the default.
    """

    tables: Sequence[int] = ()
    ablation: bool = False
    figures: bool = False
    data: Sequence[str] = ()
    backbones: Sequence[str] = BACKBONES
    aggrs: Sequence[str] = AGGRS
    splits: int = 10
    scheme: str | None = None
    settings_name: str = "published"
    overrides: dict[str, Any] = field(default_factory=dict)
    data_dir: Path | None = None
    store: Path | None = None

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
        changed = [f"{name}={value}" for name, value in self.overrides.items()]
        changed += [] if self.scheme is None else [f"splits {without_folder(self.scheme)}"]
        return ", ".join([Path(self.settings_name).name, *changed])

    def plans(self) -> list[Plan]:
        r"""All runs, data set by data set."""
        plans = [
            Plan(
                data=reference(name, self.data_dir),
                backbones=self.backbones,
                aggrs=self.aggrs,
                splits=range(self.splits),
                settings_name=self.settings_name,
                scheme=self.scheme,
                overrides=self.overrides,
            )
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
        return table(
            rows,
            number,
            data=self.sets(number),
            backbones=self.backbones,
            aggrs=self.aggrs,
            settings_name=self.settings_name,
            overrides=self.overrides,
            scheme=self.scheme,
            splits=self.splits,
        )

    def missing(self, tabled: Tabled) -> list[str]:
        r"""The commands that complete cells with too few runs, each once."""
        short = [cell for cell in tabled.cells if cell.n < self.splits]
        failed = {(cell.data, cell.backbone) for cell in short if cell.failed}
        return list(dict.fromkeys(self._command(tabled.number, cell, failed) for cell in short))

    def missing_in_ablation(self, effects: Sequence[Effect]) -> list[str]:
        r"""The commands that complete lines of the ablation with too few runs."""
        short = dict.fromkeys(effect.data for effect in effects if effect.n < self.splits)
        return [shlex.join([*self._words("ablation", name), *self._places()]) for name in short]

    def _command(self, number: int, cell: Cell, failed: set[tuple[str, str]]) -> str:
        words = self._words(f"table{number}", cell.data, "--backbone", cell.backbone)
        if tuple(self.aggrs) != AGGRS:
            words += ["--aggr", ",".join(self.aggrs)]
        if (cell.data, cell.backbone) in failed:
            words += ["--retry-failed"]
        words += self._places()
        if self.settings_name != "published":
            words += ["--settings", self.settings_name]
        if self.scheme is not None:
            words += ["--split", self.scheme]
        for name, value in self.overrides.items():
            words += ["--set", f"{name}={value}"]
        return shlex.join(words)

    def _words(self, what: str, data: str, *more: str) -> list[str]:
        return ["meanmax", "reproduce", what, "--data", data, *more, "--splits", str(self.splits)]

    def _places(self) -> list[str]:
        words = [] if self.store is None else ["--store", str(self.store)]
        return words + ([] if self.data_dir is None else ["--data-dir", str(self.data_dir)])


def some_ppi(data_dir: Path | None) -> str:
    r"""The released PPI, unless only the one with rebuilt labels is on disk."""
    here = [name for name in PPI if CATALOG[name].located(data_dir) is not None]
    return here[0] if here else "ppi"
