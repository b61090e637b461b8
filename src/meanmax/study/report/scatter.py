r"""Scatter plots of embeddings for the page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from meanmax.study.report.embeddings import (
    LabelSource,
    Layout,
    NodeLabels,
    NoLabels,
    coordinates_of,
    is_placeable,
    silhouette_of,
)
from meanmax.study.report.evidence import Evidence
from meanmax.study.report.groups import RunGroup
from meanmax.study.runs.row import Row

POINTS = 3000
r"""The largest number of points in a panel."""

ALL_POINTS = 100_000
r"""The largest number of points in all panels of the page together."""

PANELS = 8
r"""The largest number of panels of a comparison."""

FEW_PANELS = 4
r"""A comparison of fewer methods has as many points in each panel as one of this many."""

STYLES = 24
r"""The number of classes with a colour and shape of their own."""

SCALE = 1000
r"""Coordinates are whole numbers up to this."""


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
    folder = evidence.derived
    if folder is None:
        return []
    rows = [row for aggr in group.aggrs for row in group.of(aggr) if row.status == "ok"]
    ready = Counter(
        row.split_seed
        for row in rows
        if Layout().file_of(folder, row.key).exists()
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
    nodes = _labels(group, labels, number)
    most = min(POINTS, ALL_POINTS // (max(FEW_PANELS, len(shown)) * sharing))
    chosen = np.arange(number)
    if number > most:
        chosen = np.sort(np.random.default_rng(0).choice(number, most, replace=False))
    classes = None if nodes is None else nodes.classes
    ids = None if nodes is None else nodes.ids
    names = () if nodes is None else nodes.class_names
    return {
        "split": shown[0][0].split_seed,
        "nodes": number,
        "shown": len(chosen),
        "left_out": [row.aggr for row in rows[PANELS:]],
        "alike": len(names) > STYLES,
        "number": chosen.tolist(),
        "ids": None if ids is None else [str(name) for name in ids[chosen]],
        "classes": None if classes is None else classes[chosen].astype(int).tolist(),
        "class_names": [str(name) for name in names],
        "panels": [
            {
                "aggr": row.aggr,
                "colour": group.colour(row.aggr),
                "score": row.metrics.get("test_score"),
                **_points(xy, chosen),
                "predicted": _predicted(row, evidence, chosen, number),
                "silhouette": _silhouette(row, classes, evidence, compute),
            }
            for row, xy in shown
            if len(xy) == number
        ],
    }


def _labels(group: RunGroup, labels: LabelSource, number: int) -> NodeLabels | None:
    try:
        found = labels.of(group.data, group.data_hash)
    except NoLabels:
        return None  # the page is about runs: it can do without
    # Runs on several graphs embed the test graphs alone.
    return found if found.num_nodes == number else None


def _coordinates(row: Row, evidence: Evidence, compute: bool) -> np.ndarray | None:
    found = coordinates_of(evidence.derived, row.key)
    if found is not None or not compute:
        return found
    embedding = evidence.array(row.key, "embedding")
    if embedding is None or not is_placeable(embedding):
        return None
    return coordinates_of(evidence.derived, row.key, embedding)


def _points(xy: np.ndarray, chosen: np.ndarray) -> dict[str, list[int]]:
    low, high = xy.min(axis=0), xy.max(axis=0)
    size = float((high - low).max()) or 1.0  # one scale for both axes: distances keep their meaning
    points = ((xy[chosen] - (low + high) / 2) / size + 0.5) * SCALE
    x, y = points.round().astype(int).T.tolist()
    return {"x": x, "y": y}


def _predicted(row: Row, evidence: Evidence, chosen: np.ndarray, number: int) -> list[int] | None:
    r"""The predicted classes; :obj:`None` for several labels or other nodes."""
    found = evidence.array(row.key, "prediction")
    if found is None or found.shape != (number,):
        return None
    listed: list[int] = found[chosen].astype(int).tolist()
    return listed


def _silhouette(
    row: Row, classes: np.ndarray | None, evidence: Evidence, compute: bool
) -> float | None:
    r"""The silhouette score of the classes in the embedding itself, if it is known."""
    if classes is None:
        return None
    embedding = evidence.array(row.key, "embedding") if compute else None
    score = silhouette_of(evidence.derived, row.key, classes, embedding)
    return score if math.isfinite(score) else None
