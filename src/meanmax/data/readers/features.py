r"""Features from columns of numbers."""

from __future__ import annotations

import numpy as np

from meanmax.data.readers.problems import Findings
from meanmax.data.readers.table import (GOOD, MISSING, TEXT, Table, has_decimal_comma, numbers)

Cells = dict[str, list[tuple[str, np.ndarray]]]  # what is wrong: columns and their rows


def read_features(table: Table, names: list[str], findings: Findings) -> np.ndarray:
    r"""The columns :obj:`names` as float32, :obj:`[num_nodes, num_features]`, each cell finite.

    Args:
        table (Table): The columns.
        names (list): Those that hold features.
        findings (Findings): Where problems go.
    """
    if not names:
        findings.fail(
            table.file,
            None,
            "has no feature columns, and a graph without features cannot be learned from",
            "add numbers that describe each node, such as its degree or a one-hot position",
        )
    x = np.zeros((table.rows, len(names)), np.float32)
    wrong: Cells = {"is not a number": [], "is missing": [], "is not finite in 32 bits": []}
    for number, name in enumerate(names):
        x[:, number] = _read_feature(table, name, wrong, findings)
    for what, cells in wrong.items():
        if cells:
            _report(table, what, cells, findings)
    return x


def _read_feature(table: Table, name: str, wrong: Cells, findings: Findings) -> np.ndarray:
    read = numbers(table.columns[name])
    if read is None:
        message = f"column {name!r} holds {table.columns[name].type}, not numbers"
        advice = "write one number per cell, in as many columns as needed"
        findings.error(table.file, None, message, advice)
        return np.zeros(table.rows, np.float32)
    values, state = read
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    if not _is_text(table, name, state, findings):
        wrong["is not a number"].append((name, np.flatnonzero(state == TEXT)))
    wrong["is missing"].append((name, np.flatnonzero(state == MISSING)))
    broken = np.flatnonzero(~np.isfinite(single) & (state == GOOD))
    wrong["is not finite in 32 bits"].append((name, broken))
    return single


def _is_text(table: Table, name: str, state: np.ndarray, findings: Findings) -> bool:
    """A column of words is one problem, a word among numbers is a problem of its line."""
    text = np.flatnonzero(state == TEXT)
    if 2 * text.size <= np.count_nonzero(state != MISSING):
        return False
    example = str(table.columns[name][int(text[0])].as_py())[:40]
    advice = "remove it, or turn its values into columns of 0 and 1 (pandas.get_dummies)"
    if has_decimal_comma(example):
        advice = "write numbers with a decimal point"
    findings.error(
        table.file,
        table.line(int(text[0])),
        f"column {name!r} holds text (such as {example!r}), and features are numbers",
        advice,
    )
    return True


def _report(
    table: Table, what: str, cells: list[tuple[str, np.ndarray]], findings: Findings
) -> None:
    rows = np.concatenate([rows for _, rows in cells])
    column = np.repeat(np.arange(len(cells)), [rows.size for _, rows in cells])
    order = np.argsort(rows, kind="stable")

    def describe(number: int) -> str:
        row, name = int(rows[number]), cells[column[number]][0]
        cell = table.columns[name][row].as_py()
        got = "" if cell is None or cell == "" else f" (got {str(cell)[:40]!r})"
        got += ": write a decimal point" if has_decimal_comma(cell) else ""
        return f"{table.place(row)}feature {name!r} {what}{got}"

    advice = "write a number; to fill gaps, 0 or the column's mean are common"
    findings.each(table.file, order, lambda number: table.line(int(rows[number])), describe, advice)
