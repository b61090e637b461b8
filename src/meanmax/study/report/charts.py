r"""What the page's scripts draw: curves over epochs and depths, and scatter plots of embeddings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from meanmax.study.paper.depth import SETS, SPLITS, by_depth, comparable
from meanmax.study.paper.result_tables import AGGRS
from meanmax.study.report.embeddings import (
    LabelSource,
    Layout,
    NodeLabels,
    NoLabels,
    coordinates_of,
    silhouette_of,
)
from meanmax.study.report.evidence import CURVES, LEARNED, Evidence
from meanmax.study.report.groups import ORDER, RunGroup, parameter_name
from meanmax.study.runs.row import Row, json_safe
from meanmax.study.settings.settings import level_of
from meanmax.study.stats.cells import shown_metric

EPOCHS = 200  # at most, of a curve on the page
DASHES = 8  # dash patterns of the page
PARAMETER = "Learned parameter"

# Scatter plots: the largest numbers of points in a panel and on the page, and of panels of a
# comparison. With fewer than FEW_PANELS methods, a panel has as many points as with that many.
POINTS, ALL_POINTS, PANELS, FEW_PANELS = 3000, 100_000, 8, 4
STYLES = 24  # classes with a colour and shape of their own
SCALE = 1000  # coordinates are whole numbers up to this


class Band(NamedTuple):
    r"""The quartiles over runs, each :obj:`[epochs]`; epochs are counted from 1."""

    epoch: np.ndarray
    low: np.ndarray
    middle: np.ndarray
    high: np.ndarray


def quartile_band(runs: Sequence[np.ndarray], *, points: int | None = None) -> Band:
    r"""The median and the other quartiles over runs at each epoch.

    A run has values :obj:`[epochs]` or :obj:`[epochs, parameters]`, of which those that are not
    finite do not count. Runs stop at different epochs, and the last few are not comparable with all
    of them: the band ends where fewer than half of the runs are left. Of more epochs than
    :obj:`points`, that many are taken, evenly spaced.

    Example:
        >>> quartile_band([np.array([1.0, 2.0]), np.array([3.0])]).middle
        array([2., 2.])
    """
    tables = [padded(run, max(map(len, runs))) for run in runs]
    there = np.sum([np.isfinite(table).any(axis=1) for table in tables], axis=0)
    epochs = np.flatnonzero((2 * there >= len(runs)) & (there > 0))
    if points is not None and len(epochs) > points:
        epochs = epochs[np.linspace(0, len(epochs) - 1, points).round().astype(int)]
    values = np.concatenate([table[epochs] for table in tables], axis=1)
    # Quartiles of all rows at once, without their NaN (numpy's nanquantile loops over rows).
    ordered = np.sort(values, axis=1)  # NaN comes last
    count = np.isfinite(ordered).sum(axis=1)
    place = np.array([[0.25], [0.5], [0.75]]) * (count - 1)  # [3, epochs]
    below = np.floor(place).astype(int)
    rows = np.arange(len(ordered))
    low, high = ordered[rows, below], ordered[rows, np.minimum(below + 1, count - 1)]
    return Band(epochs + 1, *(low + (high - low) * (place - below)))


def padded(run: np.ndarray, epochs: int) -> np.ndarray:
    r"""A run as :obj:`[epochs, values]`, with NaN after its end and for what is not finite."""
    flat = np.asarray(run, np.float64).reshape(len(run), -1)
    table = np.full((epochs, flat.shape[1]), np.nan)
    table[: len(flat)] = np.where(np.isfinite(flat), flat, np.nan)
    return table


def charts(group: RunGroup, evidence: Evidence) -> list[dict[str, Any]]:
    r"""One chart for each quantity that has curves, with a :func:`quartile_band` per method."""
    found: dict[str, list[dict[str, Any]]] = {}
    for aggr in group.aggrs:
        series: dict[str, list[np.ndarray]] = {}
        for row in group.of(aggr):
            for name, values in evidence.curves(row.key).items() if row.status == "ok" else ():
                if len(values) > 0:
                    series.setdefault(name, []).append(values)
        bands = {name: quartile_band(series[name], points=EPOCHS) for name in sorted(series)}
        bands = {name: band for name, band in bands.items() if len(band.epoch) > 0}
        learned = [name for name in bands if name not in CURVES]
        for name, band in bands.items():
            curves = map(_rounded, (band.low, band.middle, band.high))
            line = _line(aggr, group.colour(aggr), len(series[name]), band.epoch.tolist(), *curves)
            if name in learned:
                line["label"] = f"{aggr}: {parameter_name(name.removeprefix(LEARNED))}"
            if name in learned and len(learned) > 1:  # one for each layer
                line["dash"] = learned.index(name) % DASHES
            found.setdefault(CURVES.get(name, PARAMETER), []).append(line)
    order = [*CURVES.values(), PARAMETER]
    return [{"title": title, "lines": found[title]} for title in order if title in found]


def _line(aggr: str, colour: int, runs: int, x: list[int], *band: list[float]) -> dict[str, Any]:
    values = dict(zip(("low", "mid", "high"), band, strict=True))
    return {"aggr": aggr, "label": aggr, "colour": colour, "runs": runs, "x": x, **values}


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
        lines = []
        for aggr in AGGRS:
            if own := [point for point in points if point.aggr == aggr]:
                runs = sum(len(point.scores) for point in own)  # at all depths together
                layers = [point.layers for point in own]
                low = [round(min(point.scores), 2) for point in own]
                mean = [round(point.mean, 2) for point in own]
                high = [round(max(point.scores), 2) for point in own]
                lines.append(_line(aggr, ORDER.index(aggr), runs, layers, low, mean, high))
        splits = max(len(point.scores) for point in points)
        title = f"{data} ({splits} split{'' if splits == 1 else 's'})"
        charts.append({"title": title, "axis": "layers", "lines": lines})
    return {"id": "depths", "charts": charts, "wanted": SPLITS} if charts else None


def scatters(
    groups: Sequence[RunGroup], evidence: Evidence, labels: LabelSource, *, compute: bool = False
) -> list[dict[str, Any] | None]:
    r"""Panels of each comparison, on the first of the splits on which most aggregators have
    coordinates; :obj:`None` for a comparison without any.
    """
    chosen = [_best_split(group, evidence, compute) for group in groups]
    sharing = sum(map(bool, chosen))
    return [
        _scatter(group, rows, evidence, labels, sharing, compute)
        for group, rows in zip(groups, chosen, strict=True)
    ]


def _best_split(group: RunGroup, evidence: Evidence, compute: bool) -> list[Row]:
    if evidence.derived is None:
        return []
    rows = [row for aggr in group.aggrs for row in group.of(aggr) if row.status == "ok"]
    ready = Counter(
        row.split_seed
        for row in rows
        if Layout().file_of(evidence.derived, row.key).exists()
        or (compute and evidence.has_artefact(row.key))
    )
    split = min(ready, key=lambda seed: (-ready[seed], seed), default=None)
    return [row for row in rows if row.split_seed == split]


def _scatter(
    group: RunGroup,
    rows: list[Row],
    evidence: Evidence,
    labels: LabelSource,
    sharing: int,
    compute: bool,
) -> dict[str, Any] | None:
    placed = [(row, _coordinates(row, evidence, compute)) for row in rows[:PANELS]]
    shown = [(row, xy) for row, xy in placed if xy is not None]
    if not shown:
        return None
    number = max(len(xy) for _, xy in shown)
    most = min(POINTS, ALL_POINTS // (max(FEW_PANELS, len(shown)) * sharing))
    chosen = np.arange(number)
    if number > most:
        chosen = np.sort(np.random.default_rng(0).choice(number, most, replace=False))
    nodes = NodeLabels((), None, None, number, "")
    with suppress(NoLabels):  # the page is about runs: it can do without
        found = labels.of(group.data, group.data_hash)
        # Runs on several graphs embed the test graphs alone.
        nodes = found if found.num_nodes == number else nodes
    classes, ids = nodes.classes, nodes.ids
    return {
        "split": shown[0][0].split_seed,
        "nodes": number,
        "level": level_of(shown[0][0].settings),
        "shown": len(chosen),
        "left_out": [row.aggr for row in rows[PANELS:]],
        "alike": len(nodes.class_names) > STYLES,
        "number": chosen.tolist(),
        "ids": None if ids is None else [str(name) for name in ids[chosen]],
        "classes": None if classes is None else classes[chosen].astype(int).tolist(),
        "class_names": [str(name) for name in nodes.class_names],
        "panels": [
            {
                "colour": group.colour(row.aggr),
                **_panel(row, xy, chosen, classes, evidence, compute),
            }
            for row, xy in shown
            if len(xy) == number
        ],
    }


def _coordinates(row: Row, evidence: Evidence, compute: bool) -> np.ndarray | None:
    found = coordinates_of(evidence.derived, row.key)
    if found is None and compute:
        return coordinates_of(evidence.derived, row.key, evidence.embedding(row.key))
    return found


def _score(row: Row) -> str | None:
    r"""The score of test nodes in words."""
    score = row.metrics.get("test_score")
    return None if score is None else shown_metric([row]).text(score, 1).replace("-", "−")


def _panel(
    row: Row,
    xy: np.ndarray,
    chosen: np.ndarray,
    classes: np.ndarray | None,
    evidence: Evidence,
    compute: bool,
) -> dict[str, Any]:
    low, high = xy.min(axis=0), xy.max(axis=0)
    size = float((high - low).max()) or 1.0  # one scale for both axes: distances keep their meaning
    points = ((xy[chosen] - (low + high) / 2) / size + 0.5) * SCALE
    x, y = points.round().astype(int).T.tolist()
    predicted, score = evidence.array(row.key, "prediction"), math.nan
    if predicted is not None and (predicted.shape != (len(xy),) or predicted.dtype.kind == "f"):
        predicted = None  # several labels, numbers, or other nodes
    if classes is not None:
        embedding = evidence.array(row.key, "embedding") if compute else None
        score = silhouette_of(evidence.derived, row.key, classes, embedding)
    return {
        "aggr": row.aggr,
        "score": _score(row),
        "x": x,
        "y": y,
        "predicted": None if predicted is None else predicted[chosen].astype(int).tolist(),
        "silhouette": json_safe(score),
    }
