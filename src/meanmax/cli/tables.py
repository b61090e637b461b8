r"""A table of texts, for a terminal or in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.table import Table


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
