r"""How the paper's tables are printed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Group
from rich.table import Table

from meanmax.data import Statistics
from meanmax.experiments.ablation import Effect
from meanmax.experiments.claims import Claim
from meanmax.experiments.paper_tables import paper_counts, paper_heading
from meanmax.experiments.tables import Cell, Tabled

MARKS = {
    "at or above": "≥",
    "within one std": "≈",
    "below": "<",
    "missing": "",
    "no paper value": "",
}
LEGEND = (
    "ours (n) against the paper: ≥ at or above its mean, ≈ within one of its standard deviations "
    "below, < below that"
)


def results_table(tabled: Tabled, settings_name: str) -> Group:
    r"""Methods down, data sets across; our number above the paper's."""
    heading = paper_heading(tabled.number)
    title = f"Table {tabled.number}: {heading.task}, {heading.metric}; settings {settings_name}"
    shown = Table(show_lines=True)
    data = list(dict.fromkeys(cell.data for cell in tabled.cells))
    shown.add_column("method", no_wrap=True)
    for name in data:
        shown.add_column(name, justify="right", no_wrap=True)
    methods = dict.fromkeys((cell.backbone, cell.aggr) for cell in tabled.cells)
    for backbone, aggr in methods:
        own = [cell for cell in tabled.cells if (cell.backbone, cell.aggr) == (backbone, aggr)]
        shown.add_row(_method(backbone, aggr), *(_cell(cell) for cell in own))
    return _between(title, shown, LEGEND)


def claims_table(listed: Sequence[Claim]) -> Group:
    r"""Every aggregator against its baseline, paired."""
    shown = Table()
    for heading in ("data", "method", "n", "difference", "95 % interval", "p", "paper", "verdict"):
        right = heading not in ("data", "method", "verdict")
        shown.add_column(heading, justify="right" if right else "left", no_wrap=True)
    for claim in listed:
        pair = claim.paired
        shown.add_row(
            claim.data,
            _method(claim.backbone, claim.aggr),
            str(pair.n),
            f"{pair.difference:+.2f}",
            "–" if math.isnan(pair.low) else f"{pair.low:+.2f} to {pair.high:+.2f}",
            "–" if math.isnan(claim.adjusted_p) else f"{claim.adjusted_p:.2g}",
            "–" if math.isnan(claim.paper) else f"{claim.paper:+.2f}",
            claim.holds,
        )
    title = "Aggregator − baseline, in points, paired over splits"
    return _between(title, shown, "p: Wilcoxon, Holm-adjusted over the table")


def counts_table(counted: dict[str, Statistics]) -> Group:
    r"""Table 1: what is in the data, beside the paper's counts."""
    names = ("nodes", "edges", "features", "classes")
    shown = Table()
    shown.add_column("data", no_wrap=True)
    for name in (*names, "graphs"):
        shown.add_column(name, justify="right", no_wrap=True)
    for data, statistics in counted.items():
        paper = paper_counts("ppi" if data == "ppi-go" else data)
        cells = [
            f"{getattr(statistics, name)} ({'–' if paper is None else getattr(paper, name)})"
            for name in names
        ]
        shown.add_row(data, *cells, str(statistics.graphs))
    return _between("Table 1: the data sets; the paper's counts in brackets", shown)


def effects_table(effects: Sequence[Effect]) -> Group:
    r"""The ablation: choices down, data sets across."""
    shown = Table()
    data = list(dict.fromkeys(effect.data for effect in effects))
    shown.add_column("aggregator", no_wrap=True)
    shown.add_column("choice")
    for name in data:
        for heading in (f"{name} (n)", "difference", "learned"):
            shown.add_column(heading, justify="right", no_wrap=True)
    rows: dict[tuple[str, str], dict[str, Effect]] = {}
    for effect in effects:
        variant = effect.variant
        key = ("none", "") if variant is None else (variant.aggr, variant.name)
        rows.setdefault(key, {})[effect.data] = effect
    for (aggr, choice), by_data in rows.items():
        shown.add_row(aggr, choice, *(cell for name in data for cell in _effect(by_data[name])))
    return _between(
        "Ablation: GCN, published settings with one choice changed; test accuracy %",
        shown,
        "difference to GCN's own aggregation, paired over splits, with its 95 % interval",
    )


def _between(title: str, shown: Table, caption: str | None = None) -> Group:
    r"""A table between two lines, which a narrow table would break as its own."""
    return Group(title, shown, *(() if caption is None else (caption,)))


def _effect(effect: Effect) -> list[str]:
    if effect.n == 0:
        return ["missing", "", ""]
    spread = "" if math.isnan(effect.std) else f" ± {effect.std:.2f}"
    difference = "" if math.isnan(effect.difference) else f"{effect.difference:+.2f}"
    if not math.isnan(effect.low):
        difference += f" [{effect.low:+.2f}, {effect.high:+.2f}]"
    learned = "" if math.isnan(effect.learned) else f"{effect.learned:.2f}"
    return [f"{effect.mean:.2f}{spread} ({effect.n})", difference, learned]


def _method(backbone: str, aggr: str) -> str:
    return backbone if aggr == "none" else f"{backbone} + {aggr}"


def _cell(cell: Cell) -> str:
    paper = "" if cell.paper is None else f"{cell.paper.mean:.2f} ± {cell.paper.std:.2f}"
    if cell.mark == "missing":
        return f"missing\n{paper}"
    spread = "" if math.isnan(cell.std) else f" ± {cell.std:.2f}"
    failed = f", {cell.failed} failed" if cell.failed else ""
    return f"{MARKS[cell.mark]} {cell.mean:.2f}{spread} ({cell.n}{failed})\n{paper}"
