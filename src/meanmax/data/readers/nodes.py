r"""A table of nodes: identifiers, features, labels, split."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow.compute as pc

from meanmax.data.readers.contents import check_size
from meanmax.data.readers.features import read_features
from meanmax.data.readers.columns import (LABEL_IF_NO_OTHER, is_label, read_labels)
from meanmax.data.readers.parts import (NO_SPLIT, TEST, TRAIN, VAL, Nodes)
from meanmax.data.readers.problems import (Findings, OwnDataError)
from meanmax.data.readers.table import (Table, check_identifiers, check_one_line, texts)

IDS = ("id", "node", "node_id", "nodeid")
LONGEST = 1000
SPLITS = {
    **dict.fromkeys(("", "-1"), NO_SPLIT),
    **dict.fromkeys(("train", "training", "0"), TRAIN),
    **dict.fromkeys(("val", "valid", "validation", "1"), VAL),
    **dict.fromkeys(("test", "testing", "2"), TEST),
}


def read_nodes(table: Table, findings: Findings) -> Nodes:
    r"""Sorts the columns by name: :obj:`id`, :obj:`label` or several :obj:`label_...`,
    :obj:`split`; all others are features.

    Args:
        table (Table): The columns.
        findings (Findings): Where problems go.
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


def _move_labels(table: Table, by_role: dict[str, list[str]], findings: Findings) -> None:
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


def _read_ids(table: Table, name: str, findings: Findings) -> np.ndarray:
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


def _report_duplicates(table: Table, ids: np.ndarray, findings: Findings) -> None:
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    again = np.flatnonzero((first[inverse] != np.arange(ids.size)) & (ids != ""))

    def describe(row: int) -> str:
        before = int(first[inverse[row]])
        line = table.line(before)
        where = f"row {before + 1}" if line is None else f"line {line}"
        return f"{table.place(row)}node {str(ids[row])!r} stands already on {where}"

    findings.each(table.file, again, table.line, describe, "keep one row for each node")


def _read_split(table: Table, names: list[str], findings: Findings) -> np.ndarray | None:
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
