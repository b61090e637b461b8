r"""Training loss and learned parameters against epoch, and the path from mean to max."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from meanmax.study.report.charts import Band, padded, quartile_band
from meanmax.study.report.evidence import LEARNED, Evidence, completed_runs
from meanmax.study.report.figures import style
from meanmax.study.report.figures.request import FigureRequest
from meanmax.study.report.groups import parameter_name, place_of
from meanmax.study.stats.cells import Selected

NOTE = "Each epoch counts the runs that are still training, until half of them have stopped."
NEIGHBOURS = [-1.0, 0.2, 0.5, 2.0]
LOWEST = -1.5


def losses(evidence: Evidence, request: FigureRequest) -> Figure:
    r"""The training loss of each method, the median over splits with the quartiles as a band."""
    backbone = style.backbone_name(request.backbones[0])
    shown, notes = {}, []
    for name in request.data:
        chosen = request.selected(evidence, name)
        if found := _loss_bands(evidence, request, chosen):
            shown[name] = found
            notes += chosen.notes
    if not shown:
        options = request.artefacts(evidence)
        raise request.missing(evidence, f"training curves of {backbone} on", *options)
    figure, grid = style.panels(len(shown))
    for axes, (name, found) in zip(grid, shown.items(), strict=True):
        for aggr, (_, band) in found.items():
            style.band(axes, aggr, band, alpha=0.18)
        _logarithmic(axes)
        style.title(axes, name, (n for n, _ in found.values()))
        style.labels(axes, "epoch", "training loss" if axes is grid[0] else "")
    style.heading(
        figure,
        f"{backbone}: training loss against epoch, {request.settings}",
        f"Line: median over n splits; band: quartiles. The loss is measured with dropout. {NOTE} "
        + " ".join([*notes, style.missing_note(request.data, shown)]),
        style.handles(a for a in request.aggrs if any(a in found for found in shown.values())),
    )
    return figure


def _loss_bands(
    evidence: Evidence, request: FigureRequest, chosen: Selected
) -> dict[str, tuple[int, Band]]:
    found = {}
    for aggr in request.aggrs:
        rows = completed_runs(chosen, request.backbones[0], aggr)
        runs = [evidence.curves(row.key) for row in rows]
        if curves := [run["train_loss"] for run in runs if "train_loss" in run]:
            found[aggr] = (len(curves), quartile_band(curves))
    return found


def _logarithmic(axes: Axes) -> None:
    r"""Plain numbers at 1, 2 and 5 on a logarithmic y axis, which often spans no power of ten."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def parameter(evidence: Evidence, request: FigureRequest) -> Figure:
    r"""The learned parameters, epoch by epoch: a faint line for each split and their median.
    Where a layer has several values (one for each head or channel), lines are medians over them
    and a band shows from the least to the largest.
    """
    backbone = style.backbone_name(request.backbones[0])
    found = {name: _parameters(evidence, request, name) for name in request.data}
    shown = {name: own for name, own in found.items() if own}
    if not shown:
        why = "" if evidence.folder else " (an exported file holds no parameters by epoch)"
        options = request.artefacts(evidence)
        raise request.missing(evidence, f"learned parameters of {backbone} on", *options, why=why)
    figure, grid = style.panels(len(shown))
    for axes, (name, own) in zip(grid, shown.items(), strict=True):
        layered = len({layer for _, layer, _ in own}) > 1
        for (aggr, _, label), runs in own.items():
            label = label if layered else label.partition(",")[0]
            _draw_parameter(axes, aggr, runs, label, style.SIZE - 1 if layered else style.SIZE + 1)
        style.title(axes, name, map(len, own.values()))
        style.labels(axes, "epoch", "learned parameter")
        axes.margins(x=0.02)
    methods = {aggr for own in shown.values() for aggr, _, _ in own}
    several = any(_has_several(runs) for own in shown.values() for runs in own.values())
    faint = "one split. "
    if several:
        faint = "the median over heads or channels of one split; band: all of them. "
    style.heading(
        figure,
        f"{backbone}: the learned parameter over epochs, {request.settings}",
        f"Faint: {faint}Bold: median over n splits. {NOTE} "
        + style.missing_note(request.data, shown),
        style.handles(a for a in request.aggrs if a in methods),
    )
    return figure


def _has_several(runs: list[np.ndarray]) -> bool:
    return any(run.shape[1] > 1 for run in runs)


def _parameters(
    evidence: Evidence, request: FigureRequest, data: str
) -> dict[tuple[str, float, str], list[np.ndarray]]:
    r"""An array :obj:`[epochs, values]` for each split, by aggregator, layer and name."""
    found: dict[tuple[str, float, str], list[np.ndarray]] = {}
    chosen = request.selected(evidence, data)
    for aggr in request.aggrs:
        for row in completed_runs(chosen, request.backbones[0], aggr):
            for name, values in evidence.curves(row.key).items():
                if name.startswith(LEARNED):
                    name = name.removeprefix(LEARNED)
                    key = (aggr, place_of(name)[0], parameter_name(name))
                    found.setdefault(key, []).append(values.reshape(len(values), -1))
    return dict(sorted(found.items()))


def _draw_parameter(axes: Axes, aggr: str, runs: list[np.ndarray], label: str, size: int) -> None:
    drawn = style.method_style(aggr)
    middles = [np.median(run, axis=1) for run in runs]
    if _has_several(runs):
        longest = max(map(len, runs))
        values = np.concatenate([padded(run, longest) for run in runs], axis=1)
        low, high = np.nanmin(values, axis=1), np.nanmax(values, axis=1)
        epochs = np.arange(1, longest + 1)
        axes.fill_between(epochs, low, high, color=drawn.colour, alpha=0.1, linewidth=0)
    for curve in middles:
        axes.plot(np.arange(1, len(curve) + 1), curve, color=drawn.colour, alpha=0.3, linewidth=0.6)
    bold = quartile_band(middles)
    axes.plot(bold.epoch, bold.middle, drawn.line, color=drawn.colour, linewidth=1.8)
    end = (bold.epoch[-1], bold.middle[-1])
    axes.annotate(label, end, (3, 3), textcoords="offset points", color=drawn.colour, size=size)


def path(evidence: Evidence | None = None, request: FigureRequest | None = None) -> Figure:
    r"""Three aggregates of four neighbours with equal weights, which rise from their mean to their
    maximum as the parameter grows.
    """
    import torch

    from meanmax.functional import lp, polynomial, softmax
    from meanmax.graph import Graph

    count = len(NEIGHBOURS)
    edges = torch.tensor([list(range(count)), [count] * count])
    graph = Graph.from_edge_index(edges, num_nodes=count + 1, normalize="row")
    # The node itself is no neighbour; its value, below all of them, is the minimum.
    x = torch.tensor([*NEIGHBOURS, LOWEST]).unsqueeze(1)
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    grid = torch.logspace(0, 2, 200)
    for name, rule, lowest, symbol in (
        ("lp", lp, 1.0, "$p$"),
        ("poly", polynomial, 0.0, r"$1 + \alpha$"),
        ("softmax", softmax, 0.0, r"$1 + \gamma$"),
    ):
        label, colour, line, _ = style.method_style(name)
        out = [rule(x, graph, float(t) - 1 + lowest)[-1].item() for t in grid]
        axes.plot(grid, out, line, color=colour, label=f"{label}, {symbol}", linewidth=2)
    for value in NEIGHBOURS:
        axes.plot([0.87], [value], "o", color="0.3", clip_on=False)
    for word, height in (("mean", sum(NEIGHBOURS) / count), ("max", max(NEIGHBOURS))):
        axes.axhline(height, color="0.6", linewidth=1, linestyle=":")
        axes.text(105, height, word, va="center", color="0.3")
    axes.set(xscale="log", xlim=(0.87, 100))
    axes.set_xlabel("parameter (each shifted so that the path begins at 1)")
    axes.set_ylabel("aggregate of the four neighbours (dots)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    return figure
