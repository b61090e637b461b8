r"""Nodes and edges from the columns of a table: identifiers, features, labels, splits, weights."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from meanmax.data.readers.assemble import (
    GAPS,
    EdgeColumns,
    GraphRows,
    LabelColumns,
    NodeColumns,
    class_order,
    target_numbers,
    without_gaps,
)
from meanmax.data.readers.features import FeatureOptions
from meanmax.data.readers.problems import Diagnostics
from meanmax.data.readers.tables import GOOD, LARGE, MISSING, TEXT, Table, has_decimal_comma, pa, pc
from meanmax.data.splits import PART_OF_WORD
from meanmax.names import Level

IDS = ("id", "node", "node_id", "nodeid")
GRAPHS = ("graph", "graph_id")
LABEL = ("label", "labels", "class")
LABEL_IF_NO_OTHER = ("y", "target")
PREFIX = "label_"
SEPARATOR = "|"
SOURCES = ("source", "src", "from", "u", "head", "node1")
TARGETS = ("target", "dst", "to", "v", "tail", "node2", "dest", "destination")
WEIGHTS = ("weight", "edge_weight", "w")
LONGEST = 1000
_BETWEEN = pa.scalar("\n", LARGE)  # of a graph and a node in one key: identifiers have none
_IMPUTE = "--impute mean, median or zero"
_SUSPICIOUS = {"-1", "nan", "na", "n/a", "null", "none", "?"}


def role(name: str) -> str:
    r"""What a column of nodes with this name holds: "id", "label", "split" or "feature"."""
    lower = name.lower()
    if lower in IDS:
        return "id"
    if lower in LABEL or lower.startswith(PREFIX):
        return "label"
    return "split" if lower == "split" else "feature"


def read_nodes(table: Table, options: FeatureOptions) -> NodeColumns:
    r"""Reads nodes. The names of the columns give their roles: :obj:`id`, :obj:`label` or several
    :obj:`label_...`, :obj:`split`; all others are features.
    """
    by_role = _by_role(table)
    _find_labels(table, by_role)
    ids = _read_ids(table, by_role["id"], "node")
    _check_different(table, pa.array(ids, LARGE), ids, "node", "keep one row for each node")
    if not by_role["feature"]:
        table.diagnostics.fail(
            "has no feature columns, and a graph without features cannot be learned from",
            "add numbers that describe each node, such as its degree or a one-hot position",
        )
    x, feature_names, encoding = _read_features(table, by_role["feature"], options)
    labels = _read_labels(table, by_role["label"])
    split = _read_split(table, by_role["split"])
    return NodeColumns(
        table.diagnostics, x, labels, ids, split, feature_names=feature_names, encoding=encoding
    )


def read_graphs(table: Table) -> GraphRows:
    r"""Reads graphs that have labels: :obj:`id`, or :obj:`graph`, the label and the split as in
    :func:`read_nodes`.
    """
    by_role = _by_role(table)
    by_role["id"] += [name for name in by_role["feature"] if name.lower() in GRAPHS]
    by_role["feature"] = [name for name in by_role["feature"] if name not in by_role["id"]]
    _find_labels(table, by_role)
    if by_role["feature"]:
        message = f"{_shown(by_role['feature'])} of graphs not used"
        table.diagnostics.note(message, "features are those of nodes")
    ids = _read_ids(table, by_role["id"], "graph")
    _check_different(table, pa.array(ids, LARGE), ids, "graph", "keep one row for each graph")
    labels, split = _read_labels(table, by_role["label"]), _read_split(table, by_role["split"])
    return GraphRows(table.diagnostics, labels, ids, split, table.line)


def read_nodes_of_graphs(
    table: Table, options: FeatureOptions, graphs: GraphRows, *, in_graphs: bool, has_edges: bool
) -> tuple[NodeColumns, np.ndarray, Any]:
    r"""Reads the nodes of several graphs: :obj:`graph`, :obj:`id`, and features, perhaps none.
    Identifiers differ, or only within each graph if edges name their graph (:obj:`in_graphs`);
    without edges there may be none. Returns the number of the graph of each node, and the keys by
    which edges find nodes, too.
    """
    by_role = _by_role(table)
    column = graph_column(table)
    if column is None:
        message = f"must have a column of the graph of each node (got {_shown(table.columns)})"
        table.diagnostics.fail(message, "name it 'graph'; its cells are those of the graphs file")
    by_role["feature"].remove(column)
    for part in ("label", "split"):
        if by_role[part]:
            message = f"{_shown(by_role[part])} of nodes not used: graphs have labels and splits"
            table.diagnostics.note(message, "rename the column if it is a feature")
    ids, keys = None, None
    if has_edges or by_role["id"]:
        ids = _read_ids(table, by_role["id"], "node")
        keys = pa.array(ids, LARGE)
        keys = _keys(table.texts(column), keys) if in_graphs else keys
        advice = "use different identifiers, or add a column 'graph' to the edges"
        advice = "keep one row for each node of a graph" if in_graphs else advice
        _check_different(table, keys, ids, "node", advice)
    graph = _find_graphs(table, column, graphs)
    nodes = NodeColumns(table.diagnostics, None, LabelColumns.none(table.rows), ids)
    if by_role["feature"] or options.one_hot:
        features = _read_features(table, by_role["feature"], options)
        nodes.x, nodes.feature_names, nodes.encoding = features
    return nodes, graph, keys


def graph_column(table: Table) -> str | None:
    r"""The column with the graph of each row, if there is one."""
    found = [name for name in table.columns if name.lower() in GRAPHS]
    if len(found) > 1:
        message = f"has the columns {_shown(found)}"
        table.diagnostics.fail(message, "keep one column with the graph")
    return found[0] if found else None


def _find_graphs(table: Table, name: str, graphs: GraphRows) -> np.ndarray:
    """The number of the graph in each row, -1 for unknown ones, which are reported."""
    table.check_exact(name)
    column = table.names(name)
    found = np.asarray(pc.fill_null(pc.index_in(column, pa.array(graphs.ids, LARGE)), -1))
    found = np.where(np.asarray(pc.equal(column, "")), -1, found)

    def describe(row: int) -> str:
        cell = column[row].as_py()
        return f"graph {cell[:60]!r} is not in {graphs.diagnostics.file}" if cell else "no graph"

    advice = f"add it to {graphs.diagnostics.file}, or correct the cell"
    table.each(np.flatnonzero(found < 0), describe, advice)
    return found.astype(np.int64)


def as_keys(nodes: NodeColumns) -> Any:
    r"""The identifiers of nodes as :func:`read_edges` takes them."""
    return pa.array(nodes.ids, LARGE)


def _keys(graphs: Any, ids: Any) -> Any:
    """One text for each pair of a graph and a node."""
    return pc.binary_join_element_wise(graphs, ids, _BETWEEN)


def _by_role(table: Table) -> dict[str, list[str]]:
    by_role: dict[str, list[str]] = {"id": [], "label": [], "split": [], "feature": []}
    for name in table.columns:
        by_role[role(name)].append(name)
    return by_role


def _find_labels(table: Table, by_role: dict[str, list[str]]) -> None:
    """A column that usually holds the label must not become a feature that reveals it."""
    likely = [name for name in by_role["feature"] if name.lower() in LABEL_IF_NO_OTHER]
    shown = " and ".join(map(repr, likely))
    if likely and by_role["label"]:
        message = f"{shown} next to {_shown(by_role['label'])} is read as a feature"
        table.diagnostics.note(message, "remove it if it reveals the label")
    elif likely:
        advice = "name another column 'label', or rename this one"
        table.diagnostics.note(f"{shown} is read as the label", advice)
        by_role["label"] = likely
        by_role["feature"] = [name for name in by_role["feature"] if name not in likely]


def _read_ids(table: Table, columns: list[str], thing: Level) -> np.ndarray:
    if len(columns) != 1:
        got = f"columns {_shown(columns)}" if columns else _shown(table.columns)
        message = f"must have one column of identifiers (got {got})"
        table.diagnostics.fail(message, "name one column 'id' in the first line")
    if not table.rows:
        table.diagnostics.fail(f"has no {thing}s", f"write a row for each {thing}")
    (name,) = columns
    table.check_exact(name)
    column = table.names(name)
    lengths = np.asarray(pc.utf8_length(column))
    long = np.flatnonzero(lengths > LONGEST)
    if long.size:
        message = f"the identifier is longer than {LONGEST} characters"
        table.each(long, lambda row: message, "use shorter ones: all are kept in one array")
        table.diagnostics.stop_on_errors()
    table.diagnostics.check_size(4 * lengths.size * int(lengths.max()))  # 4 bytes a character
    ids: np.ndarray = np.asarray(column).astype(str)
    empty = np.flatnonzero(ids == "")
    table.each(empty, lambda row: f"the {thing} has no identifier", f"fill in column {name!r}")
    return ids


def _check_different(table: Table, keys: Any, ids: np.ndarray, thing: Level, advice: str) -> None:
    """Reports rows whose key, an Arrow array of strings, occurs already."""
    codes = np.asarray(keys.dictionary_encode().indices)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)

    def describe(row: int) -> str:
        before = int(first[inverse[row]])
        line = table.line(before)
        where = f"in row {before + 1}" if line is None else f"on line {line}"
        return f"{thing} {str(ids[row])!r} occurs already {where}"

    again = np.flatnonzero((first[inverse] != np.arange(ids.size)) & (ids != ""))
    table.each(again, describe, advice)


def _read_features(
    table: Table, names: list[str], options: FeatureOptions
) -> tuple[np.ndarray, tuple[str, ...], dict[str, Any]]:
    """Finite float32, [num_nodes, num_features], the names of features and their encoding."""
    _check_one_hot(table, names, options)
    plain = [name for name in names if name not in options.one_hot]
    x, filled = _read_numbers(table, plain, options)
    encoding: dict[str, Any] = {} if options.impute is None else {"impute": filled}
    if not options.one_hot:
        return x, tuple(names), encoding
    categories: dict[str, list[str]] = {}
    blocks, numbers = [], iter(x.T)
    for name in names:
        if name in options.one_hot:
            block, categories[name] = _read_one_hot(table, name, options)
            blocks.append(block)
        else:
            blocks.append(next(numbers)[:, None])
    columns = [[f"{n}={c}" for c in categories[n]] if n in categories else [n] for n in names]
    encoding["one_hot"] = categories
    return np.concatenate(blocks, axis=1), tuple(chain.from_iterable(columns)), encoding


def _check_one_hot(table: Table, names: list[str], options: FeatureOptions) -> None:
    unknown = [name for name in options.one_hot if name not in names]
    if unknown:
        texts = [name for name in names if (table.floats(name)[1] == TEXT).any()]
        known = f"feature columns with text are {_shown(texts)}" if texts else "no column has text"
        table.diagnostics.fail(f"has no feature column {_shown(unknown)}", known)


def _read_one_hot(table: Table, name: str, options: FeatureOptions) -> tuple[np.ndarray, list[str]]:
    """A column of 0 and 1 for each category. Missing cells are all 0 if imputing is asked for."""
    coded = table.names(name).dictionary_encode()
    cells, index = coded.dictionary.to_pylist(), np.asarray(coded.indices)
    given = options.one_hot[name]
    categories = class_order({*cells} - {""}) if given is None else list(given)
    position = {category: number for number, category in enumerate(categories)}
    wrong = np.array([bool(cell) and cell not in position for cell in cells])
    table.each(
        np.flatnonzero(wrong[index]),
        lambda row: f"{name!r} holds {table.cell(name, row)[:40]!r}, none of {_shown(categories)}",
        "correct the cell, or train with data that have this category",
    )
    if options.impute is None:
        empty = np.flatnonzero(np.array([not cell for cell in cells])[index])
        advice = f"fill it in; impute='zero' ({_IMPUTE}) makes it 0 in all columns of {name!r}"
        table.each(empty, lambda row: f"feature {name!r} is missing", advice)
    table.diagnostics.check_size(4 * table.rows * len(categories))
    rows = np.zeros((len(cells), len(categories)), np.float32)
    for row, cell in enumerate(cells):
        if cell in position:
            rows[row, position[cell]] = 1.0
    return rows[index], categories


def _read_numbers(
    table: Table, names: list[str], options: FeatureOptions
) -> tuple[np.ndarray, dict[str, float]]:
    """Finite float32, [num_nodes, num_columns], and what missing cells of each are filled with."""
    x = np.zeros((table.rows, len(names)), np.float32)
    states = np.zeros(x.shape, np.int8)
    filled: dict[str, float] = {}
    for number, name in enumerate(names):
        x[:, number], state = table.floats(name)
        if options.impute is not None:
            gaps = np.asarray(pc.is_in(table.texts(name), pa.array(GAPS, LARGE)))
            state = np.where(gaps | np.isnan(x[:, number]), MISSING, state)
            value = options.value(name, x[state == GOOD, number])
            if value is not None:
                filled[name] = value
                x[state == MISSING, number] = value
                state = np.where(state == MISSING, GOOD, state)
        text = np.flatnonzero(state == TEXT)
        if 2 * text.size > np.count_nonzero(state != MISSING):  # one problem, not one per cell
            _report_text_column(table, name, int(text[0]))
            state = np.where(state == TEXT, GOOD, state)
        states[:, number] = state
    _report_cells(table, names, states == TEXT, "is not a number")
    _report_cells(table, names, states == MISSING, "is missing")
    _report_cells(table, names, ~np.isfinite(x) & (states == GOOD), "is not finite in 32 bits")
    return x, filled


def _report_text_column(table: Table, name: str, row: int) -> None:
    example = table.cell(name, row)[:40]
    kind = table.columns[name].type
    kind = "text" if kind == LARGE or pa.types.is_dictionary(kind) else kind
    advice = (
        f"remove it, or turn its values into columns of 0 and 1 with one_hot=[{name!r}] (--one-hot "
        f"{name})"
    )
    if has_decimal_comma(example):
        advice = "write numbers with a decimal point"
    message = f"column {name!r} holds {kind} (such as {example!r}), and features are numbers"
    table.diagnostics.error(message, advice, table.line(row))


def _report_cells(table: Table, names: list[str], wrong: np.ndarray, what: str) -> None:
    def describe(at: tuple[int, int]) -> str:
        row, name = at[0], names[at[1]]
        cell = table.cell(name, row)[:40]
        got = f" (got {cell!r})" if cell else ""
        got += ": write a decimal point" if has_decimal_comma(cell) else ""
        return f"{table.place(row)}feature {name!r} {what}{got}"

    advice = f"write a number; impute='mean' ({_IMPUTE}) fills gaps"
    table.diagnostics.each(np.argwhere(wrong), describe, advice, lambda at: table.line(at[0]))


def _read_labels(table: Table, columns: list[str]) -> LabelColumns:
    """From one column of classes, one column of labels separated by |, or a column of 0 and 1 for
    each label. Rows with empty cells are to be predicted."""
    several = [name for name in columns if name.lower().startswith(PREFIX)]
    if not columns:
        return LabelColumns.none(table.rows)
    if len(several) == len(columns):
        return _read_indicators(table, several)
    if len(columns) > 1:
        message = f"has more than one column of classes (got {', '.join(map(repr, columns))})"
        advice = "keep 'label', or name all of them label_something with cells 0 and 1"
        table.diagnostics.fail(message, advice)
    coded = table.names(columns[0]).dictionary_encode()
    cells, index = coded.dictionary.to_pylist(), np.asarray(coded.indices)
    cells = without_gaps(cells, table.diagnostics)
    numbers = target_numbers(cells)
    if numbers is not None:
        return LabelColumns(numbers[index])
    parts = [[part.strip() for part in cell.split(SEPARATOR) if part.strip()] for cell in cells]
    names = class_order({name for part in parts for name in part})
    for name in names:
        if name.lower() in _SUSPICIOUS:
            message = f"{name!r} is read as the name of a class"
            table.diagnostics.note(message, "leave the cell empty if it means no label")
    number = {name: position for position, name in enumerate(names)}
    if any(SEPARATOR in cell for cell in cells):
        table.diagnostics.check_size(8 * table.rows * len(names))
        rows = np.zeros((len(cells), len(names)), np.float32)
        for row, part in enumerate(parts):
            rows[row, [number[name] for name in part]] = 1.0
            rows[row] = rows[row] if part else np.nan
        return LabelColumns(rows[index], tuple(names))
    codes = np.array([number[part[0]] if part else -1 for part in parts], np.int64)
    return LabelColumns(codes[index], tuple(names))


def _read_indicators(table: Table, columns: list[str]) -> LabelColumns:
    y = np.zeros((table.rows, len(columns)), np.float32)
    empty = np.zeros((table.rows, len(columns)), bool)
    for number, name in enumerate(columns):
        values, state = table.numbers(name)
        gaps = np.asarray(pc.is_in(table.texts(name), pa.array(GAPS, LARGE)))
        empty[:, number] = (state == MISSING) | np.isnan(values) | gaps
        wrong = ~empty[:, number] & (~np.isin(values, (0.0, 1.0)) | (state != GOOD))
        describe = partial(_describe_not_binary, table, name)
        table.each(np.flatnonzero(wrong), describe, "write 1 where it has the label")
        y[:, number] = np.where(wrong, 0.0, values)
    table.each(
        np.flatnonzero(empty.any(1) & ~empty.all(1)),
        lambda row: "some of the labels in this row are missing",
        "write 0 or 1 in every label column, or leave all of them empty",
    )
    y[empty.any(1)] = np.nan
    return LabelColumns(y, tuple(name[len(PREFIX) :] for name in columns))


def _describe_not_binary(table: Table, name: str, row: int) -> str:
    return f"{name!r} must be 0 or 1 (got {table.cell(name, row)[:40]!r})"


def _read_split(table: Table, names: list[str]) -> np.ndarray | None:
    if not names:
        return None
    if len(names) > 1:
        message = f"must have one 'split' column of text (got {names})"
        table.diagnostics.fail(message, "write train, val, test or nothing in it")
    column = table.texts(names[0])
    coded = column.dictionary_encode()
    parts = [PART_OF_WORD.get(word.lower(), -2) for word in coded.dictionary.to_pylist()]
    split: np.ndarray = np.array(parts, np.int8)[np.asarray(coded.indices)]
    table.each(
        np.flatnonzero(split == -2),
        lambda row: f"unknown split {column[row].as_py()!r}",
        "write train, val or test, or leave the cell empty",
    )
    return split


def _shown(names: Iterable[str]) -> str:
    listed = [repr(name) for name in names]
    return ", ".join(listed[:8]) + (f" and {len(listed) - 8} more" if len(listed) > 8 else "")


def edge_columns(first: list[str], diagnostics: Diagnostics) -> tuple[list[str], bool]:
    r"""The names of the columns, and whether the first row holds them. Without a column of sources
    and one of targets, two or three columns are source, target and weight.
    """
    aliases = {"source": SOURCES, "target": TARGETS, "weight": WEIGHTS}
    lower = [name.lower() for name in first]
    roles = [next((kind for kind in aliases if name in aliases[kind]), "") for name in lower]
    if roles.count("source") == 1 and roles.count("target") == 1 and roles.count("weight") < 2:
        return [kind or name for kind, name in zip(roles, lower, strict=True)], True
    if any(roles) or len(first) not in (2, 3):
        message = f"must have one column 'source' and one 'target' (got {', '.join(first[:8])!r})"
        diagnostics.fail(message, "name them in the first line; a third may be 'weight'", 1)
    return ["source", "target", "weight"][: len(first)], False


def read_edges(table: Table, keys: Any, graphs: GraphRows | None = None) -> EdgeColumns:
    r"""Reads edges: the node numbers of both ends, and the weights. Ends are found among the
    :obj:`keys` of nodes, an Arrow array of strings: identifiers, or those within a graph if
    :obj:`graphs` are given and the edges have a column for it.
    """
    column, known = None if graphs is None else graph_column(table), np.ones(table.rows, bool)
    if column is not None and graphs is not None:
        known = _find_graphs(table, column, graphs) >= 0
    sides = ("source", "target")
    source, target = (_find_ends(table, side, keys, column, known) for side in sides)
    kept = np.flatnonzero((source >= 0) & (target >= 0))
    weight = _read_weight(table)[kept] if "weight" in table.columns else None
    used = ("source", "target", "weight", column)
    others = [repr(name) for name in table.columns if name not in used]
    if others:
        message = f"columns {', '.join(others)} are not used"
        table.diagnostics.note(message, "name one 'weight' if it is the weight")
    return EdgeColumns(
        table.diagnostics, source[kept], target[kept], weight, lambda edge: table.line(kept[edge])
    )


def _find_ends(
    table: Table, side: str, nodes: Any, graph: str | None, known: np.ndarray
) -> np.ndarray:
    """The number of the node in each row; unknown ones are reported where the graph is known."""
    table.check_exact(side)
    column = table.texts(side)
    keys = column if graph is None else _keys(table.texts(graph), column)
    found = np.asarray(pc.fill_null(pc.index_in(keys, nodes), -1))
    found = np.where(np.asarray(pc.equal(column, "")), -1, found)

    def describe(row: int) -> str:
        name = column[row].as_py()
        what = f"{side} {name[:60]!r} is not among the nodes" if name else f"{side} is empty"
        if graph is not None and name:
            return f"{what} of graph {table.cell(graph, row)!r}"
        hint = " (columns without names; a header says 'source,target')" if row == 0 else ""
        return what + _similar(name, nodes) + ("" if table.named else hint)

    advice = "add the node to the nodes file, or remove the edge"
    table.each(np.flatnonzero((found < 0) & known), describe, advice)
    return found.astype(np.int64)


def _similar(name: str, nodes: Any) -> str:
    """Programs write 1.0 for 1 in a column with a gap."""
    other = name.split(".")[0] if re.fullmatch(r"-?[0-9]+\.0+", name) else f"{name}.0"
    if not name or pc.index(nodes, pa.scalar(other, LARGE)).as_py() < 0:
        return ""
    return f", but {other[:60]!r} is: write identifiers in the same way in both files"


def _read_weight(table: Table) -> np.ndarray:
    weight, state = table.floats("weight")
    wrong = (state != GOOD) | ~np.isfinite(weight) | (weight < 0)

    def describe(row: int) -> str:
        cell = table.cell("weight", row)[:40]
        got = repr(cell) if cell else "nothing"
        point = ", written with a decimal point" if has_decimal_comma(cell) else ""
        return f"the weight must be a finite number >= 0{point} (got {got})"

    advice = "correct the weight, or remove the column for equal weights"
    table.each(np.flatnonzero(wrong), describe, advice)
    return np.where(wrong, np.float32(1), weight)
