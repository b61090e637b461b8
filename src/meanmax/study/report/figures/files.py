r"""Figures as files: the same figure is the same file, there as a whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from meanmax.study.store.database import reported
from meanmax.train.whole_file import replacing

FORMATS = ("svg", "png")
DPI = 200


def write_figure(
    figure: Figure, folder: Path, stem: str, formats: Iterable[str] = FORMATS, *, dpi: int = DPI
) -> list[Path]:
    r"""Writes a figure in each format; the files.

    Args:
        figure (Figure): The figure.
        folder (Path): Where to; it is made.
        stem (str): The name of the files without suffix.
        formats (iterable, optional): Out of :obj:`FORMATS`. (default: both)
        dpi (int, optional): Dots to an inch of what is no line: the whole PNG, and the points of
            t-SNE in the SVG. (default: :obj:`200`)
    """
    paths = []
    for kind in formats:
        path = folder / f"{stem}.{kind}"
        metadata = {"Date": None} if kind == "svg" else None
        # Letters stay letters, and identifiers do not change from one run to the next.
        style = matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "meanmax"})
        with reported(path), replacing(path) as temporary, style:
            figure.savefig(temporary, format=kind, dpi=dpi, metadata=metadata)
        paths.append(path)
    return paths
