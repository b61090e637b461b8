r"""What happened epoch by epoch in the runs of a comparison, small enough for a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from meanmax.study.report.groups import Group
from meanmax.study.report.lines import (colour, parameter_name)

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
