r"""What happened epoch by epoch in the runs of a comparison, small enough for a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from meanmax.study.paper.depth import SETS, SPLITS, Depth, by_depth, comparable
from meanmax.study.paper.tables import AGGRS
from meanmax.study.report.lines import Group, colour, parameter_name
from meanmax.study.runs.row import Row
from meanmax.study.stats.paired import FEW

POINTS = 200
r"""At most so many epochs of a curve are on the page."""

DASHES = 8
r"""So many kinds of dashes the page has."""

LEARNED = "learned/"
CURVES = {
    "train_loss": "Training loss",
    "val_loss": "Validation loss",
    "val_score": "Validation score",
}
Curves = Mapping[str, np.ndarray]
r"""Arrays whose first axis is the epoch, by name."""


def charts(group: Group, curves: Callable[[str], Curves | None]) -> list[dict[str, Any]]:
    r"""One chart for each quantity, with one line for each method; empty without artefacts.

    A line is the median over the runs that are still training at an epoch, with the quartiles, up
    to where half of them have stopped; what the last few do is not compared with what all did.

    Args:
        group (Group): The runs.
        curves (callable): The arrays of a run by its key, or :obj:`None`.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for aggr in group.aggrs:
        own = [curves(row.key) for row in group.of(aggr) if row.status == "ok"]
        there = [arrays for arrays in own if arrays]
        for name in sorted({name for arrays in there for name in arrays}):
            runs = [arrays[name] for arrays in there if len(arrays.get(name, ())) > 0]
            title = CURVES.get(name) or ("Learned parameter" if name.startswith(LEARNED) else None)
            if title is None or not runs:
                continue
            label = parameter_name(name.removeprefix(LEARNED)) if name not in CURVES else ""
            found.setdefault(title, []).append(
                {
                    "aggr": aggr,
                    "label": f"{aggr}: {label}" if label else aggr,
                    "colour": colour(aggr, group.aggrs),
                    "runs": len(runs),
                    **line(runs),
                }
            )
    for aggr in group.aggrs:  # several parameters of one method, as those of its layers
        several = [one for one in found.get("Learned parameter", ()) if one["aggr"] == aggr]
        if len(several) > 1:
            for number, one in enumerate(several):
                one["dash"] = number % DASHES
    order = [*CURVES.values(), "Learned parameter"]
    return [{"title": title, "lines": found[title]} for title in order if title in found]


def line(runs: list[np.ndarray]) -> dict[str, list[Any]]:
    r"""The median and the quartiles over runs, thinned out.

    Example:
        >>> line([np.array([4.0, 2.0]), np.array([2.0, 1.0, 9.0]), np.array([3.0, 3.0])])
        {'x': [1, 2], 'mid': [3.0, 2.0], 'low': [2.5, 1.5], 'high': [3.5, 2.5]}

    Args:
        runs (list): Values of each run, :obj:`[epochs]` or :obj:`[epochs, parameters]`.
    """
    lengths = sorted((len(run) for run in runs), reverse=True)
    epochs = lengths[(len(lengths) - 1) // 2]
    kept = np.unique(np.linspace(0, epochs - 1, min(epochs, POINTS)).round().astype(int))
    columns = []
    for run in runs:
        flat = np.asarray(run, np.float64).reshape(len(run), -1)
        padded = np.full((len(kept), flat.shape[1]), np.nan)
        there = kept < len(flat)
        padded[there] = flat[kept[there]]
        columns.append(padded)
    values = np.concatenate(columns, axis=1)
    values[~np.isfinite(values)] = np.nan
    low, mid, high = (_quantile(values, share) for share in (0.25, 0.5, 0.75))
    return {
        "x": (kept + 1).tolist(),
        "mid": _rounded(mid),
        "low": _rounded(low),
        "high": _rounded(high),
    }


def _quantile(values: np.ndarray, share: float) -> np.ndarray:
    r"""Of each row without its NaN, for all rows at once, as numpy's nanquantile does not."""
    ordered = np.sort(values, axis=1)  # NaN comes last
    count = np.isfinite(ordered).sum(axis=1)
    place = share * np.maximum(count - 1, 0)
    below = np.floor(place).astype(int)
    above = np.minimum(below + 1, np.maximum(count - 1, 0))
    rows = np.arange(len(ordered))
    low, high = ordered[rows, below], ordered[rows, above]
    found: np.ndarray = low + (high - low) * (place - below)
    return found


def _rounded(values: np.ndarray) -> list[float | None]:
    r"""Four digits, or all that stand before the point; :obj:`None` for what is not finite."""
    finite = np.isfinite(values)
    size = np.abs(np.where(finite & (values != 0), values, 1.0))
    scale = 10.0 ** np.clip(3 - np.floor(np.log10(size)), 0, 22)  # powers of ten that are exact
    listed: list[float] = (np.rint(values * scale) / scale).tolist()
    return [value if good else None for value, good in zip(listed, finite.tolist(), strict=True)]


def depths(rows: Sequence[Row]) -> dict[str, Any] | None:
    r"""A chart for each data set that was run at several depths, or :obj:`None`.

    The runs are those of :mod:`meanmax.study.paper.depth`; a line is the mean over splits with the
    least and the largest score.

    Args:
        rows (sequence): The runs of the page.
    """
    charts = []
    for data in SETS:
        points = comparable(by_depth(rows, data))
        if len({point.layers for point in points}) > 1:
            lines = [_line(aggr, [p for p in points if p.aggr == aggr]) for aggr in AGGRS]
            splits = max(len(point.scores) for point in points)
            title = f"{data} ({splits} split{'' if splits == 1 else 's'})"
            charts.append({"title": title, "axis": "layers", "lines": [x for x in lines if x["x"]]})
    return {"id": "depths", "charts": charts, "wanted": SPLITS} if charts else None


def _line(aggr: str, points: Sequence[Depth]) -> dict[str, Any]:
    return {
        "aggr": aggr,
        "label": aggr,
        "colour": colour(aggr, list(AGGRS)),
        "runs": sum(len(point.scores) for point in points),  # at all depths together
        "x": [point.layers for point in points],
        "mid": [round(point.mean, 2) for point in points],
        "low": [round(min(point.scores), 2) for point in points],
        "high": [round(max(point.scores), 2) for point in points],
    }


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
