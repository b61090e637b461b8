r"""Tables from csv, tsv and Parquet files as Arrow columns that know the lines of their rows."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from meanmax.data.files import Progress, optional, report, unescaped
from meanmax.data.readers.problems import Diagnostics

_FEATURE = "reading a graph from tables, GraphML or JSON"
pa = optional("pyarrow", _FEATURE)
pc = optional("pyarrow.compute", _FEATURE)

GOOD, MISSING, TEXT = 0, 1, 2
LARGE = pa.large_string()  # the strings of a column may exceed 2 GiB
EXACT = {16: 2**11, 32: 2**24, 64: 2**53}  # floats of this many bits hold all integers below
BLOCK = 1 << 22
FIXED = "FIXED_LEN_BYTE_ARRAY"
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT96": 12}  # other numbers and texts have 8

# From the cells of the first row to the names of the columns, and whether it is a header.
Naming = Callable[[list[str]], tuple[list[str], bool]]


@dataclass(frozen=True, eq=False)
class Table:
    r"""The columns of one file: Arrow arrays of one length, with the diagnostics of the file."""

    diagnostics: Diagnostics
    columns: dict[str, Any]
    lines: Callable[[], np.ndarray] | None = None  # computes the line of each row, on first use
    item: str = "row"  # what a row is called in files without lines
    named: bool = True  # whether the file names its columns

    @property
    def rows(self) -> int:
        r"""The number of rows."""
        return len(next(iter(self.columns.values()), ()))

    def line(self, row: int) -> int | None:
        r"""The line of a row, if the file has lines."""
        lines = () if self.lines is None else self.lines()
        return int(lines[row]) if row < len(lines) else None

    def cell(self, name: str, row: int) -> str:
        r"""The beginning of a cell, for messages; empty if it is missing."""
        value = self.columns[name][row].as_py()
        return "" if value is None else str(value)[:60]

    def place(self, row: int) -> str:
        r"""What precedes a message on a row of a file without lines."""
        return "" if self.lines is not None else f"{self.item} {row + 1}: "

    def each(self, rows: np.ndarray, describe: Callable[[int], str], advice: str) -> None:
        r"""Reports an error for each of the rows. See :meth:`Diagnostics.each`."""
        self.diagnostics.each(rows, lambda row: self.place(row) + describe(row), advice, self.line)

    def texts(self, name: str) -> Any:
        r"""A column as an Arrow array of trimmed strings, :obj:`""` where a value is missing or
        NaN; integral floats are written without a fraction.
        """
        column = _plain(self.columns[name])
        kind = column.type
        if pa.types.is_floating(kind):
            column = pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
            fractions = pc.any(pc.not_equal(pc.floor(column), column)).as_py()
            if not fractions and _is_exact(column):
                column = column.cast(pa.int64(), safe=False)
        elif not (kind == LARGE or _is_number(kind) or pa.types.is_null(kind)):
            message = f"column {name!r} holds {kind}, neither text nor numbers"
            self.diagnostics.fail(message, "write it as text or as numbers")
        return pc.utf8_trim_whitespace(pc.fill_null(column.cast(LARGE), ""))

    def names(self, name: str) -> Any:
        r"""The :meth:`texts` of a column of names; line breaks in them are errors."""
        column = self.texts(name)
        self.each(
            np.flatnonzero(np.asarray(pc.match_substring_regex(column, r"[\r\n]"))),
            lambda row: f"{name!r} has a line break (got {column[row].as_py()[:40]!r})",
            "look for a stray quotation mark, or write the cell on one line",
        )
        return column

    def check_exact(self, name: str) -> None:
        r"""Fails if a column of identifiers holds floats too large to distinguish integers."""
        column = self.columns[name]
        if pa.types.is_floating(column.type) and not _is_exact(column):
            what = f"{column.type} numbers too large to distinguish integers"
            advice = "write identifiers as integers or as text"
            self.diagnostics.fail(f"column {name!r} holds {what}", advice)

    def numbers(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        r"""A column as float64, and the state of each cell: GOOD, MISSING or TEXT."""
        column = _plain(self.columns[name])
        if _is_number(column.type):
            state = np.where(np.asarray(column.is_null()), MISSING, GOOD)
            values = pc.fill_null(column.cast(pa.float64(), safe=False), 0.0)
            return np.asarray(values), state.astype(np.int8)
        if column.type != LARGE:  # dates, for example
            fill = MISSING if pa.types.is_null(column.type) else TEXT
            return np.zeros(len(column)), np.full(len(column), fill, np.int8)
        try:
            values = np.asarray(column.cast(pa.float64()))
            if column.null_count == 0:
                return values, np.zeros(len(column), np.int8)
        except pa.ArrowInvalid:
            pass
        coded = pc.fill_null(column, "").dictionary_encode()
        cells = np.array([_number(cell) for cell in coded.dictionary.to_pylist()], np.float64)
        values, state = cells.reshape(-1, 2)[np.asarray(coded.indices)].T
        return values, state.astype(np.int8)

    def floats(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        r"""The :meth:`numbers` of a column in float32, infinite where they exceed its range."""
        values, state = self.numbers(name)
        with np.errstate(over="ignore"):
            return values.astype(np.float32), state


def has_decimal_comma(cell: str) -> bool:
    r"""Whether a cell would be a number with a point instead of its comma."""
    return re.fullmatch(r"\s*[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?\s*", cell) is not None


def _number(cell: str) -> tuple[float, int]:
    cell = cell.strip().lower()
    if not cell:
        return 0.0, MISSING
    if cell in ("true", "false"):
        return float(cell == "true"), GOOD
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


def _is_exact(column: Any) -> bool:
    limit = EXACT[column.type.bit_width]
    small = pc.less(pc.abs(column.cast(pa.float64())), float(limit))
    return pc.all(pc.or_(small, pc.is_nan(column))).as_py() is not False


def _is_number(kind: Any) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def read_table(
    path: Path, diagnostics: Diagnostics, progress: Progress | None, naming: Naming
) -> Table:
    r"""Reads a Parquet file, or cells separated by commas, semicolons or tabs; gzipped if the name
    ends in :obj:`.gz`. Rows of another length than the first are reported and left out.
    """
    if path.suffix == ".parquet":
        return _read_parquet(path, diagnostics, naming)
    data = _as_utf8(diagnostics.read(path, progress), diagnostics)
    first = next((line.strip().decode() for line in io.BytesIO(data) if line.strip()), "")
    if not first:
        diagnostics.fail("is empty", "write a line of column names and the rows")
    delimiter = "\t" if ".tsv" in path.suffixes else max(",;\t", key=first.count)
    text = _Delimited(data, delimiter)
    text.check_quotes(diagnostics)
    with diagnostics.parsing("table", "repair it, or export it again as csv in UTF-8"):
        columns, wrong = text.parse(path.name, progress)
        columns = [_unescaped(column) for column in columns] if b"'" in data else columns
    text.report_ragged(wrong, diagnostics)
    if not len(columns[0]):
        diagnostics.stop_on_errors()
    cells = [str(column[0].as_py()).strip() for column in columns]
    names, header = _checked_names(cells, diagnostics, naming)

    @cache
    def lines() -> np.ndarray:
        every = np.fromiter(text.lines(), np.int64)
        skipped = [row.number - 1 for row in wrong if row.number <= every.size]
        return np.delete(every, skipped)[int(header) :]

    named = dict(zip(names, (column.slice(int(header)) for column in columns), strict=True))
    return Table(diagnostics, named, lines, named=header)


def _unescaped(column: Any) -> Any:
    """Without the apostrophes that our own csv has before what looks like a formula."""
    found = np.flatnonzero(np.asarray(pc.match_substring_regex(column, r"^''*[=+\-@]")))
    if not found.size:
        return column
    cells = column.to_pylist()
    for row in found.tolist():
        cells[row] = unescaped(cells[row])
    return pa.array(cells, LARGE)


def _checked_names(
    first: list[str], diagnostics: Diagnostics, naming: Naming
) -> tuple[list[str], bool]:
    names, header = naming(first)
    for name, count in Counter(names).items():
        if not name:
            diagnostics.fail("a column has no name", "name every column in the first line", 1)
        if count > 1:
            diagnostics.fail(f"column {name!r} occurs twice", "give columns different names", 1)
    return names, header


def _as_utf8(data: bytes, diagnostics: Diagnostics) -> bytes:
    """The text without byte order mark and with a last newline. Lines that are not UTF-8 are
    reported, and continue with replacement characters."""
    advice = "save the file as UTF-8"
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        diagnostics.fail("is encoded as UTF-16", advice, 1)
    data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in data:
        line = data[: data.index(b"\0")].count(b"\n") + 1
        diagnostics.fail("holds a zero byte: not a text file", "export it as csv", line)
    try:
        data.decode()
    except UnicodeDecodeError:
        lines = data.splitlines()
        replaced = [line.decode(errors="replace").encode() for line in lines]
        diagnostics.each(
            [row for row, line in enumerate(lines) if replaced[row] != line],
            lambda row: f"holds bytes that are not UTF-8 ({lines[row][:40]!r})",
            advice,
            lambda row: row + 1,
        )
        data = data.decode(errors="replace").encode()
    return data if data.endswith((b"\n", b"\r")) else data + b"\n"


class _Delimited:
    """Text of separated cells: parsed by Arrow, with Python's csv module for lines and quotes."""

    def __init__(self, data: bytes, delimiter: str) -> None:
        self.data, self.delimiter, self.quoted = data, delimiter, b'"' in data

    def rows(self) -> Any:
        text = io.TextIOWrapper(io.BytesIO(self.data), encoding="utf-8", newline="")
        if self.quoted:
            return csv.reader(text, delimiter=self.delimiter, strict=True)
        return csv.reader(text, delimiter=self.delimiter, quoting=csv.QUOTE_NONE)

    def lines(self) -> Iterator[int]:
        """The line of each row: blank lines are none, quoted cells may span several."""
        if not self.quoted:
            yield from (n for n, line in enumerate(self.data.splitlines(), 1) if line)
            return
        rows, end = self.rows(), 0
        for row in rows:
            if row:
                yield end + 1
            end = rows.line_num

    def check_quotes(self, diagnostics: Diagnostics) -> None:
        """An unclosed quotation mark would merge all the rows after it into one cell."""
        rows, end = self.rows() if self.quoted else iter(()), 0
        try:
            for _ in rows:
                end = rows.line_num
        except csv.Error as error:
            if "end of data" in str(error):
                message = "a quotation mark is opened and not closed"
            elif "limit" in str(error):
                message = "a cell is too long, as if a quotation mark were opened and not closed"
            else:
                message = "text follows a closing quotation mark"
            advice = "close it, and write a quotation mark inside a quoted cell twice"
            diagnostics.fail(message, advice, end + 1)

    def parse(self, file: str, progress: Progress | None) -> tuple[list[Any], list[Any]]:
        """The columns of strings, and the rows that were left out."""
        block = BLOCK
        while True:
            try:
                return self._parse_in_blocks(block, file, progress)
            except pa.ArrowInvalid as error:
                # A row is longer than a block: use larger ones.
                if "straddl" not in str(error) or block > len(self.data):
                    raise
            block *= 16

    def _parse_in_blocks(
        self, block: int, file: str, progress: Progress | None
    ) -> tuple[list[Any], list[Any]]:
        arrow = optional("pyarrow.csv", _FEATURE)
        names = [str(number) for number in range(len(next(row for row in self.rows() if row)))]
        types = dict.fromkeys(names, LARGE)
        wrong: list[Any] = []

        def set_aside(row: Any) -> str:
            wrong.append(row)
            return "skip"

        reader = arrow.open_csv(
            io.BytesIO(self.data),
            # Rows are numbered only with one thread.
            arrow.ReadOptions(use_threads=False, block_size=block, column_names=names),
            arrow.ParseOptions(
                delimiter=self.delimiter,
                quote_char='"' if self.quoted else False,
                newlines_in_values=self.quoted,
                invalid_row_handler=set_aside,
            ),
            arrow.ConvertOptions(column_types=types, strings_can_be_null=False),
        )
        batches, size = [], len(self.data)
        for batch in reader:
            batches.append(batch)
            report(progress, f"parsing {file}", min(len(batches) * block, size), size)
        report(progress, f"parsing {file}", size, size)
        table = pa.Table.from_batches(batches, reader.schema)
        return [column.combine_chunks() for column in table.columns], wrong

    def report_ragged(self, wrong: list[Any], diagnostics: Diagnostics) -> None:
        lines = dict(enumerate(self.lines(), start=1)) if wrong else {}
        first = "cells where the first line has"
        diagnostics.each(
            wrong,
            lambda row: f"has {row.actual_columns} {first} {row.expected_columns}",
            "give every line the same columns, and quote cells that contain the separator",
            lambda row: lines.get(row.number),
        )


def _read_parquet(path: Path, diagnostics: Diagnostics, naming: Naming) -> Table:
    """Repeated values take almost no space in the file, so the memory that they would fill is
    computed before they are unpacked."""
    parquet = optional("pyarrow.parquet", _FEATURE)
    with diagnostics.parsing("Parquet file", "write it again, for example with pandas"):
        with parquet.ParquetFile(path) as file:
            names, _ = _checked_names(file.schema_arrow.names, diagnostics, naming)
            for column in file.schema_arrow:
                if pa.types.is_nested(column.type):
                    message = f"column {column.name!r} holds {column.type}"
                    advice = "write one number or text per cell, in as many columns as needed"
                    diagnostics.fail(message, advice)
            packed = path.stat().st_size
            diagnostics.check_unpacked(_claimed(file.metadata), packed)
            texts = [field.name for field in file.schema_arrow if _is_text_type(field.type)]
        # Texts stay dictionary-encoded until their size is known.
        with parquet.ParquetFile(path, read_dictionary=texts) as file:
            groups, size = [file.schema_arrow.empty_table()], 0
            for number in range(file.metadata.num_row_groups):
                groups.append(file.read_row_group(number, use_threads=False))
                size += sum(map(_decoded_size, groups[-1].columns))
                diagnostics.check_unpacked(size, packed)
        read = pa.concat_tables(groups)
        read.validate(full=True)
        return Table(diagnostics, dict(zip(names, map(_joined, read.columns), strict=True)))


def _claimed(metadata: Any) -> int:
    """Bytes of all values; texts, which may be stored once and repeated, as they are stored.

    Of the facts on a group's columns none is asked for: if they are damaged, pyarrow ends the
    process.
    """
    columns = map(metadata.schema.column, range(metadata.num_columns))
    row = sum(
        WIDTHS.get(kind := column.physical_type, column.length if kind == FIXED else 8)
        for column in columns
    )
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    return sum(max(group.total_byte_size, group.num_rows * row) for group in groups)


def _decoded_size(column: Any) -> int:
    """Bytes of a column's texts once every repetition is written out."""
    size = 0
    for chunk in column.chunks if pa.types.is_dictionary(column.type) else ():
        if _is_text_type(chunk.type.value_type):
            lengths = pc.binary_length(chunk.dictionary).cast(pa.int64())
            size += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return size


def _joined(column: Any) -> Any:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return column.cast(LARGE if pa.types.is_string(kind) else kind).combine_chunks()


def _is_text_type(kind: Any) -> bool:
    return kind in (pa.string(), LARGE, pa.binary(), pa.large_binary())
