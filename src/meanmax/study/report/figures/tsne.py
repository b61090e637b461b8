r"""Hidden embeddings in the plane."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from meanmax.data import DataError, fingerprint, load
from meanmax.study.report.evidence import Evidence, good
from meanmax.study.report.figures import style
from meanmax.study.report.figures.request import FigureRequest, NothingToShow
from meanmax.study.report.tsne import Layout, judged, placed
from meanmax.study.runs.row import Row
from meanmax.study.stats.cells import Selected


def classes_of(
    row: Row, *, source: str | None = None, data_dir: Path | None = None
) -> tuple[np.ndarray, tuple[str, ...]]:
    r"""The class of each node, -1 for none, and the names of classes.

    They are read from the data, which must be those that the run was made on; nothing is
    downloaded.

    Args:
        row (Row): The run.
        source (str, optional): The path of a person's own graph. (default: the name of the data)
        data_dir (Path, optional): A folder to look in first. (default: :obj:`None`)
    """
    source = source or row.data
    try:
        dataset = load(source, data_dir=data_dir, download=False)
    except (DataError, OSError) as error:
        raise NothingToShow(
            f"the classes of '{row.data}' are not at hand: fetch the data with 'meanmax data fetch "
            f"{row.data}', or give --data the path of your own graph ({str(error).splitlines()[0]})"
        ) from error
    if dataset.task != "multiclass" or dataset.num_graphs > 1:
        raise NothingToShow(
            f"t-SNE is coloured by class, and '{row.data}' is several graphs or has several labels "
            f"for a node: choose other --data"
        )
    if fingerprint(dataset)[: len(row.data_hash)] != row.data_hash:
        raise NothingToShow(
            f"the data at '{source}' are not those that the runs on '{row.data}' were made on: "
            f"give their place with --data-dir, or make the runs again"
        )
    return dataset.y.numpy(), dataset.class_names


BACKBONE, DATA = "gcn", "photo"
MARKERS = ("o", "^", "s", "v", "D", "P", "X")
NAMED = 20
r"""So many classes at most are in the legend."""


def tsne(evidence: Evidence, asked: FigureRequest | None = None) -> Figure:
    r"""2-D t-SNE of the last hidden embedding of a backbone and its variants: the same split, seed
    and settings for all, coloured by class, with the silhouette score of the embedding itself and
    the test score under each panel.

    Coordinates are kept in the store and computed once.

    Args:
        evidence (Evidence): A store with the embeddings of the runs.
        asked (FigureRequest, optional): One backbone and one data set; for a graph of one's own
            with its source. (default: GCN on Photo)
    """
    asked = asked or FigureRequest()
    backbone, data = (asked.backbones or (BACKBONE,))[0], (asked.data or (DATA,))[0]
    chosen = asked.selected(evidence, data)
    split, ready = _fullest_split(evidence, chosen, backbone, asked.aggrs)
    if not ready:
        why = "" if evidence.folder else " (an exported file holds none: name the store's folder)"
        more = ["--splits", "1", *asked.artefacts(evidence, [data], backbone)]
        raise NothingToShow(
            f"there are no embeddings of {style.backbone_name(backbone)} on {data} with "
            f"{asked.what}{why}; "
            f"{asked.remedy(evidence, [data], [backbone], *more)}"
        )
    row = next(row for row, _ in ready.values())
    y, names = classes_of(row, source=asked.sources.get(data), data_dir=asked.data_dir)
    figure, grid = style.panels(len(asked.aggrs), columns=2, width=3.1, height=3.0)
    for axes, aggr in zip(grid, asked.aggrs, strict=True):
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
        axes.set_title(style.look_of(aggr).label, fontsize=style.SIZE)
        if aggr in ready:
            _panel(axes, evidence, *ready[aggr], y, len(names))
        else:
            style.absent(axes, "no run yet")
    drawn, columns = _legend(names) if len(names) <= NAMED else ([], 1)
    told = "Numbers stand at the middle of a class."
    if len(names) > NAMED:
        told = f"{len(names)} classes, too many to name; some share colour and marker."
    layout = Layout()
    style.heading(
        figure,
        f"{style.backbone_name(backbone)} on {style.data_name(data)}: t-SNE of hidden embeddings",
        f"One run each: split {split}, seed {row.seed}, {asked.what}. n = {len(y):,} nodes. "
        f"Perplexity {layout.perplexity:g}, {layout.iterations} iterations, from principal "
        f"components. Silhouette: of the classes in the hidden embedding "
        f"itself, from −1 to 1, higher is more compact. {told}",
        drawn,
        columns=columns,
    )
    return figure


Embedded = dict[str, tuple[Row, np.ndarray]]
r"""A run and its embedding for each aggregator."""


def _fullest_split(
    evidence: Evidence, chosen: Selected, backbone: str, aggrs: tuple[str, ...]
) -> tuple[int, Embedded]:
    r"""The first of the splits on which most of the methods have an embedding."""
    rows = {aggr: good(chosen, backbone, aggr) for aggr in aggrs}
    best: tuple[int, Embedded] = (0, {})
    for split in sorted({row.split_seed for own in rows.values() for row in own}):
        found: Embedded = {}
        for aggr, own in rows.items():
            for row in (row for row in own if row.split_seed == split):
                array = _embedding(evidence, row)
                if array is not None:
                    found[aggr] = (row, array)
        if len(found) > len(best[1]):
            best = (split, found)
        if len(found) == len(aggrs):
            break
    return best


def _panel(
    axes: Axes, evidence: Evidence, row: Row, embedding: np.ndarray, y: np.ndarray, count: int
) -> None:
    points = placed(evidence.derived, row.key, embedding)
    colours, markers = _styles(count)
    bare = y < 0
    size = 2.5 if len(y) > 2000 else 6 if len(y) > 500 else 14
    axes.scatter(points[bare, 0], points[bare, 1], s=1, color="0.8", linewidths=0, rasterized=True)
    # One class after another would hide the first ones: all of a marker in an order of chance.
    order = np.random.default_rng(0).permutation(np.flatnonzero(~bare))
    for marker in dict.fromkeys(markers):
        own = order[[markers[y[node]] == marker for node in order]]
        if own.size:
            axes.scatter(
                points[own, 0],
                points[own, 1],
                s=size,
                c=[colours[y[node]] for node in own],
                marker=marker,
                linewidths=0,
                rasterized=True,
            )
    for label in np.unique(y[~bare]) if count <= NAMED else ():
        x, height = _middle(points[y == label])
        axes.text(
            x,
            height,
            f"{label + 1}",
            fontsize=style.SIZE - 1,
            ha="center",
            va="center",
            bbox={"boxstyle": "round,pad=0.12", "fc": "white", "ec": "none", "alpha": 0.75},
        )
    axes.set_aspect("equal", adjustable="datalim")
    score = judged(evidence.derived, row.key, embedding, y)
    compact = "–" if math.isnan(score) else f"{score:.3f}".replace("-", "−")
    test = row.metrics.get("test_score")
    style.labels(axes, f"silhouette {compact}" + ("" if test is None else f", test {test:.1f} %"))


def _embedding(evidence: Evidence, row: Row) -> np.ndarray | None:
    found = (evidence.artefact(row.key) or {}).get("embedding")
    if found is None:
        return None
    array = found.astype(np.float32)
    return array if np.isfinite(array).all() and len(array) > 3 else None


def _middle(points: np.ndarray) -> np.ndarray:
    r"""The point of a class that is nearest to its median, so that a number stands in its class."""
    middle: np.ndarray = points[((points - np.median(points, axis=0)) ** 2).sum(axis=1).argmin()]
    return middle


def _styles(count: int) -> tuple[list[str], list[str]]:
    r"""A colour and a marker for each class; beyond ten, colours return with another marker."""
    colours = style.OKABE_ITO if count <= len(style.OKABE_ITO) else style.TOL_MUTED
    return (
        [colours[k % len(colours)] for k in range(count)],
        [MARKERS[k // len(colours) % len(MARKERS)] for k in range(count)],
    )


def _legend(names: tuple[str, ...]) -> tuple[list[Line2D], int]:
    r"""A handle for each class, and how many columns of them fit above two panels."""
    listed = [f"{k + 1} {style.plain(name)}"[:32] for k, name in enumerate(names)]
    drawn = [
        Line2D([], [], color=colour, marker=marker, linestyle="none", markersize=4, label=label)
        for colour, marker, label in zip(*_styles(len(names)), listed, strict=True)
    ]
    return drawn, max(1, min(len(drawn), 90 // (max(map(len, listed)) + 6)))
