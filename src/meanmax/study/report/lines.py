r"""The lines of a comparison as the page shows them, with the paper's numbers beside ours."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from meanmax.study.paper.tables import BACKBONES, SETS, Cell, paper_value, table
from meanmax.study.runs.row import Row
from meanmax.study.settings.settings import NAMES, SettingsError, settings_for
from meanmax.study.stats.cells import Selected, cells
from meanmax.study.stats.comparison import BASELINE, Comparison, Line, compare

ORDER = ("none", "lp", "poly", "softmax", "max")
r"""The aggregators in the order of tables; others follow by name."""


@dataclass(frozen=True)
class Group:
    r"""The runs of one comparison.

    Args:
        data (str): The data set.
        data_hash (str): The fingerprint of the prepared data.
        split (str): The scheme of the splits.
        backbone (str): The backbone.
        settings_name (str): The settings file.
        overrides (dict): What differs from the file; :obj:`None` for a setting that is left out.
        rows (list): The runs, of any status; of one method all have the same settings.
    """

    data: str
    data_hash: str
    split: str
    backbone: str
    settings_name: str
    overrides: dict[str, Any]
    rows: list[Row]

    @property
    def aggrs(self) -> list[str]:
        r"""The aggregators, the baseline first."""
        return sorted({row.aggr for row in self.rows}, key=aggr_place)

    def of(self, aggr: str) -> list[Row]:
        r"""The runs of one aggregator by split."""
        own = [row for row in self.rows if row.aggr == aggr]
        return sorted(own, key=lambda row: (row.split_seed, row.seed))


def aggr_place(aggr: str) -> tuple[int, str]:
    r"""Where an aggregator stands among others."""
    return _place(ORDER, aggr)


def groups(rows: Sequence[Row], settings_name: str | None = None) -> list[Group]:
    r"""All comparisons that rows allow, those with the settings of a file first.

    A method belongs to a comparison if its settings are what the file and the changes of that
    comparison give for it. So one baseline serves all changes that do not concern it, and what is
    part of a larger comparison is not shown a second time.

    Args:
        rows (sequence): All rows.
        settings_name (str, optional): Only comparisons of this file. (default: :obj:`None`)
    """
    found: list[Group] = []
    for place, listed in _by(rows, "data", "data_hash", "split", "backbone").items():
        found += _in_place(place, listed)
    if settings_name is not None:
        found = [group for group in found if group.settings_name == settings_name]
    return sorted(found, key=_rank)


def _in_place(place: tuple[str, ...], rows: list[Row]) -> list[Group]:
    data, data_hash, split, backbone = place
    methods = [
        (cell.aggr, name, cell.settings, cell.changed)
        for cell in cells(rows)
        for name in cell.settings_names
    ]
    wanted = {(name, _text(changed)): changed for _, name, _, changed in methods}
    keys: list[set[str]] = []
    made: list[Group] = []
    for (name, text), changed in wanted.items():
        members = [
            (aggr, settings)
            for aggr, own_name, settings, own in methods
            if (own_name == name and _text(own) == text)
            or settings == _planned(name, backbone, aggr, data, changed)
        ]
        own_rows = _rows_of(rows, members)
        keys.append({row.key for row in own_rows})
        made.append(Group(data, data_hash, split, backbone, name, changed, own_rows))
    return [
        group
        for number, group in enumerate(made)
        if not any(
            keys[number] < other or (keys[number] == other and before < number)
            for before, other in enumerate(keys)
            if before != number
        )
    ]


def _rows_of(rows: Iterable[Row], members: list[tuple[str, dict[str, Any]]]) -> list[Row]:
    wanted = {(aggr, _text(settings)) for aggr, settings in members}
    return [row for row in rows if (row.aggr, _text(row.settings)) in wanted]


def _planned(
    name: str, backbone: str, aggr: str, data: str, changed: dict[str, Any]
) -> dict[str, Any] | None:
    try:
        return settings_for(name, backbone, aggr, data, changed)
    except SettingsError:  # of another version, which is compared with itself alone
        return None


def _by(rows: Iterable[Row], *facts: str) -> dict[tuple[str, ...], list[Row]]:
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(getattr(row, fact) for fact in facts), []).append(row)
    return found


def _rank(group: Group) -> tuple[Any, ...]:
    file = NAMES.index(group.settings_name) if group.settings_name in NAMES else len(NAMES)
    text = _text(group.overrides)
    place = (*_place(SETS, group.data), *_place(BACKBONES, group.backbone))
    return bool(group.overrides), file, *place, group.split, len(text), text


def _place(known: Sequence[str], name: str) -> tuple[int, str]:
    return (known.index(name), "") if name in known else (len(known), name)


def _text(settings: dict[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)


PPI = ("ppi", "ppi-go")
COLOURS = 8
SYMBOLS = {"at or above": "▲", "within one std": "≈", "below": "▼"}
r"""Signs for where a mean stands to the paper's."""


def compared(group: Group) -> Comparison:
    r"""The aggregators of a group against its baseline.

    Args:
        group (Group): The runs.
    """
    selected = Selected(group.rows, [])
    return compare(selected, group.backbone, group.aggrs, data=group.data, name=_metric(group))


def lines(group: Group, comparison: Comparison) -> list[dict[str, Any]]:
    r"""One line for each aggregator, as plain values.

    Args:
        group (Group): The runs.
        comparison (Comparison): What :func:`compared` makes of them.
    """
    splits = len({row.split_seed for row in group.rows})
    number = main_table(group)
    return [
        {
            "aggr": line.aggr,
            "colour": colour(line.aggr, group.aggrs),
            "n": line.n,
            "failed": line.failed,
            "missing": splits - line.n - line.failed,
            "mean": _number(line.mean),
            "std": _number(line.std),
            "learned": _learned(line),
            "maxness": line.maxness,
            "layers": _by_layer(group.of(line.aggr)),
            "seconds": _number(line.seconds),
            "alone": line.alone,
            "paper": _paper(group, line.aggr, number),
            "all": _paper(group, line.aggr, 3) if number == 2 else None,
            **_difference(group, line, number),
        }
        for line in comparison.lines
    ]


def main_table(group: Group) -> int | None:
    r"""The paper's table that the test scores of a group stand beside, if there is one.

    Runs with settings that are in no file are compared with no table.
    """
    if group.overrides or group.settings_name not in NAMES:
        return None
    if group.data in SETS:
        return 2
    return 4 if group.data in PPI else None


def colour(aggr: str, aggrs: list[str]) -> int:
    r"""The number of a method's colour, the same on the whole page for those with a name."""
    if aggr in ORDER:
        return ORDER.index(aggr)
    others = [name for name in aggrs if name not in ORDER]
    return len(ORDER) + others.index(aggr) % (COLOURS - len(ORDER))


def _difference(group: Group, line: Line, number: int | None) -> dict[str, Any]:
    pair = line.paired
    if pair is None:
        return {"difference": None, "low": None, "high": None, "p": None, "gain": None, "pairs": 0}
    return {
        "difference": _number(pair.difference),
        "low": _number(pair.low),
        "high": _number(pair.high),
        "p": _number(line.adjusted_p),
        "pairs": pair.n,
        "gain": None if number is None else _gain(number, group, line.aggr),
    }


def _gain(number: int, group: Group, aggr: str) -> float | None:
    name = "ppi" if group.data in PPI else group.data
    own = paper_value(number, group.backbone, aggr, name)
    base = paper_value(number, group.backbone, BASELINE, name)
    return None if own is None or base is None else round(own.mean - base.mean, 4)


def _paper(group: Group, aggr: str, number: int | None) -> dict[str, Any] | None:
    r"""Our mean and deviation in one of the paper's tables, and the paper's."""
    if number is None:
        return None
    (cell,) = table(
        group.of(aggr),
        number,
        data=[group.data],
        backbones=[group.backbone],
        aggrs=[aggr],
        settings_name=group.settings_name,
        scheme=group.split,
    ).cells
    if cell.paper is None and number != 3:
        return None
    return _plain(cell)


def _plain(cell: Cell) -> dict[str, Any]:
    return {
        "ours": _number(cell.mean),
        "ours_std": _number(cell.std),
        "mean": cell.paper.mean if cell.paper else None,
        "std": cell.paper.std if cell.paper else None,
        "mark": cell.mark,
        "symbol": SYMBOLS.get(cell.mark, ""),
        "clusters": {
            name.removeprefix("kmeans_"): value
            for name, value in cell.extra.items()
            if not math.isnan(value)
        },
    }


def _by_layer(rows: Iterable[Row]) -> list[float | None]:
    r"""The mean maxness of each layer, the first one first; nothing for a single layer."""
    good = [row for row in rows if row.status == "ok"]
    names = sorted({name for row in good for name in row.maxness}, key=_layer)
    if len(names) < 2:
        return []
    found = []
    for name in names:
        values = [v for row in good if (v := row.maxness.get(name)) is not None]
        found.append(statistics.fmean(values) if values else None)
    return found


def _layer(name: str) -> int:
    return int(name.split(".")[1])


def _learned(line: Line) -> list[dict[str, Any]]:
    return [
        {"name": parameter_name(name), "mean": mean, "low": low, "high": high}
        for name, (mean, low, high) in line.learned.items()
    ]


def parameter_name(name: str) -> str:
    r"""A learned parameter for people, layers counted from 1.

    Example:
        >>> parameter_name("layers.0.gamma")
        'γ, layer 1'
        >>> parameter_name("temperature")
        'temperature'
    """
    *place, last = name.split(".")
    letter = {"alpha": "α", "gamma": "γ"}.get(last, last)
    if len(place) >= 2 and place[0] == "layers" and place[1].isdecimal():
        return f"{letter}, layer {int(place[1]) + 1}"
    return ".".join([*place, letter])


def _metric(group: Group) -> str:
    if group.data in PPI:
        return "micro-F1"
    classes = any("kmeans_accuracy" in row.metrics for row in group.rows)
    return "accuracy" if classes else "score"


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
