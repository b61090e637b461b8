"""Graphs that are cut, and the models that run on them."""

import numpy as np
import torch

from meanmax import Graph, build_model
from meanmax.nn.registry import nest_layer_options

BACKBONES = ("gcn", "sage", "gin", "gen", "masked_gcn", "gat")
AGGREGATORS = ("none", "lp", "poly", "softmax", "max")


def power_law(num_nodes: int = 300, num_edges: int = 1500, seed: int = 0) -> Graph:
    """A directed graph with hubs, self-loops, double edges and isolated nodes."""
    rng = np.random.default_rng(seed)
    weight = 1 / np.arange(1, num_nodes + 1)
    reached = num_nodes * 9 // 10  # the others have no edge at all
    chance = weight[:reached] / weight[:reached].sum()
    order = rng.permutation(num_nodes)
    ends = order[rng.choice(reached, (2, num_edges), p=chance)]
    return Graph.from_edge_index(torch.from_numpy(ends), num_nodes)


def model_for(backbone: str, aggr: str, x, classes: int, **options) -> torch.nn.Module:
    torch.manual_seed(0)
    heads = {"heads": 2} if backbone == "gat" else {}
    model = build_model(
        backbone, aggr, x.size(1), 8, classes, dropout=0.0, **heads, **nest_layer_options(options)
    )
    return model.to(x.dtype)
