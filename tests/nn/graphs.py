"""Graphs that layers must not stumble over."""

from __future__ import annotations

import torch
from torch import Tensor

NUM_NODES = 40


def awkward_edges(seed: int = 0) -> Tensor:
    """Directed edges with multiple ones, self-loops (one of them twice) and isolated nodes."""
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, NUM_NODES - 4, (2, 150), generator=generator)
    extra = torch.tensor([[3, 3, 5, 7, 7], [3, 3, 5, 8, 8]])
    return torch.cat([edges, extra], dim=1)


def features(channels: int, seed: int = 1, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(NUM_NODES, channels, generator=generator, dtype=torch.float64).to(dtype)


def edge_weights(edges: Tensor, seed: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(edges.size(1), generator=generator) + 0.1
