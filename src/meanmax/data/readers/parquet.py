r"""Columns of a Parquet file, and never more of them than memory can hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from meanmax.data.readers.contents import check_size
from meanmax.data.readers.problems import Findings
from meanmax.data.readers.table import (LARGE, Table, check_names)

WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT96": 12}  # numbers and texts have 8


def read_parquet(path: Path, findings: Findings) -> Table:
    r"""Reads all columns. Repeated values take next to no place in such a file, so what counts is
    the memory that they would fill, which is worked out before they do.

    Args:
        path (Path): The file.
        findings (Findings): Where problems go.
    """
    with findings.parsing(path.name, "Parquet file", "write it anew, for example with pandas"):
        with pyarrow.parquet.ParquetFile(path) as file:
            check_names(path.name, file.schema_arrow.names, findings)
            _refuse_nested(path.name, file.schema_arrow, findings)
            check_size(path.name, _claimed(file.metadata), findings)
            texts = [field.name for field in file.schema_arrow if _is_text(field.type)]
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


def _refuse_nested(file: str, schema: Any, findings: Findings) -> None:
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
        if _is_text(chunk.type.value_type):
            lengths = pc.binary_length(chunk.dictionary).cast(pa.int64())
            size += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return size


def _joined(column: Any) -> Any:
    kind = column.type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    column = column.cast(LARGE if pa.types.is_string(kind) else kind)
    return column.combine_chunks()


def _is_text(kind: Any) -> bool:
    types = pa.types
    texts = types.is_string(kind) or types.is_large_string(kind)
    return bool(texts or types.is_binary(kind) or types.is_large_binary(kind))
