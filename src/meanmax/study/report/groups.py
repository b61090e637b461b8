r"""Groups of runs: each is one comparison, with its numbers, its settings and how to repeat it."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from statistics import fmean
from typing import Any

from meanmax.data.fetch.catalog import is_name
from meanmax.names import METRICS, REFERENCES, USUAL_METRIC
from meanmax.study.paper.result_tables import BACKBONES, PPI, SCHEMES, SETS, cell_of, paper_gain
from meanmax.study.runs.plan import POOLED
from meanmax.study.runs.row import Row, json_safe
from meanmax.study.settings.settings import AUTO, NAMES, option_text, override_options, settings_key
from meanmax.study.stats.cells import (
    Selected,
    cells,
    last_searched,
    planned_settings,
    select,
    shown_metric,
)
from meanmax.study.stats.comparison import Comparison, compare, reference_rows

ORDER = ("none", "lp", "poly", "softmax", "max")  # of aggregators; others follow by name
COLOURS = 8  # of methods
SYMBOLS = {"at or above": "▲", "within one std": "≈", "below": "▼"}  # compared with the paper
SHOWN_SETS = 3  # of the settings that searches chose for a method
NAMED_CHANGES = 3  # up to this many changed settings are listed in a heading
PLACE = "FOLDER-OF"  # instead of a path in commands: rows have the name of a user's own data alone

Comparisons = Mapping[frozenset[str], Comparison]  # by the keys of their rows
PageLine = dict[str, Any]  # one aggregator of a comparison, as the templates take it


@dataclass(frozen=True, eq=False)
class RunGroup:
    r"""The runs of one comparison, of any status; those of one method have the same settings.

    :obj:`data_hash` is the fingerprint of the prepared data and :obj:`split` the scheme of splits.
    :obj:`overrides` are the settings that differ from the file, :obj:`None` for one that is left
    out; :obj:`comparisons` were computed before.
    """

    data: str
    data_hash: str
    split: str
    backbone: str
    settings_name: str
    overrides: dict[str, Any]
    rows: list[Row]
    comparisons: Comparisons = field(default_factory=dict)
    references: dict[str, list[Row]] = field(default_factory=dict)  # by label

    @cached_property
    def aggrs(self) -> list[str]:
        r"""The aggregators, the baseline first."""
        return sorted({row.aggr for row in self.rows}, key=partial(rank, ORDER))

    def of(self, aggr: str) -> list[Row]:
        r"""The runs of one aggregator by split."""
        own = [row for row in self.rows if row.aggr == aggr]
        return sorted(own, key=lambda row: (row.split_seed, row.seed))

    @cached_property
    def selected(self) -> Selected:
        r"""The rows that are compared, one for each method and split."""
        if self.settings_name == AUTO:
            return Selected(self.rows, [])
        settings = {row.aggr: row.settings for row in self.rows}
        return select(self.rows, self.data, lambda _b, aggr, _d: settings[aggr], self.split)

    @cached_property
    def comparison(self) -> Comparison:
        r"""The aggregators against the baseline; the one of the same rows if it is known."""
        known = self.comparisons.get(frozenset(row.key for row in self.selected.rows))
        if known is not None:
            return known
        kind = METRICS["micro_f1"] if self.data in PPI else shown_metric(self.rows)
        return compare(
            self.selected,
            self.backbone,
            self.aggrs,
            data=self.data,
            name=kind.label,
            higher_is_better=kind.higher_is_better,
            percent=kind.percent,
            references=self.references or None,
        )

    @property
    def paper_table(self) -> int | None:
        r"""The paper's table with the same test scores; :obj:`None` for changed settings."""
        if self.overrides or self.settings_name not in NAMES:
            return None
        return 2 if self.data in SETS else 4 if self.data in PPI else None

    @cached_property
    def lines(self) -> list[PageLine]:
        r"""One line for each aggregator: those of :meth:`Comparison.as_dict`, with the difference
        to the baseline, the paper's numbers, a colour and the maxness of each layer.
        """
        splits = len({row.split_seed for row in self.rows})
        number = self.paper_table
        return [
            {
                **line,
                "colour": self.colour(aggr),
                "missing": splits - line["n"] - line["failed"],
                "learned": [
                    {"name": parameter_name(name), "mean": mean, "low": low, "high": high}
                    for name, (mean, low, high) in line["learned"].items()
                ],
                "layers": [fmean(own) if own else None for own in layers if len(layers) > 1],
                "paper": _paper(self, aggr, number),
                "all": _paper(self, aggr, 3) if number == 2 else None,
                "difference": pair.get("difference"),
                "low": pair.get("low"),
                "high": pair.get("high"),
                "pairs": pair.get("n", 0),
                "p": line["adjusted_p"],
                "gain": json_safe(self.paper_gain(aggr)) if pair else None,
                "unit": self.comparison.scale.points,
                "percent": self.comparison.percent,
            }
            for line in self.comparison.as_dict()["lines"]
            for aggr, pair in [(line["aggr"], line["paired"] or {})]
            for layers in [maxness_by_layer(self.of(aggr)).values()]
        ]

    def paper_gain(self, aggr: str) -> float:
        r"""The paper's difference to the baseline; NaN if it has none."""
        if self.paper_table is None:
            return math.nan
        return round(paper_gain(self.paper_table, self.backbone, aggr, self.data), 4)

    def colour(self, aggr: str) -> int:
        r"""The number of a method's colour; known aggregators have the same on the whole page."""
        if aggr in ORDER:
            return ORDER.index(aggr)
        others = [name for name in self.aggrs if name not in ORDER]
        return len(ORDER) + others.index(aggr) % (COLOURS - len(ORDER))

    @property
    def heading(self) -> str:
        r"""Data, backbone and settings; see :func:`distinguish`."""
        changed = "".join(f", {name}={setting(value)}" for name, value in self.overrides.items())
        if len(self.overrides) > NAMED_CHANGES:
            changed = f", {len(self.overrides)} changed"
        metric = self.rows[0].settings.get("metric")
        if self.settings_name == AUTO and metric not in USUAL_METRIC.values():
            changed = f", by {self.comparison.metric}"
        return f"{self.data}, {self.backbone}, settings {self.settings_name}{changed}"

    @cached_property
    def settings_sets(self) -> list[tuple[str, dict[str, Any]]]:
        r"""The settings of each method under its name. Where they were searched, these are the sets
        that most splits have, whole, so that one of them can be used again.
        """
        if self.settings_name != AUTO:
            return [(aggr, _most_frequent(self.of(aggr))) for aggr in self.aggrs]
        found = []
        for aggr in self.aggrs:
            rows = self.of(aggr)
            sets = {settings_key(row.settings): row.settings for row in rows}
            counts = Counter(settings_key(row.settings) for row in rows)
            for key, count in counts.most_common(SHOWN_SETS):
                found.append((f"{aggr}, {count} of {len(rows)} splits", sets[key]))
        return found

    def settings_table(self) -> list[dict[str, Any]]:
        r"""All settings of all methods, with marks on those that differ or were changed."""
        columns = [settings for _, settings in self.settings_sets]
        return [
            {
                "name": name,
                "values": [setting(settings.get(name), "–") for settings in columns],
                "differs": any(value != own[0] for value in own),
                "changed": name in self.overrides,
            }
            for name in sorted({name for settings in columns for name in settings})
            for own in [[settings[name] for settings in columns if name in settings]]
        ]

    def failures(self) -> list[dict[str, Any]]:
        r"""Unsuccessful runs; those of one method with the same error are one item."""
        found: dict[tuple[str, str, str], list[int]] = {}
        for row in self.rows:
            if row.status != "ok":
                place = (row.aggr, row.status, row.error or "no error was recorded")
                found.setdefault(place, []).append(row.split_seed)
        return [
            {"aggr": aggr, "status": status, "error": error, "splits": sorted(splits)}
            for (aggr, status, error), splits in found.items()
        ]

    def command(self, options: Sequence[str] = ()) -> str:
        r"""The shell command that repeats the runs, with every name quoted; :obj:`options` are
        those that rows do not tell of, such as the budget of a search.
        """
        source = self.data
        if not is_name(source):  # rows mark a user's own data that have the name of a set
            source = f"{PLACE}/{source.removesuffix(' (own)')}"
        words = ["meanmax", "compare", "--data", source, "--backbone", self.backbone]
        words += ["--aggr", ",".join(self.aggrs)]
        words += ["--splits", str(max(row.split_seed for row in self.rows) + 1)]
        words += split_option(self.split)
        if self.settings_name == AUTO:
            words += ["--search", "shared" if self.split.endswith(POOLED) else "each"]
            words += ["--metric", self.rows[0].settings["metric"]]
        elif self.settings_name in NAMES:
            words += ["--settings", self.settings_name]
        else:
            words += ["--settings", f"{PLACE}/{self.settings_name}"]
        return shlex.join([*words, *override_options(self.overrides), *options])


def split_option(split: str) -> list[str]:
    r"""The option for a kind of splits, as rows have it.

    Example:
        >>> split_option("balanced, pool"), split_option("file:splits.npz")
        (['--split', 'balanced'], ['--split', 'file:FOLDER-OF/splits.npz'])
    """
    kind, colon, file = split.removesuffix(POOLED).partition(":")
    return ["--split", f"{kind}:{PLACE}/{file}" if colon else kind]


def _most_frequent(rows: Sequence[Row]) -> dict[str, Any]:
    r"""The settings of runs; where they differ, the most frequent value and on how many splits."""
    found = {}
    for name in sorted({name for row in rows for name in row.settings}):
        values = Counter(setting(row.settings.get(name)) for row in rows)
        (value, count), *others = values.most_common()
        plain = rows[0].settings.get(name)
        found[name] = f"{value} ({count} of {len(rows)})" if others else plain
    return found


def _paper(group: RunGroup, aggr: str, number: int | None) -> dict[str, Any] | None:
    r"""Our mean and deviation in one of the paper's tables, and the paper's."""
    if number is None:
        return None
    rows = list(group.selected.of(group.backbone, aggr).values())
    cell = cell_of(number, group.backbone, aggr, group.data, rows)
    if cell.paper is None and number != 3:
        return None
    found: dict[str, Any] = json_safe(
        {
            "ours": cell.mean,
            "ours_std": cell.std,
            "mean": cell.paper and cell.paper.mean,
            "std": cell.paper and cell.paper.std,
            "mark": cell.mark,
            "symbol": SYMBOLS.get(cell.mark, ""),
        }
    )
    return found


def place_of(name: str) -> tuple[float, str]:
    r"""Where in a model something learned or measured stands, to sort by and in words: in a layer,
    counted from 1, or in the readout after all of them.

    Example:
        >>> place_of("layers.0.gamma"), place_of("readout.p")
        ((0, 'layer 1'), (inf, 'readout'))
    """
    first, *rest = name.split(".")
    if first == "layers" and rest and rest[0].isdecimal():
        return int(rest[0]), f"layer {int(rest[0]) + 1}"
    return math.inf, first


def maxness_by_layer(rows: Iterable[Row]) -> dict[tuple[float, str], list[float]]:
    r"""The known values of each layer, and of the readout, in successful runs, in this order."""
    layers: dict[tuple[float, str], list[float]] = {}
    for row in rows:
        for name, value in row.maxness.items() if row.status == "ok" else ():
            own = layers.setdefault(place_of(name), [])
            own += [] if value is None else [value]
    return dict(sorted(layers.items()))


def parameter_name(name: str) -> str:
    r"""The name of a learned parameter, with layers counted from 1.

    Example:
        >>> parameter_name("layers.0.gamma")
        'γ, layer 1'
        >>> parameter_name("readout.p"), parameter_name("temperature")
        ('p, readout', 'temperature')
    """
    *place, last = name.split(".")
    letter = {"alpha": "α", "gamma": "γ", "theta": "θ", "beta": "β"}.get(last, last)
    return f"{letter}, {place_of(name)[1]}" if place else letter


def groups(
    rows: Sequence[Row], settings_name: str | None = None, comparisons: Comparisons | None = None
) -> list[RunGroup]:
    r"""All comparisons that rows allow, those with unchanged settings of a file first.

    A method belongs to a comparison if its settings are what the file and the changes of that
    comparison give for it. So one baseline serves all changes that do not concern it, and a
    comparison that is part of a larger one is left out.
    """
    places: dict[tuple[str, str, str, str], list[Row]] = {}
    searched: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        place = (row.data, row.data_hash, row.split)
        if row.settings_name == AUTO:
            searched.setdefault(place, []).append(row)
        else:
            places.setdefault((*place, row.backbone), []).append(row)
    found = [
        group
        for place, own in places.items()
        for group in _groups_in(own, searched.get(place[:3], []), comparisons or {})
    ]
    for own in searched.values():
        found += _searched_groups(own, comparisons or {})
    return sorted((g for g in found if settings_name in (None, g.settings_name)), key=_group_rank)


def _groups_in(rows: list[Row], others: list[Row], comparisons: Comparisons) -> list[RunGroup]:
    r"""The comparisons of one backbone on one data set with one scheme of splits, with the
    references among the :obj:`others`.
    """
    first = rows[0]
    methods = [(cell, name) for cell in cells(rows) for name in cell.settings_names]
    texts = [(row, (row.aggr, settings_key(row.settings))) for row in rows]
    wanted = {(name, settings_key(cell.changed)): cell.changed for cell, name in methods}
    found: list[tuple[set[str], RunGroup]] = []
    for (name, text), changed in wanted.items():
        members = {
            (cell.aggr, settings_key(cell.settings))
            for cell, own_name in methods
            if (own_name == name and settings_key(cell.changed) == text)
            or cell.settings == planned_settings(cell, name, changed)
        }
        own_rows = [row for row, member in texts if member in members]
        keys = {row.key for row in own_rows}
        if not any(keys <= other for other, _ in found):
            found = [(other, group) for other, group in found if not other < keys]
            place = (first.data, first.data_hash, first.split, first.backbone)
            metrics = {row.metric for row in own_rows}
            near = [row for row in others if row.backbone in REFERENCES and row.metric in metrics]
            beside = reference_rows(near, first.backbone)
            found.append((keys, RunGroup(*place, name, changed, own_rows, comparisons, beside)))
    return [group for _, group in found]


def _searched_groups(rows: list[Row], comparisons: Comparisons) -> list[RunGroup]:
    r"""The comparisons of one data set and scheme whose settings were searched in each split: one
    for each backbone and metric, with the last run of each method and split; those of a known
    comparison come before later ones.
    """
    known = frozenset[str]().union(*comparisons)
    last = last_searched(rows, known)
    found = []
    for metric in dict.fromkeys(row.settings.get("metric") for row in last):
        kept = [row for row in last if row.settings.get("metric") == metric]
        names = dict.fromkeys(row.backbone for row in kept)
        backbones = [n for n in names if n not in REFERENCES and n != "mlp"] or ["mlp"]
        for backbone in backbones:
            own = [row for row in kept if row.backbone == backbone]
            if own:
                first = own[0]
                place = (first.data, first.data_hash, first.split, backbone)
                beside = reference_rows(kept, backbone)
                found.append(RunGroup(*place, AUTO, {}, own, comparisons, beside))
    return found


def _group_rank(group: RunGroup) -> tuple[Any, ...]:
    file = NAMES.index(group.settings_name) if group.settings_name in NAMES else len(NAMES)
    text = settings_key(group.overrides)
    place = (*rank(SETS, group.data), *rank(BACKBONES, group.backbone))
    return bool(group.overrides), file, *place, group.split, len(text), text


def rank(known: Sequence[str], name: str) -> tuple[int, str]:
    r"""The sort key that puts known names first, in their order."""
    return (known.index(name), "") if name in known else (len(known), name)


def distinguish(listed: Sequence[RunGroup], names: Sequence[str]) -> list[str]:
    r"""Adds an unusual metric, then the splits, and then the hash of the data, to names that are
    equal on one data set with one settings file.
    """
    kinds = [shown_metric(group.rows) for group in listed]
    usual = [METRICS[name] for name in USUAL_METRIC.values()]
    metrics = [f", {kind.label}" if kind.tasks and kind not in usual else "" for kind in kinds]
    splits = [
        "" if group.split == SCHEMES.get(group.data) else f", splits {group.split}"
        for group in listed
    ]
    made = list(names)
    for details in (metrics, splits, [f" ({group.data_hash[:6]})" for group in listed]):
        places = [(g.data, g.settings_name, name) for g, name in zip(listed, made, strict=True)]
        counts = Counter(places)
        made = [
            place[-1] + (detail if counts[place] > 1 else "")
            for place, detail in zip(places, details, strict=True)
        ]
    return made


def setting(value: Any, nothing: str = "none") -> str:
    r"""The value of a setting as text.

    Example:
        >>> setting(4.0), setting(False), setting(None)
        ('4', 'false', 'none')
    """
    if value is None:
        return nothing
    return f"{value:g}" if isinstance(value, float) else option_text(value)
