r"""Figures from stored runs, one to a file."""

from meanmax.study.report.figures.request import (Asked, NothingToShow)
from meanmax.study.report.figures.files import (DPI, FORMATS, write_figure)
from meanmax.study.report.figures.kinds import (FIGURES, Kind, pictures)

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
