r"""Named columns of text or numbers, with the line that each row stands on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from meanmax.data.readers.problems import Findings

GOOD, MISSING, TEXT = 0, 1, 2
LARGE = pa.large_string()  # strings of one column may pass 2 GiB
EXACT = {16: 2**11, 32: 2**24, 64: 2**53}  # below, floats of so many bits hold every integer
_TRUTH = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True, eq=False)
class Table:
    r"""Columns of one file.

    Args:
        file (str): The name of the file.
        columns (dict): An Arrow array for each name, all of one length.
        lines (callable, optional): The line of each row, worked out when first asked for.
        item (str): What a row is called where there are no lines.
    """

    file: str
    columns: dict[str, Any]
    lines: Callable[[], np.ndarray] | None = None
    item: str = "row"

    @property
    def rows(self) -> int:
        r"""The number of rows."""
        return len(next(iter(self.columns.values()), ()))

    def line(self, row: int) -> int | None:
        r"""The line of a row, if the file has lines."""
        if self.lines is None:
            return None
        lines = self.lines()
        return int(lines[row]) if row < len(lines) else None

    def place(self, row: int) -> str:
        r"""What to put before a message on a row of a file without lines."""
        return "" if self.lines is not None else f"{self.item} {row + 1}: "


def check_names(file: str, names: list[str], findings: Findings) -> None:
    r"""Stops if columns have no name, or one name stands twice."""
    for name, count in Counter(names).items():
        if not name:
            findings.fail(file, 1, "a column has no name", "name every column in the first line")
        if count > 1:
            findings.fail(file, 1, f"column {name!r} stands twice", "give columns different names")


def check_identifiers(table: Table, name: str, findings: Findings) -> None:
    r"""Stops if a column holds floats so large that different identifiers may look alike."""
    column = table.columns[name]
    if pa.types.is_floating(column.type) and not _is_exact(column):
        message = f"column {name!r} holds {column.type} numbers too large to tell integers apart"
        findings.fail(table.file, None, message, "write identifiers as integers or as text")


def check_one_line(table: Table, name: str, column: Any, findings: Findings) -> None:
    r"""Reports cells of several lines among the :func:`texts` of a column: most likely a
    quotation mark too many has joined them.
    """
    broken = pc.match_substring_regex(column, r"[\r\n]").to_numpy(zero_copy_only=False)
    findings.each(
        table.file,
        np.flatnonzero(broken),
        table.line,
        lambda row: f"{table.place(row)}{name!r} has a line break (got {_start(column, row)!r})",
        "look for a stray quotation mark, or write the cell on one line",
    )


def has_decimal_comma(cell: Any) -> bool:
    r"""Whether a cell would be a number with a point instead of its comma."""
    return re.fullmatch(r"\s*[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?\s*", str(cell)) is not None


def texts(column: Any) -> Any | None:
    r"""A column as an Arrow array of trimmed strings, :obj:`""` where a value is missing or NaN;
    whole floats lose their fraction. :obj:`None` if it holds neither text nor numbers.
    """
    column = _plain(column)
    kind = column.type
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
        column = _whole(column)
    elif not (_is_text(kind) or _is_number(kind) or pa.types.is_null(kind)):
        return None
    filled = pc.fill_null(column.cast(LARGE), "")
    return pc.utf8_trim_whitespace(filled)


def numbers(column: Any) -> tuple[np.ndarray, np.ndarray] | None:
    r"""A column as float64 and, for each cell, whether it is :obj:`GOOD`, :obj:`MISSING` or
    :obj:`TEXT`. :obj:`None` if it holds neither text nor numbers.
    """
    column = _plain(column)
    if pa.types.is_null(column.type):
        return np.zeros(len(column)), np.full(len(column), MISSING, np.int8)
    if _is_number(column.type):
        state = np.where(column.is_null().to_numpy(zero_copy_only=False), MISSING, GOOD)
        values = pc.fill_null(column.cast(pa.float64(), safe=False), 0.0)
        return values.to_numpy(zero_copy_only=False), state.astype(np.int8)
    if not _is_text(column.type):
        return None
    try:
        values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        if column.null_count == 0:
            return values, np.zeros(len(column), np.int8)
    except pa.ArrowInvalid:
        pass
    return _numbers_one_by_one(column)


def _numbers_one_by_one(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """Each different cell is looked at once."""
    coded = pc.fill_null(column.cast(LARGE), "").dictionary_encode()
    cells = [_number(cell) for cell in coded.dictionary.to_pylist()]
    values = np.array([value for value, _ in cells], np.float64)
    state = np.array([state for _, state in cells], np.int8)
    index = coded.indices.to_numpy(zero_copy_only=False)
    return values[index], state[index]


def _number(cell: str) -> tuple[float, int]:
    cell = cell.strip()
    if not cell:
        return 0.0, MISSING
    if cell.lower() in _TRUTH:
        return _TRUTH[cell.lower()], GOOD
    try:
        return (0.0, TEXT) if "_" in cell else (float(cell), GOOD)
    except ValueError:
        return 0.0, TEXT


def _plain(column: Any) -> Any:
    if pa.types.is_dictionary(column.type):
        return _plain(column.dictionary_decode())
    if pa.types.is_string(column.type) or pa.types.is_string_view(column.type):
        return column.cast(LARGE)
    return column


def _whole(column: Any) -> Any:
    fractions = pc.not_equal(pc.floor(column), column)
    if pc.any(fractions).as_py() or not _is_exact(column):
        return column
    return column.cast(pa.int64(), safe=False)


def _is_exact(column: Any) -> bool:
    limit = EXACT[column.type.bit_width]
    small = pc.less(pc.abs(column.cast(pa.float64())), float(limit))
    return pc.all(pc.or_(small, pc.is_nan(column))).as_py() is not False


def _start(column: Any, row: int) -> str:
    return str(column[row].as_py())[:40]


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_large_string(kind))


def _is_number(kind: Any) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))
