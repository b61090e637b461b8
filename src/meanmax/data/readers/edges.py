r"""A table of edges between the identifiers of a table of nodes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from meanmax.data.readers.parts import Edges
from meanmax.data.readers.problems import Findings
from meanmax.data.readers.table import (GOOD, LARGE, Table, check_identifiers, has_decimal_comma, numbers, texts)

SOURCES = ("source", "src", "from", "u", "head", "node1")
TARGETS = ("target", "dst", "to", "v", "tail", "node2", "dest", "destination")
WEIGHTS = ("weight", "edge_weight", "w")


def edge_columns(first: list[str], file: str, findings: Findings) -> tuple[list[str], bool]:
    r"""The names of the columns and whether the first row holds them. Without a column of sources
    and one of targets, two or three columns are source, target and weight.

    Args:
        first (list): The cells of the first row.
        file (str): The name of the file.
        findings (Findings): Where problems go.
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


def read_edges(table: Table, ids: np.ndarray, findings: Findings, named: bool = True) -> Edges:
    r"""Finds both ends of each edge among the nodes, and the weights.

    Args:
        table (Table): Columns :obj:`source`, :obj:`target` and perhaps :obj:`weight`.
        ids (ndarray): The identifiers of all nodes.
        findings (Findings): Where problems go.
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


def _find(table: Table, side: str, nodes: Any, findings: Findings, named: bool) -> np.ndarray:
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


def _read_weight(table: Table, findings: Findings) -> np.ndarray:
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
