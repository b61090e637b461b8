r"""Files of rules: which settings hold for which backbone, aggregator and data set."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

NAMES = ("published", "tuned")
r"""The files in the package that runs are planned from."""

_CONDITIONS = {"backbone", "aggr", "data"}
_FORM = (
    "a settings file has a [default] table or base = 'tuned', and [[rule]] tables with when = "
    "{ backbone = [...], aggr = [...], data = [...] }"
)


class SettingsError(ValueError):
    r"""A setting that does not exist or does not fit."""


def check_settings_name(name: str) -> None:
    r"""A :class:`SettingsError` unless there is such a file, in the package or of one's own."""
    if name.endswith(".toml"):
        if not Path(name).is_file():
            raise SettingsError(f"there is no settings file {name!r}: name another one")
    elif name not in NAMES:
        raise SettingsError(
            f"'settings' must be one of {', '.join(NAMES)}, or a file that ends with .toml "
            f"(got {name!r})"
        )


@cache
def read_rules(name: str) -> dict[str, Any]:
    r"""The rules of a file.

    Args:
        name (str): A key of :obj:`NAMES`, or the path of a file of one's own, which may name one
            of those as its :obj:`base`: its own rules then come after, and win.
    """
    check_settings_name(name)
    if name in NAMES:
        return packaged(name)
    try:
        content = tomllib.loads(Path(name).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"settings file {name!r} cannot be read ({error})") from error
    _check_form(name, content)
    base = packaged(content["base"]) if "base" in content else {"default": {}}
    rules = [{"when": {}, **content.get("default", {})}, *content.get("rule", [])]
    return {"default": base["default"], "rule": [*base.get("rule", []), *rules]}


def packaged(name: str) -> dict[str, Any]:
    r"""What a file among the package's settings holds."""
    text = files("meanmax.study").joinpath("settings", f"{name}.toml").read_text("utf-8")
    return tomllib.loads(text)


def ruled(content: Mapping[str, Any], backbone: str, aggr: str, data: str) -> dict[str, Any]:
    r"""What the rules give for one method: later ones win over earlier ones.

    Example:
        >>> rules = {"default": {"lr": 0.01}, "rule": [{"when": {"aggr": ["lp"]}, "lr": 0.1}]}
        >>> ruled(rules, "gcn", "lp", "cora"), ruled(rules, "gcn", "none", "cora")
        ({'lr': 0.1}, {'lr': 0.01})

    Args:
        content (mapping): What :func:`read_rules` gives.
        backbone (str): The backbone.
        aggr (str): The aggregator.
        data (str): The data set.
    """
    found = dict(content["default"])
    facts = {"backbone": backbone, "aggr": aggr, "data": data}
    for rule in content.get("rule", []):
        if all(facts[fact] in allowed for fact, allowed in rule["when"].items()):
            found |= {key: value for key, value in rule.items() if key != "when"}
    return found


def _check_form(name: str, content: Mapping[str, Any]) -> None:
    rules = content.get("rule", [])
    sound = (
        content.keys() <= {"base", "default", "rule"}
        and ("base" in content or "default" in content)
        and isinstance(content.get("default", {}), dict)
        and isinstance(rules, list)
        and all(isinstance(rule, dict) and _is_condition(rule.get("when")) for rule in rules)
    )
    if not sound:
        raise SettingsError(f"settings file {name!r} is not in its form: {_FORM}")
    if content.get("base", NAMES[0]) not in NAMES:
        listed = ", ".join(NAMES)
        raise SettingsError(
            f"the base of settings file {name!r} must be one of {listed} (got {content['base']!r})"
        )


def _is_condition(when: object) -> bool:
    if not isinstance(when, dict) or not when.keys() <= _CONDITIONS:
        return False
    return all(isinstance(allowed, list) for allowed in when.values())
