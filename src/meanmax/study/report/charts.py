r"""Curves over epochs and depths, small enough for a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from meanmax.study.paper.depth import SETS, SPLITS, by_depth, comparable
from meanmax.study.paper.result_tables import AGGRS
from meanmax.study.report.evidence import CURVES, LEARNED, Evidence
from meanmax.study.report.groups import ORDER, RunGroup, parameter_name
from meanmax.study.runs.row import Row

POINTS = 200
r"""The largest number of epochs of a curve on the page."""

DASHES = 8
r"""The number of dash patterns of the page."""

PARAMETER = "Learned parameter"


class Band(NamedTuple):
    r"""The quartiles over runs, each :obj:`[epochs]`; epochs are counted from 1."""

    epoch: np.ndarray
    low: np.ndarray
    middle: np.ndarray
    high: np.ndarray


def quartile_band(runs: Sequence[np.ndarray], *, points: int | None = None) -> Band:
    r"""The median and the other quartiles over runs at each epoch.

    Runs stop at different epochs, and the last few are not comparable with all of them: the band
    ends where fewer than half of the runs are left.

    Example:
        >>> quartile_band([np.array([1.0, 2.0]), np.array([3.0])]).middle
        array([2., 2.])

    Args:
        runs (sequence): The values of each run, :obj:`[epochs]` or :obj:`[epochs, parameters]`;
            values that are not finite do not count.
        points (int, optional): The largest number of epochs, evenly spaced. (default: all)
    """
    tables = [padded(run, max(map(len, runs))) for run in runs]
    there = np.sum([np.isfinite(table).any(axis=1) for table in tables], axis=0)
    epochs = np.flatnonzero((2 * there >= len(runs)) & (there > 0))
    if points is not None and len(epochs) > points:
        epochs = epochs[np.linspace(0, len(epochs) - 1, points).round().astype(int)]
    values = np.concatenate([table[epochs] for table in tables], axis=1)
    low, middle, high = (_quantile(values, share) for share in (0.25, 0.5, 0.75))
    return Band(epochs + 1, low, middle, high)


def padded(run: np.ndarray, epochs: int) -> np.ndarray:
    r"""A run as :obj:`[epochs, values]`, with NaN after its end and for what is not finite."""
    flat = np.asarray(run, np.float64).reshape(len(run), -1)
    table = np.full((epochs, flat.shape[1]), np.nan)
    table[: len(flat)] = np.where(np.isfinite(flat), flat, np.nan)
    return table


def _quantile(values: np.ndarray, share: float) -> np.ndarray:
    r"""Of each row without its NaN, for all rows at once (numpy's nanquantile loops over rows)."""
    ordered = np.sort(values, axis=1)  # NaN comes last
    count = np.isfinite(ordered).sum(axis=1)
    place = share * (count - 1)
    below = np.floor(place).astype(int)
    above = np.minimum(below + 1, count - 1)
    rows = np.arange(len(ordered))
    low, high = ordered[rows, below], ordered[rows, above]
    found: np.ndarray = low + (high - low) * (place - below)
    return found


def charts(group: RunGroup, evidence: Evidence) -> list[dict[str, Any]]:
    r"""One chart for each quantity, with a :func:`quartile_band` for each method; empty without
    artefacts.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for aggr in group.aggrs:
        own = [evidence.curves(row.key) for row in group.of(aggr) if row.status == "ok"]
        names = sorted({name for arrays in own for name in arrays})
        series = {
            name: [arrays[name] for arrays in own if len(arrays.get(name, ())) > 0]
            for name in names
        }
        bands = {name: quartile_band(r, points=POINTS) for name, r in series.items() if r}
        bands = {name: band for name, band in bands.items() if len(band.epoch) > 0}
        learned = [name for name in bands if name not in CURVES]
        for name, band in bands.items():
            label = aggr
            if name in learned:
                label = f"{aggr}: {parameter_name(name.removeprefix(LEARNED))}"
            line = {
                **_line(aggr, label, group.colour(aggr), len(series[name])),
                "x": band.epoch.tolist(),
                "mid": _rounded(band.middle),
                "low": _rounded(band.low),
                "high": _rounded(band.high),
            }
            if name in learned and len(learned) > 1:  # one for each layer
                line["dash"] = learned.index(name) % DASHES
            found.setdefault(CURVES.get(name, PARAMETER), []).append(line)
    order = [*CURVES.values(), PARAMETER]
    return [{"title": title, "lines": found[title]} for title in order if title in found]


def _line(aggr: str, label: str, colour: int, runs: int) -> dict[str, Any]:
    return {"aggr": aggr, "label": label, "colour": colour, "runs": runs}


def _rounded(values: np.ndarray) -> list[float]:
    r"""Four digits, or all before the decimal point."""
    size = np.abs(np.where(values != 0, values, 1.0))
    scale = 10.0 ** np.clip(3 - np.floor(np.log10(size)), 0, 22)  # powers of ten that are exact
    listed: list[float] = (np.rint(values * scale) / scale).tolist()
    return listed


def depths(rows: Sequence[Row]) -> dict[str, Any] | None:
    r"""A chart for each data set that was run at several depths, or :obj:`None`.

    The runs are those of :mod:`meanmax.study.paper.depth`; a line is the mean over splits with the
    least and the largest score.
    """
    charts = []
    for data in SETS:
        points = comparable(by_depth(rows, data))
        if len({point.layers for point in points}) < 2:
            continue
        drawn = []
        for aggr in AGGRS:
            if own := [point for point in points if point.aggr == aggr]:
                runs = sum(len(point.scores) for point in own)  # at all depths together
                drawn.append(
                    {
                        **_line(aggr, aggr, ORDER.index(aggr), runs),
                        "x": [point.layers for point in own],
                        "mid": [round(point.mean, 2) for point in own],
                        "low": [round(min(point.scores), 2) for point in own],
                        "high": [round(max(point.scores), 2) for point in own],
                    }
                )
        splits = max(len(point.scores) for point in points)
        title = f"{data} ({splits} split{'' if splits == 1 else 's'})"
        charts.append({"title": title, "axis": "layers", "lines": drawn})
    return {"id": "depths", "charts": charts, "wanted": SPLITS} if charts else None
