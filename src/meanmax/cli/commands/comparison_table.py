r"""What :obj:`meanmax compare` prints and writes."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

from meanmax.cli.tables import Grid
from meanmax.study.stats.comparison import (Comparison, Line)
from meanmax.study.store.database import reported
from meanmax.study.store.exports import export_rows
from meanmax.study.runs.row import Row
from meanmax.train.whole_file import write_text

HEADINGS = ("aggregator", "n", "{metric} %", "− baseline", "p (Holm)", "learned", "maxness", "s")
HOW_TO_READ = (
    "Scores are of test nodes, mean ± standard deviation over splits; models are selected on "
    "validation nodes alone. Differences to the baseline are paired over splits, with a 95 % "
    "bootstrap interval. Times with a star are of runs that shared the machine and are not "
    "comparable."
)


def comparison_grid(result: Comparison, settings: str) -> Grid:
    r"""One line for each aggregator."""
    return Grid(
        f"{result.data}, {result.backbone}, settings {settings}",
        [heading.format(metric=result.metric) for heading in HEADINGS],
        [_cells(line) for line in result.lines],
        left=["aggregator", "learned"],
    )


def write_comparison(
    result: Comparison,
    rows: Sequence[Row],
    folder: Path,
    settings: str,
) -> list[Path]:
    r"""Writes the table as Markdown and JSON, and the rows it is made of; the files."""
    stem = "-".join(_as_name(part) for part in ("compare", result.data, result.backbone, settings))
    paths = [folder / f"{stem}.md", folder / f"{stem}.json", folder / f"{stem}.jsonl"]
    grid = comparison_grid(result, settings).markdown()
    text = "\n\n".join([grid, result.verdict, *result.notes, HOW_TO_READ])
    facts = {"settings": settings, **result.as_dict()}
    with reported(folder):
        write_text(paths[0], text + "\n")
        write_text(paths[1], json.dumps(facts, indent=1, allow_nan=False) + "\n")
    export_rows(rows, paths[2])
    return paths


def _as_name(text: str) -> str:
    r"""What may stand in the name of a file."""
    return "".join(mark if mark.isalnum() or mark in "-_=." else "_" for mark in text)[:80]


def _cells(line: Line) -> list[str]:
    pair = line.paired
    difference = p = "–"
    if pair is not None:
        difference = f"{pair.difference:+.2f}"
        if math.isfinite(pair.low):
            difference += f" [{pair.low:+.2f}, {pair.high:+.2f}]"
        p = "–" if math.isnan(line.adjusted_p) else f"{line.adjusted_p:.2g}"
    count = f"{line.n}" + (f" ({line.failed} failed)" if line.failed else "")
    score = "–" if math.isnan(line.mean) else f"{line.mean:.2f}"
    score += "" if math.isnan(line.std) else f" ± {line.std:.2f}"
    maxness = "–" if line.maxness is None else f"{line.maxness:.2f}"
    seconds = "–" if math.isnan(line.seconds) else f"{line.seconds:.1f}"
    return [line.aggr, count, score, difference, p, _learned(line), maxness, seconds + _mark(line)]


def _mark(line: Line) -> str:
    return "" if line.alone or math.isnan(line.seconds) else "*"


def _learned(line: Line) -> str:
    shown = []
    for name, (mean, low, high) in line.learned.items():
        spread = "" if high - low < 0.005 else f" ({low:.2f}–{high:.2f})"
        shown.append(f"{name.rpartition('.')[2]} {mean:.2f}{spread}")
    return ", ".join(shown) or "–"
