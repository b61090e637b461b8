r"""Training loss against epoch."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from meanmax.study.stats.selection import Selected
from meanmax.study.report.evidence import (Evidence, good)
from meanmax.study.report.figures import style
from meanmax.study.report.figures.request import (Asked, NothingToShow)
from meanmax.study.report.figures.bands import (NOTE, Band, band)

DATA = ("cora", "citeseer", "pubmed")
BACKBONE = "gcn"


def losses(evidence: Evidence, asked: Asked | None = None) -> Figure:
    r"""The training loss of each method, the median over splits with the quartiles as a band.

    Args:
        evidence (Evidence): Runs with their curves.
        asked (Asked, optional): One backbone and any data sets.
            (default: GCN on Cora, Citeseer and Pubmed)
    """
    asked = asked or Asked()
    backbone = (asked.backbones or (BACKBONE,))[0]
    data = asked.data or DATA
    shown, notes = {}, []
    for name in data:
        chosen = asked.selected(evidence, name)
        found = _bands(evidence, asked, chosen, backbone)
        if found:
            shown[name] = found
            notes += chosen.notes
    if not shown:
        raise NothingToShow(
            f"there are no training curves of {style.backbone_name(backbone)} on {', '.join(data)} "
            f"with {asked.what}; "
            + asked.remedy(evidence, data, [backbone], *asked.artefacts(evidence, data, backbone))
        )
    figure, grid = style.panels(len(shown))
    for axes, (name, found) in zip(grid, shown.items(), strict=True):
        for aggr, (_, curve) in found.items():
            drawn = style.look_of(aggr)
            axes.fill_between(
                curve.epoch, curve.low, curve.high, color=drawn.colour, alpha=0.18, linewidth=0
            )
            axes.plot(curve.epoch, curve.middle, drawn.line, color=drawn.colour, linewidth=1.4)
        _logarithmic(axes)
        style.title(axes, f"{style.data_name(name)}, {style.count_text(n for n, _ in found.values())}")
        style.labels(axes, "epoch", "training loss" if axes is grid[0] else "")
    missing = [style.data_name(name) for name in data if name not in shown]
    notes += [f"Nothing on {', '.join(missing)} yet."] if missing else []
    style.heading(
        figure,
        f"{style.backbone_name(backbone)}: training loss against epoch, {asked.what}",
        f"Line: median over n splits; band: quartiles. The loss is taken with dropout. {NOTE} "
        + " ".join(notes),
        style.handles(_methods(asked, shown)),
    )
    return figure


def _bands(
    evidence: Evidence, asked: Asked, chosen: Selected, backbone: str
) -> dict[str, tuple[int, Band]]:
    found = {}
    for aggr in asked.aggrs:
        arrays = [evidence.artefact(row.key) for row in good(chosen, backbone, aggr)]
        curves = [own["train_loss"] for own in arrays if own is not None and "train_loss" in own]
        if curves:
            found[aggr] = (len(curves), band(curves))
    return found


def _methods(asked: Asked, shown: dict[str, dict[str, tuple[int, Band]]]) -> list[str]:
    return [aggr for aggr in asked.aggrs if any(aggr in found for found in shown.values())]


def _logarithmic(axes: Axes) -> None:
    r"""Plain numbers at 1, 2 and 5 on a logarithmic y axis, which often spans no power of ten."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
