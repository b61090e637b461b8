r"""What :obj:`meanmax results show` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from meanmax.experiments.cells import CellOfRows

HEADINGS = (
    "data",
    "splits",
    "backbone",
    "aggr",
    "settings",
    "n",
    "failed",
    "test %",
    "val %",
    "s",
    "learned",
)
LEFT = ("data", "splits", "backbone", "aggr", "settings", "learned")
LONG = ("settings", "learned")
NOTE = (
    "mean ± standard deviation of scores; median seconds, in brackets where runs shared the "
    "machine; settings that are not the file's"
)


def cells_table(cells: Sequence[CellOfRows]) -> Table:
    r"""One line for each cell."""
    table = Table(caption=NOTE, caption_justify="left")
    for heading in HEADINGS:
        table.add_column(
            heading,
            justify="left" if heading in LEFT else "right",
            no_wrap=heading not in LONG,
            overflow="fold",
        )
    hashes = {(cell.data, cell.data_hash) for cell in cells}
    several = {data for data, _ in hashes if sum(name == data for name, _ in hashes) > 1}
    for cell in cells:
        data = f"{cell.data} ({cell.data_hash[:6]})" if cell.data in several else cell.data
        table.add_row(data, *_texts(cell))
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
        cell.split,
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
