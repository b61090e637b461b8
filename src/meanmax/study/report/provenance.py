r"""What is needed to make runs again: settings, versions, machine."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from meanmax.data.fetch.catalog import CATALOG
from meanmax.study.report.lines import Group
from meanmax.study.runs.row import Row
from meanmax.study.settings.settings import NAMES


def settings_table(group: Group) -> dict[str, Any]:
    r"""All settings of all methods of a comparison, with those marked that differ.

    Args:
        group (Group): The runs.
    """
    columns = {aggr: group.of(aggr)[0].settings for aggr in group.aggrs}
    names = sorted({name for settings in columns.values() for name in settings})
    return {
        "aggrs": group.aggrs,
        "rows": [
            {
                "name": name,
                "values": [setting(settings.get(name), "–") for settings in columns.values()],
                "differs": _differs([s[name] for s in columns.values() if name in s]),
                "changed": name in group.overrides,
            }
            for name in names
        ],
    }


def machine(rows: Sequence[Row]) -> list[dict[str, Any]]:
    r"""Versions, processor, threads and commit, each value with how many runs have it.

    Args:
        rows (sequence): The runs of the page.
    """
    facts: dict[str, Callable[[Row], str]] = {
        "processor": lambda row: row.cpu or "unknown",
        "threads of a run": lambda row: str(row.threads),
        "machine": lambda row: "to itself" if row.alone else "shared with other work",
        "commit": lambda row: row.commit or "unknown",
    }
    for name in sorted({name for row in rows for name in row.versions}):
        facts[name] = _version_of(name)
    return [{"fact": fact, "values": _counted(map(of, rows))} for fact, of in facts.items()]


def span(rows: Sequence[Row]) -> str:
    r"""When the runs were finished, in UTC to the minute."""
    times = sorted(row.finished[:16].replace("T", " ") for row in rows if row.finished)
    if not times:
        return ""
    return times[0] if times[0] == times[-1] else f"{times[0]} to {times[-1]}"


def failures(rows: Iterable[Row]) -> list[dict[str, Any]]:
    r"""Runs that did not end well, those with the same error of one method together.

    Args:
        rows (iterable): The runs of one comparison.
    """
    found: dict[tuple[str, str, str], list[int]] = {}
    for row in rows:
        if row.status != "ok":
            place = (row.aggr, row.status, row.error or "no error was recorded")
            found.setdefault(place, []).append(row.split_seed)
    return [
        {"aggr": aggr, "status": status, "error": error, "splits": sorted(splits)}
        for (aggr, status, error), splits in found.items()
    ]


def setting(value: Any, nothing: str = "none") -> str:
    r"""The value of a setting for people.

    Example:
        >>> setting(4.0), setting(False), setting(None)
        ('4', 'false', 'none')

    Args:
        value: A number, a truth value, text or :obj:`None`.
        nothing (str, optional): What stands for :obj:`None`. (default: :obj:`"none"`)
    """
    if value is None:
        return nothing
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _version_of(name: str) -> Callable[[Row], str]:
    return lambda row: row.versions.get(name, "unknown")


def _counted(values: Iterable[str]) -> list[dict[str, Any]]:
    return [{"text": text, "runs": runs} for text, runs in Counter(values).most_common()]


def _differs(values: list[Any]) -> bool:
    return any(value != values[0] for value in values)


PLACE = "FOLDER-OF"
r"""Stands where rows do not say: they know the name of a person's own data, not where it lies."""


def command(group: Group) -> str:
    r"""A line for the shell, in which every name is one word, whatever is in it.

    Args:
        group (Group): The comparison.
    """
    source = group.data
    if source not in CATALOG:  # one's own of the same name as a set has a mark in rows
        source = f"{PLACE}/{source.removesuffix(' (own)')}"
    words = ["meanmax", "compare", "--data", source, "--backbone", group.backbone]
    words += ["--aggr", ",".join(group.aggrs)]
    words += ["--splits", str(max(row.split_seed for row in group.rows) + 1)]
    words += ["--split", _scheme(group.split)]
    if group.settings_name in NAMES:
        words += ["--settings", group.settings_name]
    for name, value in group.overrides.items():
        words += ["--set", f"{name}={_value(value)}"]
    return shlex.join(words)


def needs_place(group: Group) -> bool:
    r"""Whether the command has to be told where a file lies."""
    return group.data not in CATALOG or group.split.startswith("file:")


def _scheme(split: str) -> str:
    kind, colon, name = split.partition(":")
    return f"{kind}:{PLACE}/{name}" if colon else split


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value is None else str(value)
