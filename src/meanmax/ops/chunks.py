r"""Cuts a set of rows so that what is formed per edge and channel stays small."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from meanmax.graph import Graph

MINIMUM_BUDGET = 1 << 16


class Chunk(NamedTuple):
    r"""Some rows and some channels.

    Args:
        rows (Tensor): The rows, ascending.
        edges (Tensor): Their edges' positions in CSR order.
        target (Tensor): The position in :obj:`rows` of each edge's row.
        channels (slice): The channels.
    """

    rows: Tensor
    edges: Tensor
    target: Tensor
    channels: slice


def chunk_rows(graph: Graph, rows: Tensor, channels: int, budget: int) -> Iterator[Chunk]:
    r"""Yields chunks with at most about :obj:`budget` numbers per edge tensor.

    Rows come in groups of at most :obj:`budget / channels` edges; a row with more edges than that
    is alone in its group and cut by channels.
    """
    begin = graph.rowptr.long()[rows]
    degree = graph.rowptr.long()[rows + 1] - begin
    most = max(budget // max(channels, 1), 1)
    group = (degree.cumsum(0) - degree) // most
    for size in torch.unique_consecutive(group, return_counts=True)[1].tolist():
        here, rows = rows[:size], rows[size:]
        counts, degree = degree[:size], degree[size:]
        first, begin = begin[:size], begin[size:]
        num_edges = int(counts.sum())
        if num_edges == 0:
            continue
        target = torch.arange(size, device=here.device).repeat_interleave(counts)
        offset = (first - (counts.cumsum(0) - counts))[target]
        edges = torch.arange(num_edges, device=here.device) + offset
        width = max(min(channels, budget // num_edges), 1)
        for start in range(0, channels, width):
            yield Chunk(here, edges, target, slice(start, min(start + width, channels)))


def budget_of(x: Tensor) -> int:
    r"""How many numbers an edge tensor may hold: as many as the features, or a few."""
    return max(x.numel(), MINIMUM_BUDGET)


def head_of_channel(channels: int, heads: int, device: torch.device) -> Tensor:
    r"""The weight head of every channel."""
    return torch.arange(channels, device=device) // (channels // heads)
