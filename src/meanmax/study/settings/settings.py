r"""Settings of runs: files of rules in the package, and what of them a run depends on."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from meanmax.names import PYG_BASELINES

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


__all__ = ["KINDS", "NAMES", "SettingsError", "parse_overrides", "settings_for"]

TRAINING = {
    "epochs": int,
    "lr": float,
    "weight_decay": float,
    "patience": int,
    "select": str,
    "schedule": str,
    "weight_steps": int,
}
STEPS_ON_AGGREGATORS = {
    "aggregator_lr": float,
    "aggregator_clip": float,
    "aggregator_steps": int,
    "aggregator_optimizer": str,
    "aggregator_momentum": float,
    "aggregator_loss": str,
}
AGGREGATOR = {
    "start": float,
    "learn": bool,
    "per": str,
    "reparam": str,
    "upper": float,
    "normalize": str,
    "shift": str,
    "sign": str,
    "edge_dropout": float,
}
MODEL = {
    "layers": int,
    "hidden": int,
    "heads": int,
    "out_heads": int,
    "dropout": float,
    "nonlinear": str,
    "order": str,
    "activation": str,
    "norm": str,
    "skip": str,
    "pool": bool,
    "conjunction": str,
    "structure_weight": float,
}
DATA = {"scale": bool, "batch_graphs": int}
KINDS: dict[str, type] = {**MODEL, **AGGREGATOR, **TRAINING, **STEPS_ON_AGGREGATORS, **DATA}
r"""Every setting and its type."""

ATTENTION = ("gat", "cat")
_OPTIONAL = ("aggregator_clip", "heads", "norm", "order", "skip")
_HEADS = ("heads", "out_heads")
_LEARNED = ("lp", "poly", "softmax")


def settings_for(
    name: str, backbone: str, aggr: str, data: str, overrides: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    r"""The settings that one run depends on, and no others, sorted by name.

    What a method has no use for is left out, so that a baseline is the same run whatever is asked
    of the aggregators beside it.

    Example:
        >>> settings_for("published", "gcn", "softmax", "cora")["aggregator_optimizer"]
        'sgd'
        >>> "aggregator_optimizer" in settings_for("published", "gcn", "none", "cora")
        False

    Args:
        name (str): A key of :obj:`NAMES`, or a file of one's own.
        backbone (str): The backbone.
        aggr (str): The aggregator.
        data (str): The data set.
        overrides (mapping, optional): Settings that win over the file's. (default: :obj:`None`)
    """
    found = ruled(read_rules(name), backbone, aggr, data) | dict(overrides or {})
    if found.get("per") == "head" and backbone not in ATTENTION:
        found["per"] = "layer"  # what a model without heads makes of it
    for key, value in found.items():
        check_name(key)
        _check_kind(key, value)
        if KINDS[key] is float and value is not None:
            found[key] = float(value)  # a file of one's own may have 1 for 1.0
    return {key: found[key] for key in sorted(found) if _matters(key, backbone, aggr, found)}


def parse_overrides(pairs: Iterable[str]) -> dict[str, Any]:
    r"""Settings from :obj:`NAME=VALUE`, each in its type; :obj:`none` for nothing.

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


def check_name(name: str) -> None:
    r"""A :class:`SettingsError` with suggestions, unless there is such a setting."""
    if name not in KINDS:
        close = difflib.get_close_matches(name, KINDS, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
        raise SettingsError(
            f"there is no setting {name!r}: {hint}The settings are {', '.join(sorted(KINDS))}"
        )


def _matters(key: str, backbone: str, aggr: str, found: Mapping[str, Any]) -> bool:
    if found[key] is None:
        return False
    if key in AGGREGATOR:
        if key in ("normalize", "shift"):
            return aggr == "lp" if key == "shift" else aggr in ("poly", "softmax")
        if key == "sign":
            return aggr in ("lp", "poly")
        if key == "upper":
            return aggr in _LEARNED and found.get("reparam") == "sigmoid"
        return aggr in _LEARNED
    if key == "nonlinear":
        return aggr in (*_LEARNED, "max")
    if key in STEPS_ON_AGGREGATORS:
        if aggr not in (*_LEARNED, "pyg-softmax", "pyg-powermean"):
            return False
        if aggr in _LEARNED and not found.get("learn", True):
            return False
        alternating = found.get("schedule") == "alternating"
        return alternating or key in ("aggregator_lr", "aggregator_clip")
    if aggr in PYG_BASELINES and key in MODEL:
        return key in ("layers", "hidden", "dropout") or (key == "heads" and backbone == "gat")
    if key in _HEADS:
        return backbone in ATTENTION
    if key in ("structure_weight", "conjunction"):
        return backbone == "cat"
    return key != "pool" or backbone == "sage"


def _check_kind(name: str, value: Any) -> None:
    kinds = (int, float) if KINDS[name] is float else (KINDS[name],)
    if value is not None and type(value) not in kinds:
        raise SettingsError(f"'{name}' must be of type {KINDS[name].__name__} (got {value!r})")


def _parsed(name: str, text: str) -> Any:
    kind = KINDS[name]
    if text.lower() == "none" and name != "activation":  # of which it is a value
        if name not in _OPTIONAL:
            raise SettingsError(f"'{name}' needs a value (got {text!r})")
        return None
    if kind is bool:
        if text.lower() not in ("true", "false", "yes", "no"):
            raise SettingsError(f"'{name}' must be true or false (got {text!r})")
        return text.lower() in ("true", "yes")
    try:
        return kind(text)
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise SettingsError(f"'{name}' must be {wanted} (got {text!r})") from None
