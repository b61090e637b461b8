r"""Figures from stored runs, one to a file."""

from meanmax.report.figures.asked import Asked, NothingToShow
from meanmax.report.figures.files import DPI, FORMATS, write_figure
from meanmax.report.figures.kinds import FIGURES, Kind, pictures

__all__ = [
    "DPI",
    "FIGURES",
    "FORMATS",
    "Asked",
    "Kind",
    "NothingToShow",
    "pictures",
    "write_figure",
]
