"""A small collection of labelled graphs, for tests of graph-level training."""

from __future__ import annotations

import torch

from meanmax.data import Dataset


def collection(count=60, seed=0, *, numbers=False):
    """Graphs of 1 to 8 nodes. The class of a graph tells which of two channels has its peak; the
    number is the height of the first channel's peak."""
    draw = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, 9, (count,), generator=draw)
    ptr = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    x = torch.randn(int(ptr[-1]), 3, generator=draw)
    y = torch.arange(count) % 2
    peak = 4 + torch.rand(count, generator=draw)
    x[ptr[:-1], y] += peak
    edges = []
    for first, size in zip(ptr.tolist(), sizes.tolist(), strict=False):
        pair = torch.randint(0, size, (2, 2 * size), generator=draw) + first
        edges += [pair, pair.flip(0)]
    target = torch.stack([x[a:b, 0].max() for a, b in zip(ptr[:-1], ptr[1:], strict=True)])
    return Dataset(
        "peaks",
        x,
        target if numbers else y,
        torch.cat(edges, dim=1).unique(dim=1),
        class_names=() if numbers else ("left", "right"),
        graph_ptr=ptr,
        level="graph",
    )
