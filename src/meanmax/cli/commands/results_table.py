r"""What :obj:`meanmax results show` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from meanmax.study.stats.cells import CellOfRows

HEADINGS = ("backbone", "aggr", "settings", "n", "failed", "test %", "val %", "s", "learned")
LEFT = ("backbone", "aggr", "settings", "learned")
LONG = {"settings": 22, "learned": 12}
r"""Columns that are broken into lines, and how wide they are at least."""

NOTE = (
    "mean ± standard deviation of scores; median seconds, in brackets where runs shared the "
    "machine; settings: the file, and what is not as there"
)


def cells_tables(cells: Sequence[CellOfRows]) -> Group:
    r"""A table for each data set and kind of splits, with a line for each cell.

    What all lines of a table have in common stands above it once, so that there is room for what
    they differ in.

    Args:
        cells (sequence): Cells, those of one data set and kind of splits after each other.
    """
    hashes = {(cell.data, cell.data_hash) for cell in cells}
    several = {data for data, _ in hashes if sum(name == data for name, _ in hashes) > 1}
    texts = [_texts(cell) for cell in cells]
    widths = [max(map(len, column)) for column in zip(HEADINGS, *texts, strict=True)]
    tables: dict[str, Table] = {}
    for cell, listed in zip(cells, texts, strict=True):
        data = f"{cell.data} ({cell.data_hash[:6]})" if cell.data in several else cell.data
        title = f"{data}, splits: {cell.split}"
        tables.setdefault(title, _empty(title, widths)).add_row(*listed)
    spaced = [Padding(table, (0, 0, 1, 0)) for table in tables.values()]
    return Group(*spaced, Text(NOTE, style="italic"))


def _empty(title: str, widths: Sequence[int]) -> Table:
    table = Table(title=Text(title), title_justify="left", title_style="bold")
    for heading, width in zip(HEADINGS, widths, strict=True):
        table.add_column(
            heading,
            justify="left" if heading in LEFT else "right",
            no_wrap=heading not in LONG,
            overflow="fold",
            min_width=min(width, LONG.get(heading, width)),
        )
    return table


def _texts(cell: CellOfRows) -> list[str]:
    settings = "/".join(cell.settings_names)
    changed = ", ".join(f"{name}={_value(value)}" for name, value in cell.changed.items())
    failed = [f"{cell.failed}"] if cell.failed else []
    failed += [f"{cell.diverged} diverged"] if cell.diverged else []
    learned = ", ".join(
        f"{name.removeprefix('layers.')} {x:.2f}" for name, x in cell.learned.items()
    )
    return [
        cell.backbone,
        cell.aggr,
        f"{settings}, {changed}" if changed else settings,
        f"{cell.n}",
        ", ".join(failed) or "0",
        _score(cell.test),
        _score(cell.val),
        _seconds(cell),
        learned or "–",
    ]


def _value(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else f"{value}"


def _score(score: tuple[float, float | None] | None) -> str:
    if score is None:
        return "–"
    mean, std = score
    return f"{mean:.2f}" if std is None else f"{mean:.2f} ± {std:.2f}"


def _seconds(cell: CellOfRows) -> str:
    if cell.seconds is None:
        return "–"
    return f"{cell.seconds:.1f}" if cell.alone else f"({cell.seconds:.1f})"
