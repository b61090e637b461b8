r"""The paper's tables as they are shown."""

from __future__ import annotations

import math
from collections.abc import Sequence

from meanmax.cli.tables import Grid
from meanmax.data import Statistics
from meanmax.study.paper.ablation import Effect
from meanmax.study.paper.claims import Claim
from meanmax.study.paper.paper_tables import (paper_counts, paper_heading)
from meanmax.study.paper.tables import (Cell, Tabled)

MARKS = {
    "at or above": "≥",
    "within one std": "≈",
    "below": "<",
    "missing": "",
    "no paper value": "",
}
LEGEND = (
    "Ours (n) above the paper's: ≥ at or above its mean, ≈ within one of its standard deviations "
    "below, < below that."
)


def results_grid(tabled: Tabled, settings: str) -> Grid:
    r"""Methods down, data sets across; our number above the paper's."""
    heading = paper_heading(tabled.number)
    data = list(dict.fromkeys(cell.data for cell in tabled.cells))
    methods = dict.fromkeys((cell.backbone, cell.aggr) for cell in tabled.cells)
    rows = []
    for backbone, aggr in methods:
        own = [cell for cell in tabled.cells if (cell.backbone, cell.aggr) == (backbone, aggr)]
        rows.append([_method(backbone, aggr), *(_cell(cell) for cell in own)])
    title = f"Table {tabled.number}: {heading.task}, {heading.metric}; settings {settings}"
    return Grid(title, ["method", *data], rows, left=["method"], caption=LEGEND, lines=True)


def clusters_grid(tabled: Tabled) -> Grid:
    r"""Our own columns beside Table 3: clusters of the hidden embedding."""
    rows = [
        [
            cell.data,
            _method(cell.backbone, cell.aggr),
            str(cell.n),
            *(f"{value:.1f}" for value in cell.extra.values()),
        ]
        for cell in tabled.cells
        if cell.n and all(math.isfinite(value) for value in cell.extra.values())
    ]
    headings = ["data", "method", "n", "accuracy %", "NMI %", "ARI %"]
    title = "k-means on the hidden embedding of all nodes: accuracy of the best match, NMI, ARI"
    return Grid(title, headings, rows, left=["data", "method"])


def claims_grid(listed: Sequence[Claim]) -> Grid:
    r"""Every aggregator against its baseline, paired."""
    headings = ["data", "method", "n", "difference", "95 % interval", "p", "paper", "verdict"]
    rows = []
    for claim in listed:
        pair = claim.paired
        rows.append(
            [
                claim.data,
                _method(claim.backbone, claim.aggr),
                str(pair.n),
                f"{pair.difference:+.2f}",
                "–" if math.isnan(pair.low) else f"{pair.low:+.2f} to {pair.high:+.2f}",
                "–" if math.isnan(claim.adjusted_p) else f"{claim.adjusted_p:.2g}",
                "–" if math.isnan(claim.paper) else f"{claim.paper:+.2f}",
                claim.holds,
            ]
        )
    title = "Aggregator − baseline, in points, paired over splits"
    caption = "p: Wilcoxon, Holm-adjusted among the aggregators of one backbone and data set."
    return Grid(title, headings, rows, left=["data", "method", "verdict"], caption=caption)


def counts_grid(counted: dict[str, Statistics]) -> Grid:
    r"""Table 1: what is in the data, beside the paper's counts."""
    names = ("nodes", "edges", "features", "classes")
    rows = []
    for data, statistics in counted.items():
        paper = paper_counts("ppi" if data == "ppi-go" else data)
        cells = [
            f"{getattr(statistics, name)} ({'–' if paper is None else getattr(paper, name)})"
            for name in names
        ]
        rows.append([data, *cells, str(statistics.graphs)])
    title = "Table 1: the data sets; the paper's counts in brackets"
    return Grid(title, ["data", *names, "graphs"], rows, left=["data"])


def effects_grid(effects: Sequence[Effect]) -> Grid:
    r"""The ablation: choices down, data sets across."""
    data = list(dict.fromkeys(effect.data for effect in effects))
    kinds = ("% (n)", "val %", "difference", "learned")
    columns = [f"{name} {what}" for name in data for what in kinds]
    by_choice: dict[tuple[str, str], dict[str, Effect]] = {}
    for effect in effects:
        variant = effect.variant
        key = ("none", "") if variant is None else (variant.aggr, variant.name)
        by_choice.setdefault(key, {})[effect.data] = effect
    rows = [
        [aggr, choice, *(cell for name in data for cell in _effect(found[name]))]
        for (aggr, choice), found in by_choice.items()
    ]
    return Grid(
        "Ablation: GCN, published settings with one choice changed; test accuracy",
        ["aggregator", "choice", *columns],
        rows,
        left=["aggregator", "choice"],
        caption="Difference of test accuracy to GCN's own aggregation, paired over splits, with "
        "its 95 % interval, not corrected for the number of lines. Choose by validation (val %), "
        "not by test.",
    )


def _effect(effect: Effect) -> list[str]:
    if effect.n == 0:
        return ["missing", "", "", ""]
    spread = "" if math.isnan(effect.std) else f" ± {effect.std:.2f}"
    difference = "" if math.isnan(effect.difference) else f"{effect.difference:+.2f}"
    if not math.isnan(effect.low):
        difference += f" [{effect.low:+.2f}, {effect.high:+.2f}]"
    learned = "" if math.isnan(effect.learned) else f"{effect.learned:.2f}"
    return [
        f"{effect.mean:.2f}{spread} ({effect.n})",
        f"{effect.val_mean:.2f}",
        difference,
        learned,
    ]


def _method(backbone: str, aggr: str) -> str:
    return backbone if aggr == "none" else f"{backbone} + {aggr}"


def _cell(cell: Cell) -> str:
    paper = "" if cell.paper is None else f"{cell.paper.mean:.2f} ± {cell.paper.std:.2f}"
    if cell.mark == "missing":
        failed = f" ({cell.failed} failed)" if cell.failed else ""
        return f"missing{failed}\n{paper}"
    spread = "" if math.isnan(cell.std) else f" ± {cell.std:.2f}"
    failed = f", {cell.failed} failed" if cell.failed else ""
    return f"{MARKS[cell.mark]} {cell.mean:.2f}{spread} ({cell.n}{failed})\n{paper}"
