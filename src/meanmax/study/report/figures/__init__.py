r"""Figures from stored runs, one to a file."""

from meanmax.study.report.figures.kinds import FIGURES, Kind, pictures
from meanmax.study.report.figures.request import (
    DPI,
    FORMATS,
    FigureRequest,
    NothingToShow,
    write_figure,
)

__all__ = [
    "DPI",
    "FIGURES",
    "FORMATS",
    "FigureRequest",
    "Kind",
    "NothingToShow",
    "pictures",
    "write_figure",
]
