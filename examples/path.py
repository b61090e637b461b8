r"""Draws the path from mean to max: one neighbourhood, three aggregators, a growing parameter.

Run it as ``python examples/path.py``; it writes docs/path.svg and docs/path.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes

from meanmax import Graph, functional

VALUES = [-1.0, 0.2, 0.5, 2.0]
LOWEST = -1.5
CURVES = [
    ("Lp norm", functional.lp, 1.0, "$p$", "#0072B2", "-"),
    ("polynomial", functional.polynomial, 0.0, r"$1 + \alpha$", "#D55E00", "--"),
    ("softmax", functional.softmax, 0.0, r"$1 + \gamma$", "#009E73", "-."),
]


def neighbourhood() -> tuple[torch.Tensor, Graph]:
    r"""Four neighbours of one node, all of equal weight that sums to one."""
    count = len(VALUES)
    edges = torch.tensor([list(range(count)), [count] * count])
    graph = Graph.from_edge_index(edges, num_nodes=count + 1, normalize="row")
    # The node itself is no neighbour; below all of them, it sets the minimum.
    return torch.tensor([*VALUES, LOWEST]).unsqueeze(1), graph


def draw(axes: Axes) -> None:
    r"""Draws the three curves between the mean and the maximum."""
    x, graph = neighbourhood()
    grid = torch.logspace(0, 2, 200)
    for name, rule, lowest, symbol, colour, style in CURVES:
        out = [rule(x, graph, float(t) - 1 + lowest)[-1].item() for t in grid]
        axes.plot(grid, out, style, color=colour, label=f"{name}, {symbol}", linewidth=2)
    for value in VALUES:
        axes.plot([0.87], [value], "o", color="0.3", clip_on=False)
    ends = {"mean": sum(VALUES) / len(VALUES), "max": max(VALUES)}
    for word, height in ends.items():
        axes.axhline(height, color="0.6", linewidth=1, linestyle=":")
        axes.text(105, height, word, va="center", color="0.3")
    axes.set_xscale("log")
    axes.set_xlim(0.87, 100)
    axes.set_xlabel("parameter (each shifted so that the path begins at 1)")
    axes.set_ylabel("aggregate of the four neighbours (dots)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="center right")


def main() -> None:
    r"""Writes the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder (default: docs)")
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    # With fixed identifiers and no date, the same picture is the same file.
    matplotlib.rcParams["svg.hashsalt"] = "meanmax"
    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    draw(axes)
    figure.savefig(folder / "path.svg", metadata={"Date": None})
    figure.savefig(folder / "path.png", dpi=150)
    print(f"wrote {folder / 'path.svg'} and {folder / 'path.png'}")


if __name__ == "__main__":
    main()
