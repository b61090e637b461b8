r"""Labels from columns: one class per node, or several labels."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from meanmax.data.readers.contents import check_size
from meanmax.data.readers.parts import Labels
from meanmax.data.readers.problems import Findings
from meanmax.data.readers.table import (GOOD, MISSING, Table, check_one_line, numbers, texts)

LABEL = ("label", "labels", "class")
LABEL_IF_NO_OTHER = ("y", "target")
PREFIX = "label_"
SEPARATOR = "|"
_GAPS = ("nan", "NaN", "NAN", "NA", "N/A", "n/a", "<NA>")  # Na is sodium
_SUSPICIOUS = {"-1", "nan", "na", "n/a", "null", "none", "?"}


def is_label(column: str) -> bool:
    r"""Whether a column of this name, in lower case, holds labels."""
    return column in LABEL or column.startswith(PREFIX)


def read_labels(table: Table, columns: list[str], findings: Findings) -> Labels:
    r"""Reads one column of classes, one column of labels separated by :obj:`|`, or a column of
    0 and 1 for each label. Nodes with nothing written are to be predicted.

    Args:
        table (Table): The columns.
        columns (list): Those that hold labels.
        findings (Findings): Where problems go.
    """
    several = [name for name in columns if name.lower().startswith(PREFIX)]
    if not columns:
        return Labels(np.full(table.rows, -1, np.int64), ())
    if len(several) == len(columns):
        return _read_indicators(table, several, findings)
    if len(columns) > 1:
        message = f"has more than one column of classes (got {', '.join(map(repr, columns))})"
        advice = "keep 'label', or name all of them label_something with cells 0 and 1"
        findings.fail(table.file, None, message, advice)
    column = texts(table.columns[columns[0]])
    if column is None:
        message = f"column {columns[0]!r} holds neither text nor numbers"
        findings.fail(table.file, None, message, "write the name or number of a class")
    check_one_line(table, columns[0], column, findings)
    return _read_names(table, column, findings)


def class_order(names: Iterable[str]) -> list[str]:
    r"""Whole numbers by size, otherwise names by alphabet.

    Example:
        >>> class_order(["10", "9"]), class_order(["10", "9", "a"])
        (['9', '10'], ['10', '9', 'a'])
    """
    listed = list(names)
    if all(re.fullmatch(r"[+-]?[0-9]{1,18}", name) for name in listed):
        return sorted(listed, key=lambda name: (int(name), name))
    return sorted(listed)


def without_gaps(cells: list[str], file: str, findings: Findings) -> list[str]:
    r"""Empties the cells that other programs write for a missing label (:obj:`NA`, :obj:`nan`, and
    :obj:`-1` beside classes numbered from 0), with a note.

    Args:
        cells (list): The different cells of a column of labels.
        file (str): The name of the file.
        findings (Findings): Where the note goes.
    """
    emptied = _without_fraction(["" if cell in _GAPS else cell for cell in cells])
    others = set(emptied) - {"", "-1"}
    # -1 and 1 alone are two classes: with -1 for a gap there would be one.
    if others != {"1"} and all(re.fullmatch("[0-9]+", name) for name in others):
        emptied = ["" if cell == "-1" else cell for cell in emptied]
    gaps = sorted({old for old, new in zip(cells, emptied, strict=True) if old and not new})
    if gaps:
        message = f"{' and '.join(map(repr, gaps))} as label is read as none, to be predicted"
        findings.note(file, None, message, "name the class otherwise if it is one")
    return emptied


def _read_names(table: Table, column: Any, findings: Findings) -> Labels:
    coded = column.dictionary_encode()
    cells = [str(cell) for cell in coded.dictionary.to_pylist()]
    cells = without_gaps(cells, table.file, findings)
    index = coded.indices.to_numpy(zero_copy_only=False)
    parts = [[part.strip() for part in cell.split(SEPARATOR) if part.strip()] for cell in cells]
    names = class_order({name for part in parts for name in part})
    _note_suspicious(table, names, findings)
    number = {name: position for position, name in enumerate(names)}
    if any(SEPARATOR in cell for cell in cells):
        check_size(table.file, 8 * table.rows * len(names), findings)
        rows = np.zeros((len(cells), len(names)), np.float32)
        for row, part in enumerate(parts):
            rows[row, [number[name] for name in part]] = 1.0
            rows[row] = rows[row] if part else np.nan
        return Labels(rows[index], tuple(names))
    codes = np.array([number[part[0]] if part else -1 for part in parts], np.int64)
    return Labels(codes[index], tuple(names))


def _without_fraction(cells: list[str]) -> list[str]:
    """Whole numbers that a gap in the column turned into floats: 3.0 is class 3."""
    if all(re.fullmatch(r"-?[0-9]+\.0+|", cell) for cell in cells):
        return [cell.split(".")[0] for cell in cells]
    return cells


def _note_suspicious(table: Table, names: list[str], findings: Findings) -> None:
    for name in names:
        if name.lower() in _SUSPICIOUS:
            message = f"{name!r} is read as the name of a class"
            findings.note(table.file, None, message, "leave the cell empty if it means no label")


def _read_indicators(table: Table, columns: list[str], findings: Findings) -> Labels:
    y = np.zeros((table.rows, len(columns)), np.float32)
    empty = np.zeros((table.rows, len(columns)), bool)
    for number, name in enumerate(columns):
        read = numbers(table.columns[name])
        values, state = (np.zeros(table.rows), np.full(table.rows, 2)) if read is None else read
        empty[:, number] = (state == MISSING) | np.isnan(values) | _is_gap(table.columns[name])
        wrong = ~empty[:, number] & (~np.isin(values, (0.0, 1.0)) | (state != GOOD))
        _report_not_binary(table, name, np.flatnonzero(wrong), findings)
        y[:, number] = np.where(wrong, 0.0, values)
    partly = np.flatnonzero(empty.any(1) & ~empty.all(1))
    findings.each(
        table.file,
        partly,
        table.line,
        lambda row: f"{table.place(row)}some of the node's labels are missing",
        "write 0 or 1 in every label column, or leave all of them empty",
    )
    y[empty.any(1)] = np.nan
    return Labels(y, tuple(name[len(PREFIX) :] for name in columns))


def _is_gap(column: Any) -> np.ndarray | bool:
    cells = texts(column)
    if cells is None:
        return False
    gaps: np.ndarray = pc.is_in(cells, pa.array(_GAPS, cells.type)).to_numpy(zero_copy_only=False)
    return gaps


def _report_not_binary(table: Table, name: str, rows: np.ndarray, findings: Findings) -> None:
    column = table.columns[name]

    def describe(row: int) -> str:
        return f"{table.place(row)}{name!r} must be 0 or 1 (got {str(column[row].as_py())[:40]!r})"

    findings.each(table.file, rows, table.line, describe, "write 1 where the node has the label")
