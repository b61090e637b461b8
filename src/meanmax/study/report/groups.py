r"""Which runs stand in one table of the page: same data, splits and backbone, settings that go
together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from meanmax.study.stats.cells import cells
from meanmax.study.runs.row import Row
from meanmax.study.settings.settings import (NAMES, SettingsError, settings_for)
from meanmax.study.paper.tables import (BACKBONES, SETS)

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
