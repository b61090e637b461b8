r"""All comparisons of a page: differences on an axis, tables next to the paper's, and sentences."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

from meanmax.study.paper.result_tables import (
    BACKBONES,
    PPI_GO,
    SCHEMES,
    claims,
    paper_heading,
    summary,
)
from meanmax.study.report.groups import ORDER, PageLine, RunGroup, distinguish, rank
from meanmax.study.stats.comparison import Comparison, findings
from meanmax.study.stats.paired import FEW

SUMMARISED = 3  # comparisons without a paper's table that are summarised at the top
TICKS = 6  # at most on an axis, so that their numbers fit on a phone


def forest(listed: Iterable[PageLine]) -> dict[str, Any] | None:
    r"""Differences on a common axis that includes 0, or :obj:`None` if there are none.

    Positions are percentages of the width, so that the plot fits any screen while its text keeps
    its size. Differences over few splits have no interval.
    """
    shown = [
        {**line, "low": None, "high": None} if line["pairs"] < FEW else line
        for line in listed
        if line["difference"] is not None
    ]
    if not shown:
        return None
    facts = [line[name] for line in shown for name in ("difference", "low", "high", "gain")]
    step, first, last = axis([fact for fact in facts if fact is not None])

    def at(value: float | None) -> float | None:
        return None if value is None else round(4 + 92 * (value - first) / (last - first), 2)

    def text(tick: float) -> str:
        return "0" if round(tick, places) == 0 else f"{tick:+.{places}f}".replace("-", "−")

    ticks = [first + number * step for number in range(round((last - first) / step) + 1)]
    zero = round(-first / step)
    places = max(0, -math.floor(math.log10(step) + 1e-9))
    return {
        "zero": at(0.0),
        "ticks": [
            # Every other tick is dropped where there is little room, but never 0.
            {"at": at(tick), "text": text(tick), "minor": (number - zero) % 2 == 1}
            for number, tick in enumerate(ticks)
        ],
        "lines": [
            {
                **line,
                "few": line["pairs"] < FEW,
                "x": at(line["difference"]),
                "from": at(line["low"]),
                "to": at(line["high"]),
                "paper_x": at(line["gain"]),
            }
            for line in shown
        ],
    }


def axis(values: Sequence[float]) -> tuple[float, float, float]:
    r"""The step, the start and the end of an axis with round ticks that includes 0.

    Example:
        >>> axis([-1.3, 0.4])
        (0.5, -1.5, 0.5)
        >>> axis([0.0])
        (0.5, -0.5, 0.5)
    """
    low, high = min(0.0, *values), max(0.0, *values)
    if low == high:
        return 0.5, -0.5, 0.5
    rough = (high - low) / (TICKS - 2)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return step, first * step, last * step


def all_differences(listed: Sequence[RunGroup]) -> list[dict[str, Any]]:
    r"""A forest plot for each data set, of all comparisons with unchanged settings, if there are
    several. Each has its own axis, because data sets differ by more than methods do; so does each
    metric of numbers.
    """
    listed = [group for group in listed if not group.overrides]
    if len(listed) < 2:
        return []
    places = distinguish(listed, [group.backbone for group in listed])
    sets: dict[str, list[PageLine]] = {}
    for group, place in zip(listed, places, strict=True):
        label, scale = {"place": place, "settings": group.settings_name}, group.comparison.scale
        data = group.data if scale.percent else f"{group.data}, {scale.metric}"
        sets.setdefault(data, []).extend({**line, **label} for line in group.lines)
    plots = {data: forest(own) for data, own in sets.items()}
    return [{"data": data, "plot": plot} for data, plot in plots.items() if plot is not None]


def matrices(listed: Sequence[RunGroup]) -> list[dict[str, Any]]:
    r"""The paper's tables, methods against data sets; each cell has our mean and the paper's."""
    return [
        _matrix(name, table, fact, own)
        for name, number, own in _tables(listed)
        if len(own) > 1
        for table, fact in [(number, "paper"), (3, "all")][: 2 if number == 2 else 1]
    ]


def _matrix(name: str, number: int, fact: str, listed: Sequence[RunGroup]) -> dict[str, Any]:
    sets = list(dict.fromkeys(group.data for group in listed))
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for group in listed:
        for line in group.lines:
            if line[fact] is not None and line["n"]:
                method = {"backbone": group.backbone, "aggr": line["aggr"]}
                empty = {**method, "colour": line["colour"], "cells": [None] * len(sets)}
                row = rows.setdefault((group.backbone, line["aggr"]), empty)
                cell = {**line[fact], "n": line["n"], "failed": line["failed"]}
                row["cells"][sets.index(group.data)] = cell
    task, metric = paper_heading(number)
    order = sorted(rows, key=lambda method: (BACKBONES.index(method[0]), rank(ORDER, method[1])))
    return {
        "title": f"Table {number}: {task}",
        "metric": metric,
        "settings": name,
        "sets": sets,
        "open": number != 3,
        "note": PPI_GO if "ppi-go" in sets else "",
        "rows": [rows[method] for method in order],
    }


def _tables(listed: Sequence[RunGroup]) -> list[tuple[str, int, list[RunGroup]]]:
    r"""The comparisons by settings and table. Where one method has several on a data set, the one
    on the paper's kind of splits is taken, or else the one with most runs."""
    found: dict[tuple[str, int], dict[tuple[str, str], RunGroup]] = {}
    for group in listed:
        if group.paper_table is not None and group.backbone in BACKBONES:
            own = found.setdefault((group.settings_name, group.paper_table), {})
            before = own.setdefault((group.data, group.backbone), group)
            own[group.data, group.backbone] = max(
                (before, group), key=lambda one: (one.split == SCHEMES.get(one.data), len(one.rows))
            )
    return [(name, number, list(own.values())) for (name, number), own in found.items()]


def sentences(listed: Sequence[RunGroup], headings: Sequence[str]) -> list[dict[str, str]]:
    r"""What the evidence supports, each sentence with its subject.

    Comparisons that the paper makes too are counted together, corrected for their number; others
    have a sentence each while they are few.
    """
    found, counted = [], set()
    for name, number, own in _tables(listed):
        comparisons = [_in_paper(group) for group in own]
        claimed = claims(number, [one for one in comparisons if one.lines])
        if len(own) > 1 and claimed:
            counted |= {id(group) for group in own}
            about = f"Table {number}, settings {name}"
            found.append({"about": about, "text": summary(claimed, caveat=False)})
    rest = [pair for pair in zip(listed, headings, strict=True) if id(pair[0]) not in counted]
    # A baseline that was run alone has nothing to say where others are compared.
    compared = [p for p in rest if any(x.paired is not None for x in p[0].comparison.lines)]
    rest = compared or ([] if found else rest)
    for group, heading in rest[:SUMMARISED]:
        found.append({"about": heading, "text": findings(group.comparison)})
    more = len(rest) - SUMMARISED
    if more > 0:
        where = "1 further comparison has its verdict above its table."
        if more > 1:
            where = f"{more} further comparisons have their verdicts above their tables."
        found.append({"about": "", "text": where})
    return found


def _in_paper(group: RunGroup) -> Comparison:
    r"""The comparison without the aggregators that the paper does not compare."""
    lines = [line for line in group.comparison.lines if line.paired is not None]
    kept = [line for line in lines if math.isfinite(group.paper_gain(line.aggr))]
    return dataclasses.replace(group.comparison, lines=kept)
