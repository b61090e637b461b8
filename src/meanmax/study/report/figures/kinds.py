r"""All figures by name, and how many pictures each request comes to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from matplotlib.figure import Figure

from meanmax.study.report.evidence import Evidence
from meanmax.study.report.figures.curves import losses, parameter
from meanmax.study.report.figures.depth import depth
from meanmax.study.report.figures.forest import forest
from meanmax.study.report.figures.maxness import maxness
from meanmax.study.report.figures.path import path
from meanmax.study.report.figures.request import FigureRequest
from meanmax.study.report.figures.tsne import tsne


@dataclass(frozen=True)
class Kind:
    r"""A kind of figure.

    Args:
        what (str): What it shows, in a line.
        draw (callable): Makes a picture.
        backbones (tuple): Those that get a picture each if none is asked for; empty for a figure
            that shows any number of them in one picture.
        data (tuple): For each of these backbones the one data set of its picture; empty for a
            figure that shows any number of data sets.
        needs_runs (bool): Whether it is made from runs.
    """

    what: str
    draw: Callable[[Evidence, FigureRequest], Figure]
    backbones: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    needs_runs: bool = True


FIGURES = {
    "tsne": Kind(
        "2-D t-SNE of hidden embeddings, with silhouette scores",
        tsne,
        ("gcn", "gat"),
        ("photo", "computers"),
    ),
    "losses": Kind("training loss against epoch", losses, ("gcn",)),
    "depth": Kind("accuracy against the number of layers", depth, ("gcn",)),
    "parameter": Kind("the learned parameter over epochs", parameter, ("gcn", "gat")),
    "maxness": Kind("maxness of every layer", maxness, ("gcn", "gat")),
    "forest": Kind("paired differences to the baseline, with intervals", forest),
    "path": Kind("the path from mean to max", path, needs_runs=False),
}
r"""Every figure there is."""


def pictures(name: str, asked: FigureRequest) -> dict[str, FigureRequest]:
    r"""The pictures that a request comes to, by the name of their files without suffix.

    Example:
        >>> list(pictures("tsne", FigureRequest()))
        ['tsne-gcn-photo', 'tsne-gat-computers']
        >>> list(pictures("losses", FigureRequest(data=("cora",), settings_name="tuned")))
        ['losses-gcn-cora-tuned']

    Args:
        name (str): A key of :obj:`FIGURES`.
        asked (FigureRequest): What is to be shown.
    """
    kind = FIGURES[name]
    if not kind.needs_runs:
        return {name: asked}
    if not kind.backbones:
        return {_stem(name, asked): asked}
    if not kind.data:
        single = [replace(asked, backbones=(b,)) for b in asked.backbones or kind.backbones]
        return {_stem(name, one): one for one in single}
    own = dict(zip(kind.backbones, kind.data, strict=True))
    backbones = asked.backbones or (kind.backbones[:1] if asked.data else kind.backbones)
    pairs = [(b, d) for b in backbones for d in asked.data or (own.get(b, kind.data[0]),)]
    single = [replace(asked, backbones=(b,), data=(d,)) for b, d in pairs]
    return {_stem(name, one): one for one in single}


def _stem(name: str, asked: FigureRequest) -> str:
    data = [Path(source).name for source in asked.data]
    words = [name, *asked.backbones, *data]
    words += [asked.settings_name] if asked.settings_name != "published" else []
    words += [f"{setting}={value}" for setting, value in asked.overrides.items()]
    return "-".join(
        "".join(mark if mark.isalnum() or mark in "_=." else "_" for mark in word) for word in words
    )
