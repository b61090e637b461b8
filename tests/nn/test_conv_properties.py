"""What must hold for every layer and aggregator, whatever the graph."""

from __future__ import annotations

import tracemalloc

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from meanmax import Graph, LpAggregation, PolynomialAggregation, SoftmaxAggregation, use_backend
from meanmax.nn import CATConv, GATConv, GCNConv, GENConv, GINConv, Linear, MaskedGCNConv, SAGEConv

CHANNELS, OUT = 4, 6
LAYERS = {
    "gcn": lambda aggr: GCNConv(CHANNELS, OUT, aggr=aggr),
    "masked_gcn": lambda aggr: MaskedGCNConv(CHANNELS, OUT, aggr=aggr),
    "gat": lambda aggr: GATConv(CHANNELS, OUT // 2, 2, aggr=aggr),
    "cat": lambda aggr: CATConv(CHANNELS, OUT // 2, 2, aggr=aggr),
    "sage": lambda aggr: SAGEConv(CHANNELS, OUT, aggr=aggr),
    "sage pool": lambda aggr: SAGEConv(CHANNELS, OUT, aggr=aggr, pool=True),
    "gin": lambda aggr: GINConv(Linear(CHANNELS, OUT), aggr=aggr),
    "gen": lambda aggr: GENConv(CHANNELS, OUT, aggr=aggr),
}
every_layer = pytest.mark.parametrize("name", LAYERS)
every_aggregator = pytest.mark.parametrize("aggr", [None, "lp", "poly", "softmax", "max"])


def layer_of(name, aggr, seed=0):
    torch.manual_seed(seed)
    return LAYERS[name](aggr).double().eval()


def run(layer, x, graph, structure):
    extra = {"structure": structure} if isinstance(layer, CATConv) else {}
    return layer(x, graph, **extra)


def problem(seed, nodes, edges):
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(nodes, (2, edges), generator=generator)
    weight = torch.rand(edges, generator=generator, dtype=torch.float64) + 0.1
    x = torch.randn(nodes, CHANNELS, generator=generator, dtype=torch.float64)
    structure = torch.randn(nodes, 3, generator=generator, dtype=torch.float64)
    return index, weight, x, structure


@every_aggregator
@every_layer
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), nodes=st.integers(1, 12), edges=st.integers(0, 40))
def test_backends_agree_and_numbers_of_nodes_do_not_matter(name, aggr, seed, nodes, edges):
    layer = layer_of(name, aggr)
    index, weight, x, structure = problem(seed, nodes, edges)
    graph = Graph.from_edge_index(index, nodes, weight)
    out = run(layer, x, graph, structure)
    assert bool(torch.isfinite(out).all())
    for backend in ("torch", "reference"):
        with use_backend(backend):
            torch.testing.assert_close(run(layer, x, graph, structure), out, rtol=1e-7, atol=1e-9)
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(seed))
    back = torch.argsort(order)
    moved = Graph.from_edge_index(back[index], nodes, weight)
    torch.testing.assert_close(
        run(layer, x[order], moved, structure[order]), out[order], rtol=1e-7, atol=1e-9
    )


@every_aggregator
@every_layer
def test_a_batch_is_its_graphs_side_by_side(name, aggr):
    layer = layer_of(name, aggr)
    if name == "masked_gcn":
        layer.log_variance.data.uniform_(-1, 1)
    parts = [problem(seed, nodes, 4 * nodes) for seed, nodes in ((1, 7), (2, 11))]
    graphs = [Graph.from_edge_index(index, len(x), weight) for index, weight, x, _ in parts]
    alone = [
        run(layer, x, graph, structure)
        for graph, (_, _, x, structure) in zip(graphs, parts, strict=True)
    ]
    x, structure = (torch.cat([part[i] for part in parts]) for i in (2, 3))
    together = run(layer, x, Graph.batch(graphs), structure)
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "start",
    [
        LpAggregation(1.0),
        PolynomialAggregation(0.0, form="sum"),
        SoftmaxAggregation(0.0, form="sum"),
    ],
    ids=["lp", "poly", "softmax"],
)
@every_layer
def test_the_baseline_is_contained(name, start):
    linear, same = layer_of(name, None), layer_of(name, start)
    index, weight, x, structure = problem(3, 15, 60)
    graph = Graph.from_edge_index(index, 15, weight)
    expected = run(linear, x, graph, structure)
    torch.testing.assert_close(run(same, x, graph, structure), expected, rtol=1e-6, atol=1e-6)


@every_aggregator
@pytest.mark.parametrize("make", [GATConv, CATConv])
def test_attention_never_becomes_edges_by_channels(make, aggr):
    nodes, edges, heads, width = 1000, 60_000, 4, 64
    index, _, _, structure = problem(0, nodes, edges)
    graph = Graph.from_edge_index(index, nodes)
    layer = make(8, width, heads, aggr=aggr, dropout=0.5)
    x = torch.randn(nodes, 8)
    for measured in (False, True):
        if measured:
            tracemalloc.start()
        run(layer, x, graph, structure.float()).sum().backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak > edges * heads * 4, "tracemalloc does not see the arrays"
    assert peak < edges * heads * width * 4 / 3


def test_attention_dropout_masks_edges_and_keeps_the_scale():
    torch.manual_seed(0)
    graph = Graph.from_edge_index(torch.stack([torch.arange(4000), torch.zeros(4000).long()]))
    layer = GATConv(1, 1, add_self_loops=False, bias=False, dropout=0.6)
    with torch.no_grad():
        for parameter in (layer.lin.weight, layer.att_src, layer.att_dst):
            parameter.fill_(1.0)
    x = torch.ones(4000, 1)
    kept = torch.stack([layer(x, graph)[0, 0] for _ in range(50)])
    assert float(kept.mean().detach()) == pytest.approx(1.0, abs=0.01)
    assert float(kept.std().detach()) == pytest.approx((0.6 / 0.4 / 4000) ** 0.5, rel=0.4)
    assert float(layer.eval()(x, graph)[0, 0].detach()) == pytest.approx(1.0, rel=1e-4)


@every_layer
def test_autocast_computes_in_float32(name):
    layer = layer_of(name, "softmax").float()
    index, _, x, structure = problem(0, 10, 40)
    graph = Graph.from_edge_index(index, 10)
    expected = run(layer, x.float(), graph, structure.float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = run(layer, x.float(), graph, structure.float())
    torch.testing.assert_close(out.float(), expected, rtol=0.1, atol=0.1)


@every_layer
def test_double_backward_is_refused_or_right(name):
    layer = layer_of(name, "softmax")
    index, _, x, structure = problem(0, 10, 40)
    graph = Graph.from_edge_index(index, 10)
    out = run(layer, x.requires_grad_(), graph, structure)
    (grad,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        grad.sum().backward()
