"""Small graphs with everything that is easily got wrong."""

import torch

from meanmax import Graph


def awkward(num_nodes: int = 60, num_edges: int = 300, *, weighted: bool = False, seed: int = 0):
    """Directed, with isolated nodes at both ends, self-loops, some twice, and multiple edges."""
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(3, num_nodes - 3, (2, num_edges), generator=generator)
    loops = torch.tensor([[5, 5, 9, 12], [5, 5, 9, 12]])
    edges = torch.cat([edges, loops, edges[:, :7]], dim=1)
    weight = None
    if weighted:
        weight = 0.1 + torch.rand(edges.size(1), generator=generator)
    return Graph.from_edge_index(edges, num_nodes, weight)


def features(num_nodes: int = 60, channels: int = 12, seed: int = 1):
    return torch.randn(num_nodes, channels, generator=torch.Generator().manual_seed(seed))
