r"""A table of texts, for a terminal or in Markdown."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console, Group
from rich.table import Table

from meanmax.cli.progress import learned_texts
from meanmax.data import CATALOG, Dataset, Split, Statistics
from meanmax.data.readers import DataProblem
from meanmax.graph import Graph
from meanmax.train import NodeClassifier


@dataclass(frozen=True)
class Grid:
    r"""Headings and cells between a title and a caption.

    Args:
        title (str): What it shows.
        headings (sequence): One for each column.
        rows (list): Cells, of several lines perhaps.
        left (sequence): The headings of columns that are text, not numbers.
        caption (str): How to read it. (default: none)
        lines (bool): Whether rows are set apart by lines. (default: :obj:`False`)
    """

    title: str
    headings: Sequence[str]
    rows: list[list[str]]
    left: Sequence[str] = ()
    caption: str = ""
    lines: bool = False

    def for_terminal(self) -> Group:
        r"""A table with frames; title and caption are lines of their own, which a narrow table
        would break.
        """
        table = Table(show_lines=self.lines)
        for heading in self.headings:
            justify = "left" if heading in self.left else "right"
            table.add_column(heading, justify=justify, overflow="fold")  # type: ignore[arg-type]
        for row in self.rows:
            table.add_row(*row)
        return Group(self.title, table, *([self.caption] if self.caption else []))

    def markdown(self) -> str:
        r"""A table in Markdown, under its title in bold."""
        marks = [":--" if heading in self.left else "--:" for heading in self.headings]
        lines = [self.headings, marks, *self.rows]
        body = "\n".join("| " + " | ".join(map(_in_a_cell, cells)) + " |" for cells in lines)
        caption = f"\n\n{self.caption}" if self.caption else ""
        return f"**{self.title}**\n\n{body}{caption}\n"


def _in_a_cell(text: str) -> str:
    return text.strip().replace("|", "\\|").replace("\n", "<br>")


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


def dataset_facts(name: str, dataset: Dataset) -> dict[str, Any]:
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


def as_text(problem: DataProblem, path: Path) -> str:
    r"""As compilers write it, so that editors find the place."""
    folder = path if path.is_dir() else path.parent
    file = folder / problem.file if (folder / problem.file).exists() else Path(problem.file)
    place = f"{file}:{problem.line}" if problem.line is not None else str(file)
    return f"{place}: {problem.severity}: {problem.message}\n    {problem.advice}"


def verdict(dataset: Dataset | None, problems: list[DataProblem]) -> str:
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


def judged(
    classifier: NodeClassifier, dataset: Dataset, graph: Graph, split: Split
) -> dict[str, Any]:
    r"""Scores in percent, and what was learned.

    Args:
        classifier (NodeClassifier): The trained classifier.
        dataset (Dataset): The data.
        graph (Graph): Its graph.
        split (Split): Which nodes trained, validated and test.
    """
    scores = {}
    for name, nodes in (("train", split.train), ("val", split.val), ("test", split.test)):
        scored = nodes.numel() > 0
        scores[name] = classifier.score(graph, dataset.x, dataset.y, nodes) if scored else None
    return training_facts(classifier, scores, classifier.maxness(graph, dataset.x))


def training_facts(
    classifier: NodeClassifier,
    scores: Mapping[str, float | None],
    maxness: Mapping[str, np.ndarray],
) -> dict[str, Any]:
    r"""Scores in percent, and what was learned.

    Args:
        classifier (NodeClassifier): The trained classifier.
        scores (mapping): In :math:`[0, 1]`, for :obj:`"train"`, :obj:`"val"` and :obj:`"test"`.
        maxness (mapping): Of each layer, per channel.
    """
    model, history = classifier.model_, classifier.history_
    return {
        "metric": "micro-F1" if classifier.multilabel_ else "accuracy",
        **{f"{name}_score": None if s is None else 100 * s for name, s in scores.items()},
        "best_epoch": history.best_epoch,
        "epochs": history.epochs,
        "learned": {name: value.reshape(-1).tolist() for name, value in model.learned().items()},
        "maxness": {name: _mean(value) for name, value in maxness.items()},
        "seconds": round(history.seconds, 3),
    }


def train_table(facts: dict[str, Any]) -> Group:
    r"""A line for each fact."""
    table = Table(show_header=False)
    metric = facts["metric"]
    for name, what in (("train", "training"), ("val", "validation"), ("test", "test")):
        score = facts[f"{name}_score"]
        table.add_row(f"{metric} on {what} nodes", "–" if score is None else f"{score:.2f} %")
    table.add_row("best epoch", f"{facts['best_epoch'] + 1} of {facts['epochs']}")
    table.add_row("learned", ", ".join(learned_texts(facts["learned"])) or "–")
    layers = [f"{name} {_decimals(value)}" for name, value in facts["maxness"].items()]
    table.add_row("maxness (0 mean, 1 max)", ", ".join(layers) or "–")
    table.add_row("seconds", f"{facts['seconds']:.1f}")
    table.add_row("model", facts["model"])
    method = f"{facts['backbone']}+{facts['aggr']}, seed {facts['seed']}"
    return Group(f"{method}, on {facts['data']}, split '{facts['split_name']}'", table)


def _mean(values: np.ndarray) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else None


def _decimals(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
