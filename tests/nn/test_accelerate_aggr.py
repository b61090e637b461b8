"""Accelerated layers with an aggregator of ours: the paper's formula, in the form of the layer."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
import torch_geometric.nn as pyg
from torch.nn import Linear
from torch_geometric.nn.conv.gcn_conv import gcn_norm

import meanmax
from meanmax import Graph, LpAggregation, SoftmaxAggregation, functional
from meanmax.nn import GATConv, GCNConv, GINConv, SAGEConv, accelerated
from tests.nn.accelerated import CHANNELS, example
from tests.nn.graphs import NUM_NODES, edge_weights

OUT = 4
LAYERS = {
    "gcn": lambda: pyg.GCNConv(CHANNELS, OUT),
    "gat": lambda: pyg.GATConv(CHANNELS, OUT, 2),
    "sage": lambda: pyg.SAGEConv(CHANNELS, OUT),
    "sage sum": lambda: pyg.SAGEConv(CHANNELS, OUT, aggr="sum"),
    "gin": lambda: pyg.GINConv(Linear(CHANNELS, OUT)),
    "graph": lambda: pyg.GraphConv(CHANNELS, OUT),
    "graph mean": lambda: pyg.GraphConv(CHANNELS, OUT, aggr="mean"),
    "gen": lambda: pyg.GENConv(CHANNELS, OUT),
}
OURS = {
    "gcn": lambda aggr: GCNConv(CHANNELS, OUT, aggr=aggr),
    "gat": lambda aggr: GATConv(CHANNELS, OUT, 2, aggr=aggr),
    "sage": lambda aggr: SAGEConv(CHANNELS, OUT, aggr=aggr),
    "gin": lambda aggr: GINConv(Linear(CHANNELS, OUT), aggr=aggr),
}
SUMS = ("gcn", "gat", "sage sum", "gin", "graph")
ZERO = {"softmax": 0.0, "poly": 0.0, "lp": 1.0}


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def fill(layer, value):
    with torch.no_grad():
        layer.aggr_module.raw.fill_(value)


@pytest.mark.parametrize("aggr", ZERO)
@pytest.mark.parametrize("name", LAYERS)
def test_form_of_each_layer(name, aggr):
    layer = meanmax.accelerate(LAYERS[name](), aggr=aggr)
    if aggr != "lp":
        assert layer.aggr_module.form == ("sum" if name in SUMS else "weighted")
    assert layer.aggr_module.per == ("head" if name == "gat" else "layer")


@pytest.mark.parametrize("aggr", ZERO)
@pytest.mark.parametrize("name", [*SUMS, "sage", "graph mean"])
def test_it_contains_the_layer_itself(name, aggr):
    """At theta = 0, or p = 1, nothing has changed."""
    (x, edges), plain = example(), LAYERS[name]()
    fast = meanmax.accelerate(copy.deepcopy(plain), aggr=aggr)
    fill(fast, ZERO[aggr])
    torch.testing.assert_close(fast(x, edges), plain(x, edges), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("aggr", ZERO)
@pytest.mark.parametrize("name", OURS)
def test_equal_to_our_layers(name, aggr):
    fast = meanmax.accelerate(LAYERS[name](), aggr=aggr)
    fill(fast, 1.7)
    layer = OURS[name](copy.deepcopy(fast.aggr_module))
    state = {key: value for key, value in fast.state_dict().items() if "aggr" not in key}
    layer.load_state_dict(state, strict=False)
    with torch.no_grad():
        layer.aggr.learned.raw.fill_(1.7)
    found, expected = fast(*example()), layer(*example())
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    found.square().sum().backward()
    expected.square().sum().backward()
    learned = layer.aggr.learned.raw.grad
    torch.testing.assert_close(fast.aggr_module.raw.grad, learned, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("learned", [False, True])
def test_edge_weights_are_weights_not_factors(learned):
    (x, edges), layer = example(), meanmax.accelerate(LAYERS["graph"](), aggr="softmax")
    weight = edge_weights(edges).requires_grad_(learned)
    graph = Graph.from_edge_index(edges, NUM_NODES, weight)
    h = functional.softmax(x, graph, 1.0, form="sum")
    expected = layer.lin_rel(h) + layer.lin_root(x)
    torch.testing.assert_close(layer(x, edges, weight), expected, rtol=1e-5, atol=1e-5)
    if learned:
        (found,) = torch.autograd.grad(layer(x, edges, weight).square().sum(), weight)
        (truth,) = torch.autograd.grad(expected.square().sum(), weight)
        torch.testing.assert_close(found, truth, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="must not be negative"):
        layer(x, edges, (weight - 2).detach())


def test_gcn_aggregates_over_its_normalised_weights():
    (x, edges), layer = example(), pyg.GCNConv(CHANNELS, OUT, improved=True, cached=True)
    meanmax.accelerate(layer, aggr="softmax")
    index, weight = gcn_norm(edges, None, NUM_NODES, improved=True)
    graph = Graph.from_edge_index(index, NUM_NODES, weight)
    expected = functional.softmax(layer.lin(x), graph, 1.0, form="sum") + layer.bias
    for _ in range(2):
        torch.testing.assert_close(layer(x, edges), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_restoring_brings_the_aggregation_back(name):
    (x, edges), plain = example(), LAYERS[name]()
    keys, shown = list(plain.state_dict()), repr(plain)
    fast = meanmax.accelerate(copy.deepcopy(plain), aggr="poly")
    assert "aggr_module.raw" in fast.state_dict()
    assert not torch.allclose(fast(x, edges), plain(x, edges))
    for model in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast)), fast):
        torch.testing.assert_close(model(x, edges), fast(x, edges))
        meanmax.restore(model)
        assert list(model.state_dict()) == keys and repr(model) == shown
        torch.testing.assert_close(model(x, edges), plain(x, edges))


def test_the_same_again_keeps_what_was_learned():
    model = meanmax.accelerate(meanmax.accelerate(LAYERS["sage"]()), aggr="softmax")
    fill(model, 3.0)
    assert meanmax.accelerate(model, aggr="softmax").aggr_module.value.item() == 3.0
    assert meanmax.accelerate(model).aggr_module.value.item() == 3.0
    other = meanmax.accelerate(model, aggr="lp").aggr_module
    assert isinstance(other, LpAggregation) and other.value.item() == 2.0


def test_an_aggregator_is_copied_and_keeps_its_form():
    model, given = pyg.GCN(CHANNELS, 8, 2, OUT), SoftmaxAggregation(0.5, learn=False)
    meanmax.accelerate(model, aggr=given)
    found = [conv.aggr_module for conv in model.convs]
    assert [repr(aggr) for aggr in found] == [repr(given)] * 2
    assert len({id(aggr) for aggr in [given, *found]}) == 3
    assert "SoftmaxAggregation(gamma=0.5" in accelerated(model)[0].by


@pytest.mark.parametrize("name", LAYERS)
def test_spread_has_a_parameter_for_each_channel(name):
    layer = meanmax.accelerate(LAYERS[name](), aggr="spread")
    assert layer(*example()).isfinite().all()


def test_layers_that_pyg_cannot_weight_are_replaced_too():
    (x, edges), layer = example(), pyg.GCNConv(CHANNELS, OUT, aggr="max")
    assert "aggr=" in accelerated(layer)[0].reason
    meanmax.accelerate(layer, aggr="softmax")
    assert layer.aggr_module.form == "weighted" and layer(x, edges).isfinite().all()


def test_what_needs_pygs_aggregation_is_refused():
    (x, edges), layer = example(), meanmax.accelerate(LAYERS["gat"](), aggr="softmax")
    with pytest.raises(ValueError, match=r"GATConv aggregates with .* meanmax.restore"):
        layer(x, edges, return_attention_weights=True)
    with pytest.raises(ValueError, match=r"'aggr' must be one of 'lp', .*got 'median'"):
        meanmax.accelerate(LAYERS["gcn"](), aggr="median")


def test_modes_and_types():
    (x, edges), layer = example(), meanmax.accelerate(LAYERS["gcn"]().eval(), aggr="softmax")
    assert not layer.aggr_module.training
    expected = layer(x, edges)
    double = layer.double()(x.double(), edges)
    torch.testing.assert_close(double, expected.double(), rtol=1e-4, atol=1e-5)
    restored = meanmax.restore(layer)
    assert restored(x.double(), edges).dtype == torch.float64


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_compiled_code_aggregates_outside():
    model = meanmax.accelerate(pyg.GCN(CHANNELS, 8, 2, OUT), aggr="softmax")
    torch.compiler.reset()
    compiled = torch.compile(model, backend="eager")
    torch.testing.assert_close(compiled(*example()), model(*example()), rtol=1e-5, atol=1e-5)


def test_spread_needs_to_know_the_channels():
    layer = pyg.SAGEConv(-1, OUT)
    with pytest.raises(ValueError, match=r"SAGEConv\(-1, 4.*call the model once"):
        meanmax.accelerate(layer, aggr="spread")
    layer(*example())
    assert meanmax.accelerate(layer, aggr="spread").aggr_module.raw.numel() == CHANNELS


@pytest.mark.parametrize("aggr", ZERO)
@pytest.mark.parametrize("name", ["gcn", "gat", "sage"])
def test_low_precision(name, aggr):
    (x, edges), layer = example(), meanmax.accelerate(LAYERS[name](), aggr=aggr)
    expected = layer(x, edges)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = layer(x, edges)
    torch.testing.assert_close(found.float(), expected, rtol=0.05, atol=0.05)
    found = layer.bfloat16()(x.bfloat16(), edges)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, rtol=0.05, atol=0.1)
    found.float().square().sum().backward()
    assert layer.aggr_module.raw.grad.isfinite().all()


def test_features_that_are_not_finite():
    (x, edges), layer = example(), meanmax.accelerate(LAYERS["gat"](), aggr="softmax")
    x[3, 2] = float("nan")
    with pytest.raises(ValueError, match="'x' must be finite"):
        layer(x, edges)
