r"""The options of generated data sets, such as :obj:`nodes=1000,seed=1`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meanmax.data.files import DataError


def read_options(kind: str, text: str, types: Mapping[str, type]) -> dict[str, Any]:
    r"""The arguments in the text, as :obj:`int`, :obj:`float` or :obj:`str`.

    Example:
        >>> read_options("sbm", "nodes=1e3, signal=2", {"nodes": int, "signal": float})
        {'nodes': 1000, 'signal': 2.0}
    """
    arguments: dict[str, Any] = {}
    for option in filter(None, text.split(",")):
        name, _, value = (part.strip() for part in option.partition("="))
        if name not in types:
            raise DataError(f"'{kind}' has no option '{name}'; it takes {', '.join(types)}")
        try:
            number = value if types[name] is str else float(value)
            arguments[name] = types[name](number)
        except (ValueError, OverflowError):
            message = f"option '{name}' of '{kind}' must be a number (got {value!r})"
            raise DataError(message) from None
    return arguments


def check_bounds(kind: str, bounds: Mapping[str, tuple[float, float, float]], **hints: str) -> None:
    r"""Raises unless each argument, with its name: value, smallest and largest, is within them."""
    for name, (value, low, high) in bounds.items():
        if not low <= value <= high:
            hint = f"; {hints[name]}" if name in hints else ""
            message = f"'{name}' of '{kind}' must be between {low:,} and {high:,} (got {value:,})"
            raise DataError(message + hint)
