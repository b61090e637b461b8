r"""Named columns of text or numbers, with the line that each row stands on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

GOOD, MISSING, TEXT = 0, 1, 2
LARGE = pa.large_string()  # strings of one column may pass 2 GiB
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


def texts(column: Any) -> Any | None:
    r"""A column as an Arrow array of trimmed strings, :obj:`""` where a value is missing; whole
    floats lose their fraction. :obj:`None` if it holds neither text nor numbers.
    """
    column = _plain(column)
    kind = column.type
    if pa.types.is_floating(kind):
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
    if pc.any(fractions).as_py() or not pc.all(pc.is_finite(column)).as_py():
        return column
    return column.cast(pa.int64(), safe=False)


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_large_string(kind))


def _is_number(kind: Any) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))
