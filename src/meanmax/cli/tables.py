r"""Tables of texts, for a terminal or in Markdown, and the forms that numbers take in them."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console, Group
from rich.table import Table

from meanmax.study.stats.cells import score_form

WIDTH = 130


@dataclass(frozen=True)
class Grid:
    r"""Headings and cells between a title and a caption."""

    title: str  # what it shows; may be empty
    headings: Sequence[str]  # one for each column
    rows: list[list[str]]  # Cells, which may have several lines
    left: Sequence[str] = ()  # the headings of columns that are text, not numbers
    caption: str = ""  # how to read it; by default none
    lines: bool = False  # whether rows are separated by lines

    def for_terminal(self) -> Group:
        r"""A framed table; title and caption are lines of their own, which a narrow table would
        break.
        """
        table = Table(show_lines=self.lines, show_header=any(self.headings))
        for heading in self.headings:
            justify = "left" if heading in self.left else "right"
            table.add_column(heading, justify=justify, overflow="fold")  # type: ignore[arg-type]
        for row in self.rows:
            table.add_row(*row)
        return Group(*(part for part in (self.title, table, self.caption) if part))

    def markdown(self) -> str:
        r"""A table in Markdown, under its title in bold."""
        marks = [":--" if heading in self.left else "--:" for heading in self.headings]
        lines = [self.headings, marks, *self.rows]
        body = "\n".join("| " + " | ".join(map(_in_a_cell, cells)) + " |" for cells in lines)
        caption = f"\n\n{self.caption}" if self.caption else ""
        return f"**{self.title}**\n\n{body}{caption}\n"


def print_out(*shown: Any, width: int = WIDTH) -> None:
    r"""Prints grids, texts and tables to stdout, :obj:`width` wide if that is not a terminal."""
    console = Console(
        file=sys.stdout, width=None if sys.stdout.isatty() else width, highlight=False, markup=False
    )
    for item in shown:
        console.print(item.for_terminal() if isinstance(item, Grid) else item)


def print_result(as_json: bool, facts: Any, *shown: Any) -> None:
    r"""Prints a result to stdout, as JSON or as tables and texts."""
    if as_json:
        click.echo(json.dumps(facts, indent=1))
    else:
        print_out(*shown)


def count(number: int, thing: str) -> str:
    r"""A number and its noun."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def decimal(value: float | None, form: str = ".2f", missing: str = "–") -> str:
    r"""A number, or a dash if it is missing or not finite."""
    return missing if value is None or not math.isfinite(value) else format(value, form)


def mean_std(mean: float | None, std: float | None, form: str = ".2f") -> str:
    r"""A mean and, if there is one, its standard deviation.

    Example:
        >>> mean_std(81.5, 0.7), mean_std(81.5, float("nan")), mean_std(None, None)
        ('81.50 ± 0.70', '81.50', '–')
    """
    spread = decimal(std, form, "")
    return decimal(mean, form) + (f" ± {spread}" if spread else "")


def with_interval(difference: float, low: float, high: float, form: str = ".2f") -> str:
    r"""A difference and, if there is one, its interval."""
    form = f"+{form}"
    interval = f" [{low:{form}}, {high:{form}}]" if math.isfinite(low) else ""
    return decimal(difference, form, "") + interval


def score_text(score: float | None, percent: bool) -> str:
    r"""A score with its unit.

    Example:
        >>> score_text(81.25, True), score_text(0.81254, False), score_text(None, True)
        ('81.25 %', '0.8125', '–')
    """
    text = decimal(score, score_form(percent, score))
    return f"{text} %" if percent and text != "–" else text


def _in_a_cell(text: str) -> str:
    return text.strip().replace("|", "\\|").replace("\n", "<br>")
