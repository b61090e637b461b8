r"""Figures from stored runs."""

from meanmax.study.report.figures.request import (
    DPI,
    FIGURES,
    FORMATS,
    FigureKind,
    FigureRequest,
    NothingToShow,
    pictures,
    write_figure,
)

__all__ = [
    "DPI",
    "FIGURES",
    "FORMATS",
    "FigureKind",
    "FigureRequest",
    "NothingToShow",
    "pictures",
    "write_figure",
]
