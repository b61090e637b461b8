r"""The command that makes the runs of a comparison again."""

from __future__ import annotations

import shlex
from typing import Any

from meanmax.data.fetch.catalog import CATALOG
from meanmax.study.settings.settings import NAMES
from meanmax.study.report.groups import Group

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
