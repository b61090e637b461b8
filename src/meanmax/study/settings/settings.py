r"""Settings files: rules that give the settings of a method on a data set."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from meanmax.names import Level
from meanmax.train.settings import KINDS, SCALES, Settings, SettingsError, check_name

__all__ = [
    "KINDS",
    "NAMES",
    "SettingsError",
    "option_text",
    "override_options",
    "parse_overrides",
    "read_settings",
    "settings_for",
    "settings_key",
]

AUTO = "auto"
r"""Settings that are searched for each method in each split."""
BASE = "default"
r"""The settings file that gives what is not searched."""
OF_GRAPHS = "graphs"
r"""The one in its place where whole graphs have the labels."""
NAMES = ("published", "default", OF_GRAPHS)
r"""The settings files in the package."""

_MANY_PARTS = re.compile(r"""(?:["'\w-]+[ \t]*\.[ \t]*){50}""")
_FORMER = {"tuned": "default"}  # names that earlier versions wrote into rows and files
_CONDITIONS = {"backbone", "aggr", "data"}
_FORM = (
    "a settings file has a [default] table or base = 'default', and [[rule]] tables with when = "
    "{ backbone = [...], aggr = [...], data = [...] }; a table [search] is for notes"
)
OPTIONAL = ("aggregator_clip", "class_weight", "heads", "jump", "metric", "norm", "order", "skip")
r"""Settings that :obj:`"none"` leaves out, in files and on the command line."""


def current_name(name: str) -> str:
    r"""The name of a settings file today, from one that an earlier version may have written.

    Example:
        >>> current_name("tuned"), current_name("published")
        ('default', 'published')
    """
    return _FORMER.get(name, name)


def fitting_name(name: str, level: Level) -> str:
    r"""The settings file for what has the labels: :obj:`"default"` is that of graphs where whole
    graphs have them.

    Example:
        >>> fitting_name("default", "graph"), fitting_name("default", "node")
        ('graphs', 'default')
    """
    if level == "graph" and name == "published":
        raise SettingsError(
            "the published settings are those of labels of nodes: use 'default', 'auto' or a file "
            "for labels of graphs"
        )
    if level == "node" and name == OF_GRAPHS:
        raise SettingsError(f"settings {OF_GRAPHS!r} are for labels of graphs: use {BASE!r}")
    return OF_GRAPHS if level == "graph" and name == BASE else name


def base_of(settings: Mapping[str, Any]) -> str:
    r"""The settings file that searched settings complete."""
    return fitting_name(BASE, level_of(settings))


def level_of(settings: Mapping[str, Any]) -> Level:
    r"""What has the labels in runs with these settings: only those of graphs have a readout.

    Example:
        >>> level_of({"lr": 0.01}), level_of({"lr": 0.01, "readout": "mean"})
        ('node', 'graph')
    """
    return "graph" if "readout" in settings else "node"


def check_settings_name(name: str) -> str:
    r"""The current name; raises a :class:`SettingsError` unless there is such a file, by name in
    the package or by path.
    """
    name = current_name(name)
    if name.endswith(".toml"):
        if not Path(name).is_file():
            raise SettingsError(f"there is no settings file {name!r}: name another one")
    elif name not in NAMES:
        raise SettingsError(
            f"'settings' must be one of {', '.join(NAMES)}, or a file that ends with .toml "
            f"(got {name!r})"
        )
    return name


def read_settings(
    name: str, backbone: str, aggr: str, data: str, overrides: Mapping[str, Any] | None = None
) -> Settings:
    r"""The settings of a method on a data set, only those that it depends on, from one of
    :obj:`NAMES` or the path of a file.
    """
    found = apply_rules(read_rules(name), backbone, aggr, data)
    found = {k: None if v == "none" and k in OPTIONAL else v for k, v in found.items()}
    found |= dict(overrides or {})
    return Settings.from_dict(backbone, aggr, found)


def settings_for(
    name: str, backbone: str, aggr: str, data: str, overrides: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    r"""The same in the form that rows store, sorted by name.

    Example:
        >>> settings_for("published", "gcn", "softmax", "cora")["aggregator_optimizer"]
        'sgd'
        >>> "aggregator_optimizer" in settings_for("published", "gcn", "none", "cora")
        False
    """
    return read_settings(name, backbone, aggr, data, overrides).to_dict()


def settings_key(settings: Mapping[str, Any]) -> str:
    r"""A text that is the same for equal settings, whatever their order."""
    return json.dumps(settings, sort_keys=True)


@cache
def read_rules(name: str) -> dict[str, Any]:
    r"""The rules of a settings file, and its table :obj:`[search]`. A file outside the package may
    name one of :obj:`NAMES` as its :obj:`base`: its own rules then follow those of the base, and
    override them.
    """
    name = check_settings_name(name)
    if name in NAMES:
        return packaged(name)
    try:
        content = parsed_toml(Path(name).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"settings file {name!r} cannot be read ({error})") from error
    _check_form(name, content)
    base = packaged(current_name(content["base"])) if "base" in content else {"default": {}}
    rules = [{"when": {}, **content.get("default", {})}, *content.get("rule", [])]
    found = {"default": base["default"], "rule": [*base.get("rule", []), *rules]}
    return found | {"search": content.get("search", {})}


def searched_in_pool(name: str) -> bool:
    r"""Whether the settings of a file were searched on splits of a development pool, as its table
    :obj:`[search]` says.
    """
    return bool(read_rules(name).get("search", {}).get("pool", False))


def packaged(name: str) -> dict[str, Any]:
    r"""The content of a file in the package."""
    text = files("meanmax.study").joinpath("settings", f"{name}.toml").read_text("utf-8")
    return tomllib.loads(text)


def parsed_toml(text: str) -> dict[str, Any]:
    r"""The content of a TOML file; a :class:`ValueError` for keys of many parts, for which
    :mod:`tomllib` takes memory that grows with the square of their number.
    """
    if _MANY_PARTS.search(text):
        raise ValueError("a key has more than 50 parts")
    return tomllib.loads(text)


def apply_rules(
    content: Mapping[str, Any], backbone: str, aggr: str, data: str, **more: str
) -> dict[str, Any]:
    r"""The values for one method on one data set; later rules override earlier ones. Conditions may
    name :obj:`more` facts.

    Example:
        >>> rules = {"default": {"lr": 0.01}, "rule": [{"when": {"aggr": ["lp"]}, "lr": 0.1}]}
        >>> apply_rules(rules, "gcn", "lp", "cora"), apply_rules(rules, "gcn", "none", "cora")
        ({'lr': 0.1}, {'lr': 0.01})
    """
    found = dict(content["default"])
    facts = {"backbone": backbone, "aggr": aggr, "data": data, **more}
    for rule in content.get("rule", []):
        if all(facts[fact] in allowed for fact, allowed in rule["when"].items()):
            found |= {key: value for key, value in rule.items() if key != "when"}
    return found


def parse_overrides(pairs: Iterable[str]) -> dict[str, Any]:
    r"""Settings from :obj:`NAME=VALUE`, each converted to its type; :obj:`none` for the default.

    Example:
        >>> parse_overrides(["lr=0.005", "per=channel", "learn=false"])
        {'lr': 0.005, 'per': 'channel', 'learn': False}
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        name = name.strip()
        if not equals:
            raise SettingsError(
                f"a setting is given as NAME=VALUE, such as lr=0.005 (got {pair!r})"
            )
        check_name(name)
        found[name] = _parsed(name, text.strip())
    return found


def override_options(overrides: Mapping[str, Any]) -> list[str]:
    r"""The options of a command that :func:`parse_overrides` reads as these settings.

    Example:
        >>> override_options({"lr": 0.005, "learn": False})
        ['--set', 'lr=0.005', '--set', 'learn=false']
    """
    pairs = [f"{name}={option_text(value)}" for name, value in overrides.items()]
    return [word for pair in pairs for word in ("--set", pair)]


def option_text(value: Any) -> str:
    r"""The value of a setting as :obj:`--set` takes it, without any rounding."""
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def _check_form(name: str, content: Mapping[str, Any]) -> None:
    rules = content.get("rule", [])
    sound = (
        content.keys() <= {"base", "default", "rule", "search"}
        and isinstance(content.get("search", {}), dict)
        and ("base" in content or "default" in content)
        and isinstance(content.get("default", {}), dict)
        and is_tables(rules)
        and all(is_condition(rule.get("when")) for rule in rules)
    )
    if not sound:
        raise SettingsError(f"settings file {name!r} does not have the expected form: {_FORM}")
    base = content.get("base", NAMES[0])
    if not isinstance(base, str) or current_name(base) not in NAMES:
        listed = ", ".join(NAMES)
        raise SettingsError(
            f"the base of settings file {name!r} must be one of {listed} (got {base!r})"
        )


def is_tables(listed: object) -> bool:
    r"""Whether a value of a file is a list of tables."""
    return isinstance(listed, list) and all(isinstance(each, dict) for each in listed)


def is_condition(when: object, *more: str) -> bool:
    r"""Whether a value of a file is the condition of a rule, which may name :obj:`more` facts."""
    if not isinstance(when, dict) or not when.keys() <= {*_CONDITIONS, *more}:
        return False
    return all(isinstance(allowed, list) for allowed in when.values())


def _parsed(name: str, text: str) -> Any:
    kind = KINDS[name]
    if text.lower() == "none" and name != "activation":  # where "none" is a value
        if name not in OPTIONAL:
            raise SettingsError(f"'{name}' needs a value (got {text!r})")
        return None
    if name == "scale" and text in SCALES:
        return text
    if kind is bool:
        if text.lower() not in ("true", "false", "yes", "no"):
            also = f", or one of {', '.join(SCALES)}" if name == "scale" else ""
            raise SettingsError(f"'{name}' must be true or false{also} (got {text!r})")
        return text.lower() in ("true", "yes")
    try:
        return kind(text)
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise SettingsError(f"'{name}' must be {wanted} (got {text!r})") from None
