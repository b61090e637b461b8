r"""Hidden embeddings in the plane."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from meanmax.study.report.embeddings import Layout, NoLabels, coordinates_of, silhouette_of
from meanmax.study.report.evidence import Evidence, completed_runs
from meanmax.study.report.figures import style
from meanmax.study.report.figures.request import FigureRequest, NothingToShow
from meanmax.study.runs.row import Row
from meanmax.study.settings.settings import level_of

MARKERS = ("o", "^", "s", "v", "D", "P", "X")
NAMED = 20  # classes in the legend, at most

Embedded = dict[str, tuple[Row, np.ndarray]]  # a run and its embedding for each aggregator


def tsne(evidence: Evidence, request: FigureRequest) -> Figure:
    r"""2-D t-SNE of the last hidden embedding of a backbone and its variants: the same split, seed
    and settings for all, coloured by class, with the silhouette score of the embedding itself and
    the test score under each panel. Coordinates are computed once and cached in the store.
    """
    request = replace(request, backbones=request.backbones[:1], data=request.data[:1])
    backbone, data = style.backbone_name(request.backbones[0]), request.data[0]
    split, ready = _fullest_split(evidence, request)
    if not ready:
        why = "" if evidence.folder else " (an exported file holds none: name the store's folder)"
        options = ["--splits", "1", *request.artefacts(evidence)]
        raise request.missing(evidence, f"embeddings of {backbone} on", *options, why=why)
    row, embedding = next(iter(ready.values()))
    y, names = _classes(request, row, len(embedding))
    figure, grid = style.panels(len(request.aggrs), columns=2, width=3.1, height=3.0)
    for axes, aggr in zip(grid, request.aggrs, strict=True):
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
        axes.set_title(style.method_style(aggr).label, fontsize=style.SIZE)
        if aggr in ready:
            _panel(axes, evidence, *ready[aggr], y, len(names))
        else:
            style.absent(axes, "no run yet")
    drawn, columns = _legend(names) if len(names) <= NAMED else ([], 1)
    numbers = "Numbers mark the middle of a class."
    if len(names) > NAMED:
        numbers = f"{len(names)} classes, too many to name; some share colour and marker."
    layout = Layout()
    style.heading(
        figure,
        f"{backbone} on {style.data_name(data)}: t-SNE of hidden embeddings",
        f"One run each: split {split}, seed {row.seed}, {request.settings}. "
        f"n = {len(y):,} {level_of(row.settings)}s. "
        f"Perplexity {layout.perplexity:g}, {layout.iterations} iterations, initialised with "
        f"principal components. Silhouette: of the classes in the hidden embedding "
        f"itself, from −1 to 1, higher is more compact. {numbers}",
        drawn,
        columns=columns,
    )
    return figure


def _fullest_split(evidence: Evidence, request: FigureRequest) -> tuple[int, Embedded]:
    r"""The first of the splits on which most of the methods have an embedding."""
    chosen = request.selected(evidence, request.data[0])
    rows = {aggr: completed_runs(chosen, request.backbones[0], aggr) for aggr in request.aggrs}
    best: tuple[int, Embedded] = (0, {})
    for split in sorted({row.split_seed for own in rows.values() for row in own}):
        found: Embedded = {}
        for aggr, own in rows.items():
            for row in (row for row in own if row.split_seed == split):
                array = evidence.embedding(row.key)
                if array is not None:
                    found[aggr] = (row, array.astype(np.float32))
        if len(found) > len(best[1]):
            best = (split, found)
        if len(found) == len(request.aggrs):
            break
    return best


def _classes(request: FigureRequest, row: Row, nodes: int) -> tuple[np.ndarray, tuple[str, ...]]:
    r"""The class of each node, -1 for none, and the names of classes."""
    source = request.sources.get(row.data, row.data)
    try:
        found = request.labels.of(row.data, row.data_hash, source)
    except NoLabels as error:
        raise NothingToShow(str(error)) from error
    if found.classes is None or len(found.classes) != nodes:
        raise NothingToShow(
            f"t-SNE is coloured by class, but '{row.data}' consists of several graphs or has "
            f"several labels or a number for a {level_of(row.settings)}: choose other --data"
        )
    return found.classes, found.class_names


def _panel(
    axes: Axes, evidence: Evidence, row: Row, embedding: np.ndarray, y: np.ndarray, count: int
) -> None:
    points = coordinates_of(evidence.derived, row.key, embedding)
    assert points is not None, "there is an embedding"
    colours, markers = _styles(count)
    bare = y < 0
    size = 2.5 if len(y) > 2000 else 6 if len(y) > 500 else 14
    flat: dict[str, Any] = {"linewidths": 0, "rasterized": True}
    axes.scatter(points[bare, 0], points[bare, 1], s=1, color="0.8", **flat)
    # In random order, since drawing one class after another would hide the first ones.
    order = np.random.default_rng(0).permutation(np.flatnonzero(~bare))
    for marker in dict.fromkeys(markers):
        own = order[[markers[y[node]] == marker for node in order]]
        if own.size:
            shown = [colours[y[node]] for node in own]
            axes.scatter(points[own, 0], points[own, 1], size, shown, marker=marker, **flat)
    box = {"boxstyle": "round,pad=0.12", "fc": "white", "ec": "none", "alpha": 0.75}
    text: dict[str, Any] = {"fontsize": style.SIZE - 1, "ha": "center", "va": "center", "bbox": box}
    for label in np.unique(y[~bare]) if count <= NAMED else ():
        # At the point nearest to the median, so that the number is inside its class.
        own = points[y == label]
        x, height = own[((own - np.median(own, axis=0)) ** 2).sum(axis=1).argmin()]
        axes.text(x, height, f"{label + 1}", **text)
    axes.set_aspect("equal", adjustable="datalim")
    score = silhouette_of(evidence.derived, row.key, y, embedding)
    compact = "–" if math.isnan(score) else f"{score:.3f}".replace("-", "−")
    test = row.metrics.get("test_score")
    style.labels(axes, f"silhouette {compact}" + ("" if test is None else f", test {test:.1f} %"))


def _styles(count: int) -> tuple[list[str], list[str]]:
    r"""A colour and a marker for each class; beyond ten, colours repeat with another marker."""
    colours = style.OKABE_ITO if count <= len(style.OKABE_ITO) else style.TOL
    return (
        [colours[k % len(colours)] for k in range(count)],
        [MARKERS[k // len(colours) % len(MARKERS)] for k in range(count)],
    )


def _legend(names: tuple[str, ...]) -> tuple[list[Line2D], int]:
    r"""A handle for each class, and how many columns of them fit above two panels."""
    listed = [f"{k + 1} {style.escaped(name)}"[:32] for k, name in enumerate(names)]
    drawn = [
        style.handle(label, color=colour, marker=marker)
        for colour, marker, label in zip(*_styles(len(names)), listed, strict=True)
    ]
    return drawn, max(1, min(len(drawn), 90 // (max(map(len, listed)) + 6)))
