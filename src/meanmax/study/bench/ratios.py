r"""From timings to rows: medians and their ratios within one graph and pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meanmax.study.bench.competitors import (COMPETITORS, LINEAR, PYG_POWER_MEAN, PYG_SOFTMAX)
from meanmax.study.bench.timing import Timing

Timed = Mapping[str, Timing]


def floors(timed: Timed) -> dict[str, Any]:
    r"""The faster of the linear products."""
    medians = {name: timed[name].median_ms for name in LINEAR}
    measured = {name: value for name, value in medians.items() if value is not None}
    if not measured:
        return {"competitor": None, "median_ms": None}
    fastest = min(measured, key=measured.__getitem__)
    return {"competitor": fastest, "median_ms": measured[fastest]}


def rows_of(key: str, timed: Timed) -> list[dict[str, Any]]:
    r"""One row per competitor in the pass :obj:`key`; a failed one has an error and no numbers."""
    floor = floors(timed)["median_ms"]
    return [
        {
            "competitor": name,
            "label": COMPETITORS[name].label,
            "pass": key,
            "n": len(timing.seconds),
            "median_ms": timing.median_ms,
            "ratio_to_floor": quotient(timing.median_ms, floor),
            "faster_than_pyg_softmax": _speedup(timing, timed, PYG_SOFTMAX),
            "faster_than_pyg_powermean": _speedup(timing, timed, PYG_POWER_MEAN),
            "times_ms": [1000 * seconds for seconds in timing.seconds],
            "error": timing.error,
        }
        for name, timing in timed.items()
    ]


def _speedup(timing: Timing, timed: Timed, peer: str) -> float | None:
    return quotient(timed[peer].median_ms, timing.median_ms) if peer in timed else None


def quotient(upper: float | None, lower: float | None) -> float | None:
    r"""Their ratio, where both were measured."""
    return None if upper is None or lower is None else upper / lower
