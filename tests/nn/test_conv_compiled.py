"""Layers under torch.compile: one graph, and the numbers of eager code."""

import shutil

import pytest
import torch
from torch.nn import Linear

from meanmax import Graph, SparseFeatures, build_model
from meanmax.nn import CATConv, GATConv, GCNConv, GENConv, GINConv, MaskedGCNConv, Readout, SAGEConv

NODES, EDGES = 9, 24
LAYERS = {
    "gcn": lambda aggr: GCNConv(3, 4, aggr=aggr),
    "masked_gcn": lambda aggr: MaskedGCNConv(3, 4, aggr=aggr, dropout=0.4),
    "gat": lambda aggr: GATConv(3, 4, heads=2, aggr=aggr, dropout=0.4),
    "cat": lambda aggr: CATConv(3, 4, heads=2, aggr=aggr, dropout=0.4),
    "sage": lambda aggr: SAGEConv(3, 4, aggr=aggr),
    "gin": lambda aggr: GINConv(Linear(3, 4), aggr=aggr),
    "gen": lambda aggr: GENConv(3, 4, aggr=aggr, norm="layer"),
}
needs_compiler = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("c++", "g++", "clang++")),
    reason="inductor needs a C++ compiler",
)


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch.compiler.reset()
    torch.manual_seed(0)
    yield
    torch.compiler.reset()


def features(nodes=NODES):
    return torch.randn(nodes, 3, dtype=torch.float64, requires_grad=True)


def edge_index(nodes=NODES, edges=EDGES):
    return torch.randint(nodes, (2, edges))


def assert_same(call, compiled, wanted, seed=0):
    """Outputs and gradients of two functions, with the same dropout."""
    results = []
    for one in (call, compiled):
        torch.manual_seed(seed)
        out = one()
        grads = torch.autograd.grad(out.square().sum(), wanted, allow_unused=True)
        results.append((out, *grads))
    for want, got in zip(*results, strict=True):
        assert (got is None) == (want is None)
        assert got is None or torch.allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("aggr", [None, "lp", "poly", "softmax", "max"])
@pytest.mark.parametrize("name", LAYERS)
def test_graph_and_edge_index(name, aggr):
    conv, x, edges = LAYERS[name](aggr).double(), features(), edge_index()
    graph, extra = Graph.from_edge_index(edges, NODES), {}
    if name == "cat":
        extra = {"structure": torch.randn(NODES, 2, dtype=torch.float64)}

    def both(x, graph, edges):
        return conv(x, graph, **extra) + 2 * conv(x, edges, **extra)

    compiled = torch.compile(both, backend="aot_eager", fullgraph=True)
    arguments = (x, graph, edges)
    wanted = (x, *conv.parameters())
    assert_same(lambda: both(*arguments), lambda: compiled(*arguments), wanted)


@pytest.mark.parametrize("name", ["gcn", "gat"])
def test_weights(name):
    """Of the graph and of the call, learned or not."""
    conv, x, edges = LAYERS[name]("softmax").double(), features(), edge_index()
    weight = torch.rand(EDGES, dtype=torch.float64, requires_grad=True)
    fixed = Graph.from_edge_index(edges, NODES, weight.detach())

    def outputs(x, weight):
        learned = conv(x, fixed, weight) + conv(x, edges, weight)
        return learned + conv(x, fixed) + conv(x, GRAPHS["learned"])

    leaf = fixed.weight.clone().requires_grad_()
    GRAPHS["learned"] = Graph(fixed._structure, leaf)
    compiled = torch.compile(outputs, backend="aot_eager", fullgraph=True)
    wanted = (x, weight, leaf, *conv.parameters())
    assert_same(lambda: outputs(x, weight), lambda: compiled(x, weight), wanted)


GRAPHS = {}


@pytest.mark.parametrize("name", ["sage", "gat"])
def test_different_sources_and_targets(name):
    conv, source, target = LAYERS[name]("lp").double(), features(), features(5)
    edges = torch.stack([torch.randint(NODES, (EDGES,)), torch.randint(5, (EDGES,))])
    compiled = torch.compile(conv, backend="aot_eager", fullgraph=True)
    wanted = (source, target, *conv.parameters())
    for graph in (edges, Graph.from_edge_index(edges, (NODES, 5))):
        pair = (source, target)
        assert_same(lambda: conv(pair, graph), lambda: compiled(pair, graph), wanted)  # noqa: B023


def test_batches_of_changing_size():
    conv = LAYERS["gat"]("poly").double()
    compiled = torch.compile(conv, backend="aot_eager", fullgraph=True)
    for nodes in (9, 12, 15):
        x, edges = features(nodes), edge_index(nodes, 2 * nodes + 1)
        for graph in (edges, Graph.from_edge_index(edges, nodes)):
            wanted = (x, *conv.parameters())
            assert_same(lambda: conv(x, graph), lambda: compiled(x, graph), wanted)  # noqa: B023


def test_dropout_differs_from_call_to_call():
    conv, x, edges = LAYERS["gat"](None).double(), features(), edge_index()
    compiled = torch.compile(conv, backend="aot_eager", fullgraph=True)
    first, second = compiled(x, edges), compiled(x, edges)
    assert not torch.equal(first, second)
    assert torch.equal(*(compiled.eval()(x, edges) for _ in range(2)))


@pytest.mark.parametrize("num_nodes", [NODES, None])
def test_model_with_structural_embeddings(num_nodes):
    options = {"layer_options": {"num_nodes": num_nodes}}
    model = build_model("cat", "lp", 3, 8, 2, **options).double()
    x, edges = features(), edge_index()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert_same(lambda: model(x, edges), lambda: compiled(x, edges), (x, *model.parameters()))
    if num_nodes is not None:
        with pytest.raises(ValueError, match="learned structural embeddings for one graph"):
            compiled(x, edge_index())


@pytest.mark.parametrize("backbone", ["gcn", "masked_gcn"])
def test_sparse_features(backbone):
    x = SparseFeatures.from_dense(torch.rand(NODES, 3).round(), torch.float64)
    graph = Graph.from_edge_index(edge_index(), NODES)
    model = build_model(backbone, "lp", 3, 4, 2, dropout=0.0).double()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert_same(lambda: model(x, graph), lambda: compiled(x, graph), list(model.parameters()))
    model.dropout = 0.5
    assert torch.isfinite(compiled(x, graph)).all()


def test_attention_weights():
    conv, x, edges = LAYERS["gat"](None).double(), features(), edge_index()
    compiled = torch.compile(conv, backend="aot_eager")
    _, (want_edges, want) = conv(x, edges, return_attention_weights=True)
    _, (got_edges, got) = compiled(x, edges, return_attention_weights=True)
    assert torch.equal(got_edges, want_edges)
    assert torch.equal(got, want)


@needs_compiler
@pytest.mark.parametrize(("name", "aggr"), [("gcn", "poly"), ("gat", "lp")])
def test_inductor(name, aggr):
    conv, x, edges = LAYERS[name](aggr).double().eval(), features(), edge_index()

    def model(x, edges):  # with buffers around the layer that inductor may use twice
        return torch.exp(conv(torch.sigmoid(x) * 2, edges) / 2) + 1

    compiled = torch.compile(model, fullgraph=True)
    assert_same(lambda: model(x, edges), lambda: compiled(x, edges), (x, *conv.parameters()))


@needs_compiler
def test_dropout_under_inductor():
    conv, x, edges = LAYERS["gat"](None).double(), features(), edge_index()
    compiled = torch.compile(conv, fullgraph=True)
    assert not torch.equal(compiled(x, edges), compiled(x, edges))


@pytest.mark.parametrize("aggr", ["lp", "softmax", ["mean", "min", "poly"]])
@pytest.mark.parametrize("place", ["dim_size", "ptr"])
def test_readout(aggr, place):
    """The number of graphs is given: the second has no node, and nor has the last."""
    pool, x, weight = Readout(aggr).double(), features(), torch.rand(NODES, dtype=torch.float64)
    batch = torch.tensor([0, 3, 0, 2, 2, 3, 3, 0, 2])
    index, options = batch, {"dim_size": 5}
    if place == "ptr":
        index, options = None, {"ptr": torch.tensor([0, 3, 3, 6, 9, 9])}
    compiled = torch.compile(pool, backend="aot_eager", fullgraph=True)
    options["weight"] = weight
    wanted = (x, *pool.parameters())
    assert_same(lambda: pool(x, index, **options), lambda: compiled(x, index, **options), wanted)


@pytest.mark.parametrize("wrong", [-1, 4])
def test_readout_refuses_numbers_beyond_dim_size(wrong):
    compiled = torch.compile(Readout("softmax"), backend="aot_eager", fullgraph=True)
    index = torch.tensor([0, 3, 0, 2, 2, 3, 3, 0, wrong])
    with pytest.raises(ValueError, match="rowptr"):
        compiled(torch.randn(NODES, 3), index, dim_size=4)
