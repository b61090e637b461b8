r"""What all comparisons of a page come to: sentences, and tables as the paper has them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

from meanmax.study.paper.claims import claims, summary
from meanmax.study.paper.tables import BACKBONES, PPI_GO, SCHEMES, paper_heading
from meanmax.study.report.charts import forest
from meanmax.study.report.lines import Group, aggr_place, main_table
from meanmax.study.report.provenance import setting
from meanmax.study.stats.comparison import Comparison
from meanmax.study.stats.verdict import CAVEAT

SPOKEN = 3
r"""Up to so many comparisons without a paper's table are told at the top."""

Made = tuple[Group, Comparison, list[dict[str, Any]]]
r"""A group, its comparison and its lines."""


def sentences(made: Sequence[Made]) -> list[dict[str, str]]:
    r"""What the evidence supports, each sentence with what it is about.

    Comparisons that the paper makes too are counted together, corrected for their number; others
    are told one by one while they are few.

    Args:
        made (sequence): All comparisons of the page.
    """
    found, counted = [], set()
    for name, number, listed in _tables(made):
        comparisons = [_in_paper(comparison, lines) for _, comparison, lines in listed]
        claimed = claims(number, [item for item in comparisons if item.lines])
        if len(listed) > 1 and claimed:
            counted |= {id(group) for group, _, _ in listed}
            about = f"Table {number}, settings {name}"
            found.append({"about": about, "text": summary(claimed)})
    names = headings([group for group, _, _ in made])
    rest = [item for item in made if id(item[0]) not in counted]
    # A baseline that was run alone has nothing to say where others are compared.
    rest = [item for item in rest if _compares(item[1])] or ([] if found else rest)
    for group, comparison, _ in rest[:SPOKEN]:
        found.append({"about": names[id(group)], "text": told(comparison)})
    if len(rest) > SPOKEN:
        more = len(rest) - SPOKEN
        what = "comparison comes to is said above its table"
        if more > 1:
            what = "comparisons come to is said above their tables"
        found.append({"about": "", "text": f"What {more} further {what}."})
    return found


def caveat(spoken: Sequence[dict[str, str]]) -> str:
    r"""The caution that all numbers are to be read with, unless a sentence has it already."""
    return "" if any("Random splits" in sentence["text"] for sentence in spoken) else CAVEAT


def told(comparison: Comparison) -> str:
    r"""The verdict without the caveat, which the page gives once."""
    return comparison.verdict.removesuffix(CAVEAT).rstrip()


def headings(groups: Sequence[Group]) -> dict[int, str]:
    r"""What each comparison is called, by its :func:`id`: data, backbone and settings, and where
    that does not tell them apart, splits and data too.

    Args:
        groups (sequence): All comparisons of the page.
    """
    return _told_apart({id(group): (group, _heading(group)) for group in groups})


def _told_apart(named: dict[int, tuple[Group, str]]) -> dict[int, str]:
    r"""Names with splits, and then data, where those of one data set and settings are alike."""
    names = {key: name for key, (_, name) in named.items()}
    for more in (_splits, _hash):
        places = {key: (g.data, g.settings_name, names[key]) for key, (g, _) in named.items()}
        counts = Counter(places.values())
        for key, (group, _) in named.items():
            if counts[places[key]] > 1:
                names[key] += more(group)
    return names


def _heading(group: Group) -> str:
    changed = "".join(f", {name}={setting(value)}" for name, value in group.overrides.items())
    if len(group.overrides) > SPOKEN:
        changed = f", {len(group.overrides)} changed"
    return f"{group.data}, {group.backbone}, settings {group.settings_name}{changed}"


def _splits(group: Group) -> str:
    return "" if group.split == SCHEMES.get(group.data) else f", splits {group.split}"


def _hash(group: Group) -> str:
    return f" ({group.data_hash[:6]})"


def _compares(comparison: Comparison) -> bool:
    return any(line.paired is not None for line in comparison.lines)


def matrices(made: Sequence[Made]) -> list[dict[str, Any]]:
    r"""The paper's tables, methods against data sets, each cell ours and the paper's.

    Args:
        made (sequence): All comparisons of the page.
    """
    found = []
    for name, number, listed in _tables(made):
        if len(listed) < 2:
            continue
        found.append(_matrix(name, number, "paper", listed))
        if number == 2:
            found.append(_matrix(name, 3, "all", listed))
    return found


def all_differences(made: Sequence[Made]) -> list[dict[str, Any]]:
    r"""A forest plot for each data set, of all comparisons with the settings of a file, if there
    are several. Each has an axis of its own, as data sets differ by more than methods do.

    Args:
        made (sequence): All comparisons of the page.
    """
    listed = {id(group): (group, lines) for group, _, lines in made if not group.overrides}
    if len(listed) < 2:
        return []
    names = _told_apart({key: (group, group.backbone) for key, (group, _) in listed.items()})
    sets: dict[str, list[dict[str, Any]]] = {}
    for key, (group, lines) in listed.items():
        place = {"place": names[key], "settings": group.settings_name}
        sets.setdefault(group.data, []).extend({**line, **place} for line in lines)
    plots = {data: forest(lines) for data, lines in sets.items()}
    return [{"data": data, "plot": plot} for data, plot in plots.items() if plot is not None]


def _tables(made: Sequence[Made]) -> list[tuple[str, int, list[Made]]]:
    r"""The comparisons by settings and table; of one method on one data set that on the
    paper's kind of splits, or else the fullest."""
    found: dict[tuple[str, int], dict[tuple[str, str], Made]] = {}
    for item in made:
        group = item[0]
        number = main_table(group)
        if number is None or group.backbone not in BACKBONES:
            continue
        own = found.setdefault((group.settings_name, number), {})
        before = own.get((group.data, group.backbone))
        if before is None or _weight(before[0]) < _weight(group):
            own[group.data, group.backbone] = item
    return [(name, number, list(own.values())) for (name, number), own in found.items()]


def _weight(group: Group) -> tuple[bool, int]:
    return group.split == SCHEMES.get(group.data), len(group.rows)


def _in_paper(comparison: Comparison, lines: list[dict[str, Any]]) -> Comparison:
    r"""Without the aggregators that the paper does not compare."""
    known = {line["aggr"] for line in lines if line["gain"] is not None}
    kept = [line for line in comparison.lines if line.aggr in known]
    return dataclasses.replace(comparison, lines=kept)


def _matrix(name: str, number: int, fact: str, listed: list[Made]) -> dict[str, Any]:
    sets = list(dict.fromkeys(group.data for group, _, _ in listed))
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    colours: dict[str, int] = {}
    for group, _, lines in listed:
        for line in lines:
            colours.setdefault(line["aggr"], line["colour"])
            if line[fact] is not None and line["n"]:
                method = cells.setdefault((group.backbone, line["aggr"]), {})
                method[group.data] = {**line[fact], "n": line["n"], "failed": line["failed"]}
    methods = sorted(cells, key=lambda method: (BACKBONES.index(method[0]), aggr_place(method[1])))
    task, metric = paper_heading(number)
    return {
        "title": f"Table {number}: {task}",
        "metric": metric,
        "settings": name,
        "sets": sets,
        "open": number != 3,
        "note": PPI_GO if "ppi-go" in sets else "",
        "rows": [
            {
                "backbone": backbone,
                "aggr": aggr,
                "colour": colours[aggr],
                "cells": [cells[backbone, aggr].get(data) for data in sets],
            }
            for backbone, aggr in methods
        ],
    }
