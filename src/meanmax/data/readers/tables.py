r"""Rows of a csv or tsv file, read fast, with the lines they stand on."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from meanmax.data.readers.contents import contents
from meanmax.data.readers.encoding import as_utf8
from meanmax.data.readers.problems import Findings
from meanmax.data.readers.table import (LARGE, Table)
from meanmax.data.progress import (Progress, report)

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


def read_rows(path: Path, findings: Findings, progress: Progress | None) -> Rows:
    r"""Reads a file of comma, semicolon or tab separated cells; gzipped if it ends in :obj:`.gz`.

    Rows of another length than the first are reported and left out.

    Args:
        path (Path): The file.
        findings (Findings): Where problems go.
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


def _check_quotes(file: str, text: _Text, findings: Findings) -> None:
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


def _report_wrong(file: str, wrong: list[Any], text: _Text, findings: Findings) -> None:
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
