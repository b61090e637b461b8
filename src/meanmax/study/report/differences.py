r"""Paired differences to the baseline as a forest plot: where everything stands, in percent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from meanmax.study.stats.paired import FEW

TICKS = 6
r"""At most so many marks on the axis, so that their numbers fit on a phone."""


def forest(lines: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    r"""Positions on a common axis that holds 0, or :obj:`None` if there is no difference to show.

    Positions are percents of the width: the plot then fits any screen while its text keeps its
    size. Lines of few splits have no interval.

    Args:
        lines (iterable): Lines with :obj:`difference`, :obj:`low`, :obj:`high`, :obj:`gain` (the
            paper's difference), any of them :obj:`None`, their number of :obj:`pairs`, and what
            labels them.
    """
    shown = [line for line in lines if line["difference"] is not None]
    if not shown:
        return None
    shown = [_without_interval(line) if line["pairs"] < FEW else line for line in shown]
    values = [
        line[name]
        for line in shown
        for name in ("difference", "low", "high", "gain")
        if line[name] is not None
    ]
    step, first, last = axis(values)

    def at(value: float | None) -> float | None:
        if value is None:
            return None
        return round(4 + 92 * (value - first) / (last - first), 2)

    count = round((last - first) / step)
    ticks = [first + number * step for number in range(count + 1)]
    zero = round(-first / step)
    places = max(0, -math.floor(math.log10(step) + 1e-9))
    return {
        "zero": at(0.0),
        "ticks": [
            # Every other one goes where there is little room, never 0.
            {"at": at(tick), "text": _signed(tick, places), "minor": (number - zero) % 2 == 1}
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
    r"""The step, the begin and the end of an axis with round marks that holds 0 and the values.

    Example:
        >>> axis([-1.3, 0.4])
        (0.5, -1.5, 0.5)
        >>> axis([0.0])
        (0.5, -0.5, 0.5)

    Args:
        values (sequence): Finite numbers.
    """
    low, high = min(0.0, *values), max(0.0, *values)
    if low == high:
        return 0.5, -0.5, 0.5
    rough = (high - low) / (TICKS - 2)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return step, first * step, last * step


def _without_interval(line: dict[str, Any]) -> dict[str, Any]:
    return {**line, "low": None, "high": None}


def _signed(value: float, places: int) -> str:
    text = f"{value:+.{places}f}".replace("-", "−")
    return "0" if round(value, places) == 0 else text
