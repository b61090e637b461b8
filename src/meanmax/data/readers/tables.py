r"""Rows of a csv or tsv file, read fast, with the lines they stand on."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from meanmax.data.files import Progress, report
from meanmax.data.readers.problems import Diagnostics

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


def check_names(file: str, names: list[str], findings: Diagnostics) -> None:
    r"""Stops if columns have no name, or one name stands twice."""
    for name, count in Counter(names).items():
        if not name:
            findings.fail(file, 1, "a column has no name", "name every column in the first line")
        if count > 1:
            findings.fail(file, 1, f"column {name!r} stands twice", "give columns different names")


def check_identifiers(table: Table, name: str, findings: Diagnostics) -> None:
    r"""Stops if a column holds floats so large that different identifiers may look alike."""
    column = table.columns[name]
    if pa.types.is_floating(column.type) and not _is_exact(column):
        message = f"column {name!r} holds {column.type} numbers too large to tell integers apart"
        findings.fail(table.file, None, message, "write identifiers as integers or as text")


def check_one_line(table: Table, name: str, column: Any, findings: Diagnostics) -> None:
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


_ENCODED = "save the file as UTF-8"


def as_utf8(file: str, data: bytes, findings: Diagnostics) -> bytes:
    r"""The text without byte order mark and with a last newline; lines that are not UTF-8 are
    reported, and go on with marks for what could not be read.

    Args:
        file (str): The name of the file.
        data (bytes): Its content.
        findings (Diagnostics): Where problems go.
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        findings.fail(file, 1, "is encoded as UTF-16", _ENCODED)
    data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in data:
        line = data[: data.index(b"\0")].count(b"\n") + 1
        findings.fail(file, line, "holds a zero byte: not a text file", "export it as csv")
    try:
        data.decode()
    except UnicodeDecodeError:
        data = _replace_undecodable(file, data, findings)
    return data if data.endswith((b"\n", b"\r")) else data + b"\n"


def _replace_undecodable(file: str, data: bytes, findings: Diagnostics) -> bytes:
    """Reports each such line and goes on with the others."""
    lines = data.splitlines()
    wrong = [row for row, line in enumerate(lines) if not _decodes(line)]
    describe = "holds bytes that are not UTF-8 ({!r})".format
    findings.each(file, wrong, lambda row: row + 1, lambda row: describe(lines[row][:40]), _ENCODED)
    return data.decode(errors="replace").encode()


def _decodes(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


PIECE = 1 << 24


def contents(path: Path, findings: Diagnostics, progress: Progress | None = None) -> bytes:
    r"""Reads a file, and unpacks it if its name ends in :obj:`.gz`.

    Args:
        path (Path): The file.
        findings (Diagnostics): Where problems go.
        progress (callable, optional): Told the bytes read.
    """
    packed = path.suffix == ".gz"
    with findings.parsing(path.name, "file", "check that it is there, complete and yours to read"):
        size = path.stat().st_size
        check_size(path.name, size, findings)
        pieces: list[bytes] = []
        with gzip.open(path) if packed else path.open("rb") as stream:
            done = 0
            while piece := stream.read(PIECE):
                pieces.append(piece)
                done += len(piece)
                check_size(path.name, done, findings)
                report(progress, f"reading {path.name}", done, None if packed else max(size, done))
        report(progress, f"reading {path.name}", done, done)
    return b"".join(pieces)


def check_size(file: str, size: int, findings: Diagnostics) -> None:
    r"""Stops before a file, or what a small packed file claims to hold, fills the memory."""
    limit = memory() // 2
    if size > limit:
        findings.fail(
            file,
            None,
            f"takes {size:,} bytes unpacked, more than half of this machine's memory",
            "use a smaller file, or a machine with more memory",
        )


def memory() -> int:
    r"""Bytes of memory, 16 GiB where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 34


BLOCK = 1 << 22


@dataclass(frozen=True, eq=False)
class Rows:
    r"""All rows of a file as columns of strings; a first row of names is one of them.

    Args:
        file (str): The name of the file.
        columns (list): Arrow arrays of strings.
        text (_Text): Where to find the line of a row.
        skipped (list): Rows that were left out, as they have too few or too many cells.
    """

    file: str
    columns: list[Any]
    text: _Text
    skipped: list[int]

    @property
    def first(self) -> list[str]:
        r"""The cells of the first row, without spaces around them."""
        return [str(column[0].as_py()).strip() for column in self.columns]

    def table(self, names: list[str], header: bool) -> Table:
        r"""The columns under their names, without the first row if that is the header."""
        start = int(header)
        columns = {
            name: column.slice(start) for name, column in zip(names, self.columns, strict=True)
        }

        @cache
        def lines() -> np.ndarray:
            every = np.fromiter(self.text.lines(), np.int64)
            skipped = [row for row in self.skipped if row < every.size]
            return np.delete(every, skipped)[start:]

        return Table(self.file, columns, lines)


def read_rows(path: Path, findings: Diagnostics, progress: Progress | None) -> Rows:
    r"""Reads a file of comma, semicolon or tab separated cells; gzipped if it ends in :obj:`.gz`.

    Rows of another length than the first are reported and left out.

    Args:
        path (Path): The file.
        findings (Diagnostics): Where problems go.
        progress (callable, optional): Told the bytes read.
    """
    data = as_utf8(path.name, contents(path, findings, progress), findings)
    text = _Text(data, quoted=b'"' in data)
    first = text.first()
    if not first:
        findings.fail(path.name, None, "is empty", "write a line of column names and the rows")
    text.delimiter = "\t" if ".tsv" in path.suffixes else max(",;\t", key=first.count)
    _check_quotes(path.name, text, findings)
    wrong: list[Any] = []
    advice = "repair it, or export it anew as comma separated values in UTF-8"
    with findings.parsing(path.name, "table", advice):
        columns = _parse(text, wrong, path.name, progress)
    _report_wrong(path.name, wrong, text, findings)
    if not len(columns[0]):
        findings.stop_on_errors()
    return Rows(path.name, columns, text, [row.number - 1 for row in wrong])


class _Text:
    def __init__(self, data: bytes, quoted: bool) -> None:
        self.data = data
        self.quoted = quoted
        self.delimiter = ","

    def first(self) -> str:
        lines = io.BytesIO(self.data)
        return next((line.strip().decode() for line in lines if line.strip()), "")

    def width(self) -> int:
        return len(next(row for row in self.rows() if row))

    def lines(self) -> Iterator[int]:
        """The line of each row: blank lines are none, quoted cells may run over several."""
        if not self.quoted:
            yield from (n for n, line in enumerate(self.data.splitlines(), 1) if line)
            return
        rows, end = self.rows(), 0
        for row in rows:
            if row:
                yield end + 1
            end = rows.line_num

    def rows(self) -> Any:
        text = io.TextIOWrapper(io.BytesIO(self.data), encoding="utf-8", newline="")
        if self.quoted:
            return csv.reader(text, delimiter=self.delimiter, strict=True)
        return csv.reader(text, delimiter=self.delimiter, quoting=csv.QUOTE_NONE)


def _check_quotes(file: str, text: _Text, findings: Diagnostics) -> None:
    """A quotation mark that is never closed would make one cell of all the rows after it."""
    if not text.quoted:
        return
    rows, end = text.rows(), 0
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
        findings.fail(file, end + 1, message, advice)


def _parse(text: _Text, wrong: list[Any], file: str, progress: Progress | None) -> list[Any]:
    block = BLOCK
    while True:
        try:
            return _parse_in_blocks(text, block, wrong, file, progress)
        except pa.ArrowInvalid as error:
            # A row that is longer than a block: take larger ones.
            if "straddl" not in str(error) or block > len(text.data):
                raise
        wrong.clear()
        block *= 16


def _parse_in_blocks(
    text: _Text, block: int, wrong: list[Any], file: str, progress: Progress | None
) -> list[Any]:
    names = [str(number) for number in range(text.width())]

    def set_aside(row: Any) -> str:
        wrong.append(row)
        return "skip"

    reader = pyarrow.csv.open_csv(
        io.BytesIO(text.data),
        # One thread: only then are rows numbered.
        pyarrow.csv.ReadOptions(use_threads=False, block_size=block, column_names=names),
        pyarrow.csv.ParseOptions(
            delimiter=text.delimiter,
            quote_char='"' if text.quoted else False,
            newlines_in_values=text.quoted,
            invalid_row_handler=set_aside,
        ),
        pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, LARGE), strings_can_be_null=False
        ),
    )
    batches, done = [], 0
    for batch in reader:
        batches.append(batch)
        done = min(done + block, len(text.data))
        report(progress, f"parsing {file}", done, len(text.data))
    report(progress, f"parsing {file}", len(text.data), len(text.data))
    table = pa.Table.from_batches(batches, reader.schema)
    return [column.combine_chunks() for column in table.columns]


def _report_wrong(file: str, wrong: list[Any], text: _Text, findings: Diagnostics) -> None:
    if not wrong:
        return
    lines = list(text.lines())

    def line(number: int) -> int | None:
        row = wrong[number].number - 1
        return lines[row] if row < len(lines) else None

    def describe(number: int) -> str:
        row = wrong[number]
        return f"has {row.actual_columns} cells where the first line has {row.expected_columns}"

    advice = "give every line the same columns, and quote cells that contain the separator"
    findings.each(file, range(len(wrong)), line, describe, advice)


WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT96": 12}  # numbers and texts have 8


def read_parquet(path: Path, findings: Diagnostics) -> Table:
    r"""Reads all columns. Repeated values take next to no place in such a file, so what counts is
    the memory that they would fill, which is worked out before they do.

    Args:
        path (Path): The file.
        findings (Diagnostics): Where problems go.
    """
    with findings.parsing(path.name, "Parquet file", "write it anew, for example with pandas"):
        with pyarrow.parquet.ParquetFile(path) as file:
            check_names(path.name, file.schema_arrow.names, findings)
            _refuse_nested(path.name, file.schema_arrow, findings)
            check_size(path.name, _claimed(file.metadata), findings)
            texts = [field.name for field in file.schema_arrow if _is_text_type(field.type)]
        # Texts stay numbers of different texts until their size is known.
        with pyarrow.parquet.ParquetFile(path, read_dictionary=texts) as file:
            groups, size = [file.schema_arrow.empty_table()], 0
            for number in range(file.metadata.num_row_groups):
                groups.append(file.read_row_group(number, use_threads=False))
                size += sum(map(_spelled_out, groups[-1].columns))
                check_size(path.name, size, findings)
        read = pa.concat_tables(groups)
        read.validate(full=True)
        columns = {name: _joined(read[name]) for name in read.column_names}
    return Table(path.name, columns)


def _refuse_nested(file: str, schema: Any, findings: Diagnostics) -> None:
    for field in schema:
        if pa.types.is_nested(field.type):
            message = f"column {field.name!r} holds {field.type}"
            advice = "write one number or text per cell, in as many columns as needed"
            findings.fail(file, None, message, advice)


def _claimed(metadata: Any) -> int:
    """Bytes of all values; texts, which may be written once and repeated, as they are written."""
    size = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        values = 0
        for position in range(group.num_columns):
            chunk = group.column(position)
            width = WIDTHS.get(chunk.physical_type, 8)
            if chunk.physical_type == "FIXED_LEN_BYTE_ARRAY":
                width = metadata.schema.column(position).length
            values += chunk.num_values * width
        size += max(group.total_byte_size, values)
    return size


def _spelled_out(column: Any) -> int:
    """Bytes of a column's texts, each as often as it stands there."""
    size = 0
    for chunk in column.chunks if pa.types.is_dictionary(column.type) else ():
        if _is_text_type(chunk.type.value_type):
            lengths = pc.binary_length(chunk.dictionary).cast(pa.int64())
            size += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return size


def _joined(column: Any) -> Any:
    kind = column.type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    column = column.cast(LARGE if pa.types.is_string(kind) else kind)
    return column.combine_chunks()


def _is_text_type(kind: Any) -> bool:
    types = pa.types
    texts = types.is_string(kind) or types.is_large_string(kind)
    return bool(texts or types.is_binary(kind) or types.is_large_binary(kind))
