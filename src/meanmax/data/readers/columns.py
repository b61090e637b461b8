r"""Labels from columns: one class per node, or several labels."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from meanmax.data.readers.assemble import NO_SPLIT, TEST, TRAIN, VAL, Edges, Labels, Nodes
from meanmax.data.readers.problems import Diagnostics, OwnDataError
from meanmax.data.readers.tables import (
    GOOD,
    LARGE,
    MISSING,
    TEXT,
    Table,
    check_identifiers,
    check_one_line,
    check_size,
    has_decimal_comma,
    numbers,
    texts,
)

LABEL = ("label", "labels", "class")
LABEL_IF_NO_OTHER = ("y", "target")
PREFIX = "label_"
SEPARATOR = "|"
_GAPS = ("nan", "NaN", "NAN", "NA", "N/A", "n/a", "<NA>")  # Na is sodium
_SUSPICIOUS = {"-1", "nan", "na", "n/a", "null", "none", "?"}


def is_label(column: str) -> bool:
    r"""Whether a column of this name, in lower case, holds labels."""
    return column in LABEL or column.startswith(PREFIX)


def read_labels(table: Table, columns: list[str], findings: Diagnostics) -> Labels:
    r"""Reads one column of classes, one column of labels separated by :obj:`|`, or a column of
    0 and 1 for each label. Nodes with nothing written are to be predicted.

    Args:
        table (Table): The columns.
        columns (list): Those that hold labels.
        findings (Diagnostics): Where problems go.
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


def without_gaps(cells: list[str], file: str, findings: Diagnostics) -> list[str]:
    r"""Empties the cells that other programs write for a missing label (:obj:`NA`, :obj:`nan`, and
    :obj:`-1` beside classes numbered from 0), with a note.

    Args:
        cells (list): The different cells of a column of labels.
        file (str): The name of the file.
        findings (Diagnostics): Where the note goes.
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


def _read_names(table: Table, column: Any, findings: Diagnostics) -> Labels:
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


def _note_suspicious(table: Table, names: list[str], findings: Diagnostics) -> None:
    for name in names:
        if name.lower() in _SUSPICIOUS:
            message = f"{name!r} is read as the name of a class"
            findings.note(table.file, None, message, "leave the cell empty if it means no label")


def _read_indicators(table: Table, columns: list[str], findings: Diagnostics) -> Labels:
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


def _report_not_binary(table: Table, name: str, rows: np.ndarray, findings: Diagnostics) -> None:
    column = table.columns[name]

    def describe(row: int) -> str:
        return f"{table.place(row)}{name!r} must be 0 or 1 (got {str(column[row].as_py())[:40]!r})"

    findings.each(table.file, rows, table.line, describe, "write 1 where the node has the label")


SOURCES = ("source", "src", "from", "u", "head", "node1")
TARGETS = ("target", "dst", "to", "v", "tail", "node2", "dest", "destination")
WEIGHTS = ("weight", "edge_weight", "w")


def edge_columns(first: list[str], file: str, findings: Diagnostics) -> tuple[list[str], bool]:
    r"""The names of the columns and whether the first row holds them. Without a column of sources
    and one of targets, two or three columns are source, target and weight.

    Args:
        first (list): The cells of the first row.
        file (str): The name of the file.
        findings (Diagnostics): Where problems go.
    """
    lower = [name.lower() for name in first]
    roles = [_role(name) for name in lower]
    if roles.count("source") == 1 and roles.count("target") == 1 and roles.count("weight") < 2:
        return [role or name for role, name in zip(roles, lower, strict=True)], True
    if any(roles) or len(first) not in (2, 3):
        findings.fail(
            file,
            1,
            f"must have one column 'source' and one 'target' (got {', '.join(first[:8])!r})",
            "name them in the first line; a third may be 'weight'",
        )
    return ["source", "target", "weight"][: len(first)], False


def read_edges(table: Table, ids: np.ndarray, findings: Diagnostics, named: bool = True) -> Edges:
    r"""Finds both ends of each edge among the nodes, and the weights.

    Args:
        table (Table): Columns :obj:`source`, :obj:`target` and perhaps :obj:`weight`.
        ids (ndarray): The identifiers of all nodes.
        findings (Diagnostics): Where problems go.
        named (bool): Whether the file named its columns.
    """
    nodes = pa.array(ids, LARGE)
    ends = [_find(table, side, nodes, findings, named) for side in ("source", "target")]
    weight = _read_weight(table, findings) if "weight" in table.columns else None
    others = [name for name in table.columns if name not in ("source", "target", "weight")]
    if others:
        message = f"columns {', '.join(map(repr, others))} are not used"
        findings.note(table.file, None, message, "name one 'weight' if it is the weight")
    known = (ends[0] >= 0) & (ends[1] >= 0)
    kept = np.flatnonzero(known)
    if weight is not None:
        weight = weight[known]
    return Edges(
        table.file, ends[0][known], ends[1][known], weight, lambda row: table.line(int(kept[row]))
    )


def _role(name: str) -> str:
    for role, names in (("source", SOURCES), ("target", TARGETS), ("weight", WEIGHTS)):
        if name in names:
            return role
    return ""


def _find(table: Table, side: str, nodes: Any, findings: Diagnostics, named: bool) -> np.ndarray:
    check_identifiers(table, side, findings)
    column = texts(table.columns[side])
    if column is None:
        kind = table.columns[side].type
        findings.fail(table.file, None, f"column {side!r} holds {kind}",
                      "write the identifiers of nodes")  # fmt: skip
    found = pc.fill_null(pc.index_in(column, nodes), -1).to_numpy(zero_copy_only=False)
    found = np.where(pc.equal(column, "").to_numpy(zero_copy_only=False), -1, found)

    def describe(row: int) -> str:
        name = column[row].as_py()
        what = f"{side} {name[:60]!r} is not among the nodes" if name else f"{side} is empty"
        hint = " (columns without names; a header says 'source,target')" if row == 0 else ""
        return table.place(row) + what + _near(name, nodes) + ("" if named else hint)

    advice = "add the node to the nodes file, or remove the edge"
    findings.each(table.file, np.flatnonzero(found < 0), table.line, describe, advice)
    return found.astype(np.int64)


def _near(name: str, nodes: Any) -> str:
    """A program that met a gap in the column may have written 1.0 for 1."""
    other = name.split(".")[0] if re.fullmatch(r"-?[0-9]+\.0+", name) else f"{name}.0"
    if not name or pc.index(nodes, pa.scalar(other, LARGE)).as_py() < 0:
        return ""
    return f", but {other[:60]!r} is: write identifiers alike in both files"


def _read_weight(table: Table, findings: Diagnostics) -> np.ndarray:
    read = numbers(table.columns["weight"])
    if read is None:
        kind = table.columns["weight"].type
        findings.fail(table.file, None, f"column 'weight' holds {kind}", "write numbers")
    values, state = read
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    wrong = (state != GOOD) | ~np.isfinite(single) | (single < 0)

    def describe(row: int) -> str:
        cell = table.columns["weight"][row].as_py()
        got = "nothing" if cell is None or cell == "" else repr(str(cell)[:40])
        point = ", written with a decimal point" if has_decimal_comma(cell) else ""
        return f"{table.place(row)}the weight must be a finite number >= 0{point} (got {got})"

    advice = "correct the weight, or remove the column to weigh all edges alike"
    findings.each(table.file, np.flatnonzero(wrong), table.line, describe, advice)
    return np.where(wrong, np.float32(1), single)


Cells = dict[str, list[tuple[str, np.ndarray]]]  # what is wrong: columns and their rows


def read_features(table: Table, names: list[str], findings: Diagnostics) -> np.ndarray:
    r"""The columns :obj:`names` as float32, :obj:`[num_nodes, num_features]`, each cell finite.

    Args:
        table (Table): The columns.
        names (list): Those that hold features.
        findings (Diagnostics): Where problems go.
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


def _read_feature(table: Table, name: str, wrong: Cells, findings: Diagnostics) -> np.ndarray:
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


def _is_text(table: Table, name: str, state: np.ndarray, findings: Diagnostics) -> bool:
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
    table: Table, what: str, cells: list[tuple[str, np.ndarray]], findings: Diagnostics
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


IDS = ("id", "node", "node_id", "nodeid")
LONGEST = 1000
SPLITS = {
    **dict.fromkeys(("", "-1"), NO_SPLIT),
    **dict.fromkeys(("train", "training", "0"), TRAIN),
    **dict.fromkeys(("val", "valid", "validation", "1"), VAL),
    **dict.fromkeys(("test", "testing", "2"), TEST),
}


def read_nodes(table: Table, findings: Diagnostics) -> Nodes:
    r"""Sorts the columns by name: :obj:`id`, :obj:`label` or several :obj:`label_...`,
    :obj:`split`; all others are features.

    Args:
        table (Table): The columns.
        findings (Diagnostics): Where problems go.
    """
    by_role: dict[str, list[str]] = {"id": [], "label": [], "split": [], "feature": []}
    for name in table.columns:
        by_role[role(name)].append(name)
    _move_labels(table, by_role, findings)
    if len(by_role["id"]) != 1:
        got = f"columns {_shown(by_role['id'])}" if by_role["id"] else _shown(table.columns)
        findings.fail(table.file, None, f"must have one column of identifiers (got {got})",
                      "name one column 'id' in the first line")  # fmt: skip
    if not table.rows:
        findings.fail(table.file, None, "has no nodes", "write a row for each node")
    ids = _read_ids(table, by_role["id"][0], findings)
    x = read_features(table, by_role["feature"], findings)
    labels = read_labels(table, by_role["label"], findings)
    return Nodes(table.file, x, labels, ids, _read_split(table, by_role["split"], findings))


def role(name: str) -> str:
    r"""What a column of this name holds: :obj:`id`, :obj:`label`, :obj:`split` or
    :obj:`feature`.
    """
    lower = name.lower()
    if lower in IDS:
        return "id"
    if is_label(lower):
        return "label"
    return "split" if lower == "split" else "feature"


def _move_labels(table: Table, by_role: dict[str, list[str]], findings: Diagnostics) -> None:
    """What is usually the truth must not become a feature that gives it away."""
    likely = [name for name in by_role["feature"] if name.lower() in LABEL_IF_NO_OTHER]
    shown = " and ".join(map(repr, likely))
    if likely and by_role["label"]:
        message = f"{shown} beside {_shown(by_role['label'])} is read as a feature"
        findings.note(table.file, None, message, "remove it if it tells the label")
    elif likely:
        findings.note(table.file, None, f"{shown} is read as the label",
                      "name another column 'label', or this one otherwise")  # fmt: skip
        by_role["label"] = likely
        by_role["feature"] = [name for name in by_role["feature"] if name not in likely]


def _read_ids(table: Table, name: str, findings: Diagnostics) -> np.ndarray:
    check_identifiers(table, name, findings)
    column = texts(table.columns[name])
    if column is None:
        findings.fail(table.file, None, f"column {name!r} holds neither text nor numbers",
                      "use numbers or names as identifiers")  # fmt: skip
    check_one_line(table, name, column, findings)
    lengths = pc.utf8_length(column).to_numpy(zero_copy_only=False)
    long = np.flatnonzero(lengths > LONGEST)
    findings.each(
        table.file,
        long,
        table.line,
        lambda row: f"{table.place(row)}the identifier is longer than {LONGEST} characters",
        "use shorter ones: all of them are kept in one array",
    )
    if long.size:
        raise OwnDataError(findings.errors)
    check_size(table.file, 4 * lengths.size * int(lengths.max()), findings)  # 4 bytes a character
    ids: np.ndarray = column.to_numpy(zero_copy_only=False).astype(str)
    empty = np.flatnonzero(ids == "")
    findings.each(
        table.file,
        empty,
        table.line,
        lambda row: f"{table.place(row)}the node has no identifier",
        f"fill in column {name!r}",
    )
    _report_duplicates(table, ids, findings)
    return ids


def _report_duplicates(table: Table, ids: np.ndarray, findings: Diagnostics) -> None:
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    again = np.flatnonzero((first[inverse] != np.arange(ids.size)) & (ids != ""))

    def describe(row: int) -> str:
        before = int(first[inverse[row]])
        line = table.line(before)
        where = f"row {before + 1}" if line is None else f"line {line}"
        return f"{table.place(row)}node {str(ids[row])!r} stands already on {where}"

    findings.each(table.file, again, table.line, describe, "keep one row for each node")


def _read_split(table: Table, names: list[str], findings: Diagnostics) -> np.ndarray | None:
    if not names:
        return None
    column = texts(table.columns[names[0]])
    if column is None or len(names) > 1:
        findings.error(table.file, None, f"must have one 'split' column of text (got {names})",
                       "write train, val, test or nothing in it")  # fmt: skip
        return None
    coded = column.dictionary_encode()
    words = [str(word).lower() for word in coded.dictionary.to_pylist()]
    codes = np.array([SPLITS.get(word, -2) for word in words], np.int8)
    split: np.ndarray = codes[coded.indices.to_numpy(zero_copy_only=False)]
    findings.each(
        table.file,
        np.flatnonzero(split == -2),
        table.line,
        lambda row: f"{table.place(row)}unknown split {column[row].as_py()!r}",
        "write train, val or test, or leave the cell empty",
    )
    return split


def _shown(names: Iterable[str]) -> str:
    listed = [repr(name) for name in names]
    return ", ".join(listed[:8]) + (f" and {len(listed) - 8} more" if len(listed) > 8 else "")
