"""Accelerated layers give PyG's outputs and gradients, or run PyG's code."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
import torch_geometric.nn as pyg
from torch.nn import BatchNorm1d, Linear, ReLU, Sequential
from torch_geometric import EdgeIndex
from torch_geometric.nn import aggr as pyg_aggr

import meanmax
from meanmax import SoftmaxAggregation
from meanmax.nn.acceleration import messages_of
from tests.nn.accelerated import CHANNELS, assert_same, example
from tests.nn.graphs import NUM_NODES, awkward_edges, edge_weights, features

OUT = 4


def mlp(hidden: int) -> Sequential:
    return Sequential(Linear(CHANNELS, hidden), BatchNorm1d(hidden), ReLU(), Linear(hidden, OUT))


gcn, gat = partial(pyg.GCNConv, CHANNELS, OUT), partial(pyg.GATConv, CHANNELS, OUT)
sage, graph = partial(pyg.SAGEConv, CHANNELS, OUT), partial(pyg.GraphConv, CHANNELS, OUT)
gen = partial(pyg.GENConv, CHANNELS, OUT)
LAYERS = {
    "gcn": gcn,
    "gcn improved": partial(gcn, improved=True),
    "gcn without loops": partial(gcn, add_self_loops=False, bias=False),
    "gcn unnormalised": partial(gcn, normalize=False),
    "gcn cached": partial(gcn, cached=True),
    "gcn mean": partial(gcn, aggr="mean"),
    "gat": gat,
    "gat heads": partial(gat, heads=3, negative_slope=0.5),
    "gat averaged, residual": partial(gat, heads=3, concat=False, residual=True, bias=False),
    "gat without loops": partial(gat, heads=2, add_self_loops=False),
    "gat mean": partial(gat, heads=2, aggr="mean"),
    "gat of two maps": lambda: pyg.GATConv((CHANNELS, CHANNELS), OUT, 2),
    "sage": sage,
    "sage wide": lambda: pyg.SAGEConv(CHANNELS, CHANNELS + 2),
    "sage sum, project": partial(sage, aggr="sum", project=True),
    "sage max, normalised": partial(sage, aggr="max", normalize=True),
    "sage without root": partial(sage, root_weight=False, bias=False, normalize=True),
    "sage softmax": lambda: sage(aggr=pyg_aggr.SoftmaxAggregation(0.5, learn=True)),
    "sage softmax below 0": lambda: sage(aggr=pyg_aggr.SoftmaxAggregation(-0.7, learn=True)),
    "sage softmax of channels": lambda: sage(
        aggr=pyg_aggr.SoftmaxAggregation(0.5, learn=True, channels=CHANNELS)
    ),
    "sage power mean": partial(sage, aggr="powermean"),
    "sage power mean of channels": lambda: sage(
        aggr=pyg_aggr.PowerMeanAggregation(2.0, learn=True, channels=CHANNELS)
    ),
    "sage power mean clamped": lambda: sage(
        aggr=pyg_aggr.PowerMeanAggregation(3.0, clamp_min=0.1, clamp_max=0.9)
    ),
    "sage with ours": lambda: sage(aggr=SoftmaxAggregation(1.5)),
    "gin narrow": lambda: pyg.GINConv(mlp(3), train_eps=True),
    "gin wide": lambda: pyg.GINConv(mlp(9), eps=0.3),
    "gin mean": lambda: pyg.GINConv(pyg.MLP([CHANNELS, 3, OUT]), aggr="mean"),
    "gin max": lambda: pyg.GINConv(pyg.MLP([CHANNELS, 3, OUT]), aggr="max"),
    "graph": graph,
    "graph wide": lambda: pyg.GraphConv(CHANNELS, CHANNELS + 1),
    "graph mean": partial(graph, aggr="mean"),
    "graph max": partial(graph, aggr="max"),
    "gen": gen,
    "gen learned": partial(gen, t=0.3, learn_t=True, msg_norm=True, learn_msg_scale=True),
    "gen power mean": partial(gen, aggr="powermean", p=2.0, learn_p=True, norm="layer"),
    "gen sum": partial(gen, aggr="add", num_layers=3, bias=True),
    "gen mean of equal width": lambda: pyg.GENConv(CHANNELS, CHANNELS, aggr="mean"),
    "gen max": partial(gen, aggr="max"),
    "appnp": lambda: pyg.APPNP(3, 0.1),
    "sgc": lambda: pyg.SGConv(CHANNELS, OUT, K=2),
    "tag": lambda: pyg.TAGConv(CHANNELS, OUT, K=2),
}
TAKES_WEIGHTS = [
    name for name in LAYERS if name.startswith(("gcn", "graph", "appnp", "sgc", "tag"))
]
TAKES_PAIRS = [name for name in LAYERS if name.startswith(("gat", "sage", "gin", "graph", "gen"))]


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name):
    assert_same(LAYERS[name](), *example())


@pytest.mark.parametrize("name", LAYERS)
def test_layer_in_float64(name):
    assert_same(LAYERS[name]().double(), *example(torch.float64), tolerance=1e-9)


@pytest.mark.parametrize("name", TAKES_WEIGHTS)
@pytest.mark.parametrize("learned", [False, True])
def test_edge_weights(name, learned):
    (x, edges), layer = example(), LAYERS[name]()
    weight = edge_weights(edges)
    if learned and name != "gcn cached":  # PyG keeps the graph of the first backward pass
        assert_same(layer, x, edges, weight)
    plain, fast = layer, meanmax.accelerate(copy.deepcopy(layer))
    for _ in range(2):
        torch.testing.assert_close(fast(x, edges, weight), plain(x, edges, weight))


@pytest.mark.parametrize("name", ["gcn unnormalised", "gcn", "appnp"])
def test_edge_weights_of_another_precision(name):
    (x, edges), layer = example(), LAYERS[name]()
    fast = meanmax.accelerate(copy.deepcopy(layer))
    weight = edge_weights(edges).double()
    expected, found = layer(x, edges, weight), fast(x, edges, weight)
    assert expected.dtype == found.dtype == torch.float64
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert_same(layer.double(), x.double(), edges, weight.float())


@pytest.mark.parametrize("name", ["gcn unnormalised", "graph", "graph mean"])
def test_negative_edge_weights(name):
    x, edges = example()
    assert_same(LAYERS[name](), x, edges, edge_weights(edges) - 0.6)


@pytest.mark.parametrize("name", TAKES_PAIRS)
@pytest.mark.parametrize("without_targets", [False, True])
def test_bipartite(name, without_targets):
    x, _ = example()
    edges = torch.tensor([[0, 1, 2, 9, 9, 1], [0, 0, 3, 3, 3, 1]])
    wide = "two maps" in name
    target = None if without_targets else features(CHANNELS, seed=5)[:4]
    if without_targets and (wide or name in ("gen learned",) or name.startswith("gat")):
        pytest.skip("PyG's layer needs targets, or as many nodes")
    assert_same(LAYERS[name](), (x[:10], target), edges, size=(10, 4))


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("edges", [torch.empty(2, 0, dtype=torch.long), torch.tensor([[2], [1]])])
def test_few_edges(name, edges):
    assert_same(LAYERS[name](), features(CHANNELS)[:5], edges)


@pytest.mark.parametrize("name", ["gcn", "gat", "sage", "gin narrow", "graph", "gen"])
def test_without_nodes(name):
    layer = LAYERS[name]().eval()
    fast = meanmax.accelerate(copy.deepcopy(layer))
    empty = torch.empty(0, CHANNELS), torch.empty(2, 0, dtype=torch.long)
    assert fast(*empty).shape == layer(*empty).shape == (0, OUT)


@pytest.mark.parametrize("zeros", [False, True])
def test_ties_of_the_maximum_share_as_in_pyg(zeros):
    x, edges = example()
    x = torch.relu(x.round()) if zeros else x.round()
    assert_same(LAYERS["sage max, normalised"](), x, edges)


@pytest.mark.parametrize("name", ["gcn", "gat", "sage", "sage max, normalised", "gen", "graph max"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_features_that_are_not_finite(name, value):
    (x, edges), layer = example(), LAYERS[name]().eval()
    x[3, 2] = value
    found = meanmax.accelerate(copy.deepcopy(layer))(x, edges)
    torch.testing.assert_close(found, layer(x, edges), equal_nan=True)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
@pytest.mark.filterwarnings("ignore:Sparse CS[RC] tensor support is in beta:UserWarning")
@pytest.mark.parametrize("name", ["gcn", "gat", "sage", "gin narrow", "graph", "gen"])
@pytest.mark.parametrize("form", ["EdgeIndex", "csr", "int32"])
def test_forms_of_a_graph(name, form):
    (x, edges), layer = example(), LAYERS[name]().eval()
    size = (NUM_NODES, NUM_NODES)
    edges = edges.unique(dim=1).contiguous()
    given = {
        "EdgeIndex": lambda: EdgeIndex(edges, sparse_size=size).sort_by("col").values,
        "csr": lambda: torch.sparse_coo_tensor(
            edges.flip(0), torch.ones(edges.size(1)), size
        ).to_sparse_csr(),
        "int32": lambda: edges.int(),
    }[form]()
    fast = meanmax.accelerate(copy.deepcopy(layer))
    try:
        expected = layer(x, given)
    except (NotImplementedError, RuntimeError, ValueError, AssertionError) as error:
        with pytest.raises(type(error)):
            fast(x, given)
        return
    torch.testing.assert_close(fast(x, given), expected, rtol=1e-5, atol=1e-5)


def test_attention_dropout_is_unbiased_and_repeats():
    (x, edges), layer = example(), pyg.GATConv(CHANNELS, OUT, 2, dropout=0.4)
    fast = meanmax.accelerate(copy.deepcopy(layer))
    torch.manual_seed(1)
    first = fast(x, edges)
    torch.manual_seed(1)
    assert torch.equal(fast(x, edges), first)
    mean = torch.stack([fast(x, edges) for _ in range(3000)]).mean(0)
    torch.testing.assert_close(mean, layer.eval()(x, edges), rtol=0, atol=0.06)
    torch.testing.assert_close(fast.eval()(x, edges), layer(x, edges))


def test_attention_weights_and_edge_attributes_are_pygs():
    (x, edges), layer = example(), pyg.GATConv(CHANNELS, OUT, 2, edge_dim=3)
    fast = meanmax.accelerate(copy.deepcopy(layer))
    attributes = torch.rand(edges.size(1), 3)
    torch.testing.assert_close(fast(x, edges, attributes), layer(x, edges, attributes))
    out, (index, alpha) = fast(x, edges, return_attention_weights=True)
    expected = layer(x, edges, return_attention_weights=True)
    assert torch.equal(index, expected[1][0])
    torch.testing.assert_close((out, alpha), (expected[0], expected[1][1]))
    assert_same(LAYERS["gen learned"](), x, edges, torch.rand(edges.size(1), OUT))


def test_hooks_of_messages_and_explanations_see_what_pyg_sends():
    (x, edges), layer = example(), LAYERS["sage"]()
    fast, seen = meanmax.accelerate(copy.deepcopy(layer)), []
    handle = fast.register_message_forward_hook(lambda _, given, out: seen.append(out))
    torch.testing.assert_close(fast(x, edges), layer(x, edges))
    assert seen[0].shape == (edges.size(1), CHANNELS)
    handle.remove()
    for model in (fast, layer):
        model.explain, model._edge_mask = True, torch.linspace(-2, 2, edges.size(1))
    torch.testing.assert_close(fast(x, edges), layer(x, edges))
    for model in (fast, layer):
        model.explain = False
    assert "MessagePassing.propagate" not in repr(fast.propagate)
    torch.testing.assert_close(fast(x, edges), layer(x, edges))
    assert len(seen) == 1
    meanmax.restore(fast)
    torch.testing.assert_close(fast(x, edges), layer(x, edges))


def test_errors_are_pygs():
    x, fast = features(CHANNELS), meanmax.accelerate(LAYERS["sage"]())
    with pytest.raises(IndexError, match="indices in 'edge_index'"):
        fast(x, torch.tensor([[0, NUM_NODES], [1, 1]]))
    with pytest.raises(ValueError, match="bipartite"):
        meanmax.accelerate(LAYERS["gcn"]())((x, x), awkward_edges())


@pytest.mark.parametrize("kind", [pyg_aggr.MaxAggregation, pyg_aggr.SoftmaxAggregation])
@pytest.mark.parametrize("shape", [(900, 12), (700, 4, 5), (20, 3)])
def test_aggregations_alone(kind, shape):
    options = {"learn": True, "t": 0.7} if kind is pyg_aggr.SoftmaxAggregation else {}
    index = torch.randint(0, 50, shape[:1])
    x = torch.randn(shape).mul(2).round() / 2
    fast = assert_same(kind(**options), x, index, dim_size=60, dim=0)
    assert isinstance(fast, kind) and list(fast.state_dict()) == list(kind(**options).state_dict())


def test_aggregations_alone_that_are_as_fast_are_left():
    model = torch.nn.ModuleList([pyg_aggr.SumAggregation(), pyg_aggr.MaxAggregation()])
    left, replaced = meanmax.accelerated(meanmax.accelerate(model))
    assert (left.path, left.kind, left.by) == ("0", "SumAggregation", None)
    assert (replaced.kind, replaced.by) == ("MaxAggregation", "FastMaxAggregation")


def test_half_precision_and_autocast_run_pygs_code():
    (x, edges), layer = example(), LAYERS["gcn"]()
    fast = meanmax.accelerate(copy.deepcopy(layer))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(fast(x, edges), layer(x, edges))
    x = x.bfloat16()
    assert torch.equal(fast.bfloat16()(x, edges), layer.bfloat16()(x, edges))


@pytest.mark.parametrize("name", ["gcn", "sage", "gat"])
def test_no_grad_then_training(name):
    """What inference mode builds is trained with later."""
    (x, edges), layer = example(), LAYERS[name]()
    fast = meanmax.accelerate(copy.deepcopy(layer))
    with torch.inference_mode():
        torch.testing.assert_close(fast(x, edges), layer(x, edges))
    with torch.no_grad():
        assert not fast(x, edges).requires_grad
    assert_same(layer, x, edges, fast=fast)


def test_versions_of_pyg_without_a_layer():
    assert messages_of("NoConvOfThisVersion", "GCNConv") == (pyg.GCNConv.message,)


def test_the_limits_of_the_power_mean_where_pyg_has_no_option_for_them():
    x, edges = example()
    layer = meanmax.accelerate(sage(aggr=pyg_aggr.PowerMeanAggregation(2.0, clamp_min=0.0)))
    expected = layer(x, edges)
    del layer.aggr_module.min_value, layer.aggr_module.max_value  # as in PyG 2.6
    torch.testing.assert_close(layer(x, edges), expected)


@pytest.mark.parametrize("name", ["gcn", "gat", "sage", "graph"])
def test_what_is_changed_after_acceleration_counts(name):
    (x, edges), layer = example(), LAYERS[name]()
    fast = meanmax.accelerate(copy.deepcopy(layer))
    kinds = (pyg_aggr.MedianAggregation, pyg_aggr.MaxAggregation, pyg_aggr.SumAggregation)
    semi = partial(pyg_aggr.SoftmaxAggregation, semi_grad=True)
    for kind in (*kinds, pyg_aggr.MeanAggregation, semi):
        layer.aggr_module, fast.aggr_module = kind(), kind()
        assert_same(layer, x, edges, fast=fast)
    layer.aggr_module, fast.aggr_module = kinds[2](), kinds[2]()
    layer.flow = fast.flow = "target_to_source"
    assert_same(layer, x, edges, fast=fast)
