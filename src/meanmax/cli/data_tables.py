r"""What :obj:`meanmax data` prints."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.table import Table

from meanmax.data import (CATALOG, Dataset, Statistics)
from meanmax.data.readers import Problem

WIDTH = 130
COUNTED = (
    ("nodes", "nodes"),
    ("edges", "edges"),
    ("self_loops", "self-loops"),
    ("features", "features"),
    ("classes", "classes"),
    ("graphs", "graphs"),
    ("labelled", "labelled nodes"),
    ("mean_degree", "mean degree"),
    ("max_degree", "largest degree"),
    ("homophily", "homophily"),
    ("components", "components"),
    ("isolated", "isolated nodes"),
    ("directed", "directed"),
)


def print_out(shown: Any) -> None:
    r"""Prints to stdout, wide enough for the tables where that is no terminal."""
    width = None if sys.stdout.isatty() else WIDTH
    Console(file=sys.stdout, width=width, highlight=False, markup=False).print(shown)


def list_table(rows: list[dict[str, Any]]) -> Table:
    r"""All sets of the catalogue, a row for each."""
    table = Table(
        caption="counts as in the paper's Table 1; 'meanmax data show NAME' counts what is here",
        caption_justify="left",
    )
    for heading in ("name", "kind", "nodes", "edges", "classes", "on disk", "what"):
        right = heading in ("nodes", "edges", "classes")
        table.add_column(heading, justify="right" if right else "left", no_wrap=heading != "what")
    for row in rows:
        paper = row["paper"] or {}
        counts = [_cell(paper.get(name)) for name in ("nodes", "edges", "classes")]
        table.add_row(row["name"], row["kind"], *counts, _cell(row["on_disk"]), row["title"])
    return table


def facts_of(name: str, dataset: Dataset) -> dict[str, Any]:
    r"""What a set is called, where it comes from, what it is to be used for."""
    entry = CATALOG.get(name.partition(":")[0])  # sbm:nodes=100 is an sbm
    return {
        "name": dataset.name,
        "title": entry.title if entry else f"own graph: {name}",
        "licence": entry.licence if entry else None,
        "source": entry.source if entry else None,
        "notes": list(dataset.notes),
        "task": dataset.task,
        "class_names": list(dataset.class_names),
    }


def show_table(facts: dict[str, Any], counted: Statistics, paper: dict[str, int] | None) -> Group:
    r"""The statistics, beside those of the paper if it has them."""
    table = Table(title_justify="left")
    table.add_column("")
    table.add_column("here", justify="right")
    if paper:
        table.add_column("paper", justify="right")
    for key, label in COUNTED:
        printed = [_cell(paper[key]) if key in paper else ""] if paper else []
        table.add_row(label, _cell(getattr(counted, key)), *printed)
    lines = [f"{key}: {facts[key]}" for key in ("licence", "source") if facts[key]]
    lines += [f"note: {note}" for note in facts["notes"]]
    return Group(facts["title"], table, *lines)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}"
    return "–" if value is None else f"{value:,}"


def as_text(problem: Problem, path: Path) -> str:
    r"""As compilers write it, so that editors find the place."""
    folder = path if path.is_dir() else path.parent
    file = folder / problem.file if (folder / problem.file).exists() else Path(problem.file)
    place = f"{file}:{problem.line}" if problem.line is not None else str(file)
    return f"{place}: {problem.severity}: {problem.message}\n    {problem.advice}"


def verdict(dataset: Dataset | None, problems: list[Problem]) -> str:
    r"""The last line of a check."""
    errors = sum(problem.severity == "error" for problem in problems)
    notes = len(problems) - errors
    found = f"{count(errors, 'error')}, {count(notes, 'note')}"
    if dataset is None:
        return found
    return (
        f"{found}: {count(dataset.num_nodes, 'node')}, {count(dataset.num_features, 'feature')}, "
        f"{dataset.num_classes} {'classes' if dataset.task == 'multiclass' else 'labels'}"
    )


def count(number: int, thing: str) -> str:
    r"""A number and its noun."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
