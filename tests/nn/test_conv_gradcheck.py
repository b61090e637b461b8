"""Every layer, with every aggregator, on every backend."""

from __future__ import annotations

import pytest
import torch

from meanmax import Graph, use_backend
from meanmax.nn import CATConv, GATConv, GCNConv, GENConv, GINConv, Linear, MaskedGCNConv, SAGEConv
from tests.nn.dense import simple_edges

NODES, CHANNELS, OUT = 8, 3, 4
LAYERS = {
    "gcn": lambda aggr: GCNConv(CHANNELS, OUT, aggr=aggr),
    "gcn aggregate-first": lambda aggr: GCNConv(CHANNELS, OUT, aggr=aggr, order="aggregate-first"),
    "masked_gcn": lambda aggr: MaskedGCNConv(CHANNELS, OUT, aggr=aggr),
    "gat": lambda aggr: GATConv(CHANNELS, OUT // 2, 2, aggr=aggr),
    "cat": lambda aggr: CATConv(CHANNELS, OUT // 2, 2, aggr=aggr),
    "cat explicit": lambda aggr: CATConv(CHANNELS, OUT // 2, 2, aggr=aggr, conjunction="explicit"),
    "sage": lambda aggr: SAGEConv(CHANNELS, OUT, aggr=aggr),
    "sage transform-first": lambda aggr: SAGEConv(
        CHANNELS, OUT, aggr=aggr, order="transform-first"
    ),
    "sage pool": lambda aggr: SAGEConv(CHANNELS, OUT, aggr=aggr, pool=True),
    "gin": lambda aggr: GINConv(Linear(CHANNELS, OUT), aggr=aggr, train_eps=True),
    "gen": lambda aggr: GENConv(CHANNELS, OUT, aggr=aggr),
}


@pytest.mark.parametrize("backend", ["numba", "torch", "reference"])
@pytest.mark.parametrize("aggr", [None, "lp", "poly", "softmax", "max"])
@pytest.mark.parametrize("name", LAYERS)
def test_gradients(name, aggr, backend):
    torch.manual_seed(3)
    layer = LAYERS[name](aggr).double().eval()
    edges = torch.cat([simple_edges(NODES), torch.tensor([[0, 0, 1], [1, 1, 1]])], dim=1)
    weight = torch.rand(edges.size(1), dtype=torch.float64) + 0.5
    graph = Graph.from_edge_index(edges, NODES, weight)
    x = torch.randn(NODES, CHANNELS, dtype=torch.float64, requires_grad=True)
    extra = ()
    if isinstance(layer, CATConv):
        extra = (torch.randn(NODES, 2, dtype=torch.float64, requires_grad=True),)
    names = [name for name, _ in layer.named_parameters()]
    values = [parameter.detach().clone().requires_grad_() for parameter in layer.parameters()]

    def run(x, *rest):
        values = dict(zip(names, rest[: len(names)], strict=True))
        given = dict(zip(["structure"], rest[len(names) :], strict=False))
        return torch.func.functional_call(layer, values, (x, graph), given)

    with use_backend(backend):
        assert torch.autograd.gradcheck(run, (x, *values, *extra), fast_mode=True)


@pytest.mark.parametrize("aggr", [None, "lp", "poly", "softmax"])
def test_gradient_of_edge_weights_through_the_normalisation(aggr):
    torch.manual_seed(3)
    layer = GCNConv(CHANNELS, OUT, aggr=aggr).double()
    edges = simple_edges(NODES)
    weight = torch.rand(edges.size(1), dtype=torch.float64) + 0.5
    x, graph = torch.randn(NODES, CHANNELS).double(), Graph.from_edge_index(edges, NODES)
    assert torch.autograd.gradcheck(
        lambda weight: layer(x, graph, weight), weight.requires_grad_(), fast_mode=True
    )
