"""Inputs that people bring, and what they are told when a layer cannot take them."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
import torch_geometric.nn as pyg

from meanmax import Graph, SparseFeatures, build_model
from meanmax.nn import (
    CATConv,
    GATConv,
    GCNConv,
    MaskedGCNConv,
    SAGEConv,
    StructuralEmbedding,
    fit_structure,
    structure_loss,
)

NODES = 12
BACKBONES = ("gcn", "masked_gcn", "gat", "cat", "sage", "gin", "gen")


@pytest.fixture
def edges():
    return torch.randint(0, NODES, (2, 40), generator=torch.Generator().manual_seed(0))


@pytest.fixture
def x():
    return torch.relu(torch.randn(NODES, 6, generator=torch.Generator().manual_seed(1)))


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("aggr", ["lp", "poly", "softmax"])
def test_a_parameter_per_channel_fits_every_layer(backbone, aggr, edges, x):
    options = {"per": "channel"}
    model = build_model(backbone, aggr, 6, 16, 3, 3, nonlinear="all", aggr_options=options)
    assert model(x, Graph.from_edge_index(edges, NODES)).shape == (NODES, 3)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_an_edge_index_is_as_good_as_a_graph(backbone, edges, x):
    torch.manual_seed(0)
    model = build_model(backbone, None, 6, 16, 3).eval()
    expected = model(x, Graph.from_edge_index(edges, NODES))
    torch.testing.assert_close(model(x, edges), expected)


def test_gin_starts_from_the_sum_in_a_model_too():
    for aggr in ("poly", "softmax"):
        learned = build_model("gin", aggr, 6, 16, 3).layers[0].aggr.learned
        assert learned.form == "sum"
    assert build_model("gcn", "softmax", 6, 16, 3).layers[0].aggr.learned.form == "weighted"


@pytest.mark.parametrize("name", ["form", "normalize"])
def test_the_form_by_its_name_and_by_the_stored_one(name):
    model = build_model("gcn", "softmax", 6, 16, 3, aggr_options={name: "sum"})
    assert model.layers[0].aggr.learned.form == "sum"


@pytest.mark.parametrize("backbone", BACKBONES)
def test_inference_first_training_later(backbone, edges, x):
    graph = Graph.from_edge_index(edges, NODES)
    sparse = SparseFeatures.from_dense(x)
    model = build_model(backbone, "lp", 6, 16, 3)
    with torch.inference_mode():
        model.eval()(sparse, graph)
    model.train()(sparse, graph).sum().backward()


@pytest.mark.parametrize("backbone", BACKBONES)
def test_copies_and_flat_parameters(backbone, edges, x):
    graph = Graph.from_edge_index(edges, NODES)
    model = build_model(backbone, "softmax", 6, 16, 3).eval()
    expected = model(x, graph)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(twin(x, graph), expected)
    flat = torch.nn.utils.parameters_to_vector(model.parameters())
    torch.nn.utils.vector_to_parameters(flat, model.parameters())
    assert torch.equal(model(x, graph), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_weights_with_sparse_features(dtype, edges, x):
    layer = GCNConv(6, 3).to(dtype)
    graph = Graph.from_edge_index(edges, NODES)
    out = layer(SparseFeatures.from_dense(x.to(dtype)), graph)
    assert out.dtype == dtype
    torch.testing.assert_close(out, layer(x.to(dtype), graph), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("which", ["value", "weight"])
def test_masked_gcn_on_sparse_features_has_the_dense_gradients(which, edges, x):
    torch.manual_seed(0)
    layer = MaskedGCNConv(6, 3).double()
    sparse = SparseFeatures.from_dense(x, torch.float64)
    value = sparse.value.clone().requires_grad_()
    weight = (torch.rand(40, dtype=torch.float64) + 0.5).requires_grad_()
    graph, leaf = Graph.from_edge_index(edges, NODES), value if which == "value" else weight
    given = sparse.with_value(value if which == "value" else sparse.value)
    edge_weight = weight if which == "weight" else None
    grads = [
        torch.autograd.grad(layer(form, graph, edge_weight).square().sum(), leaf)[0]
        for form in (given, given.to_dense())
    ]
    torch.testing.assert_close(*grads)


def test_attention_between_different_nodes_is_as_in_pyg(edges, x):
    torch.manual_seed(0)
    ours, theirs = GATConv(6, 4, 2), pyg.GATConv(6, 4, 2)
    theirs.load_state_dict(ours.state_dict())
    index = torch.stack([edges[0], edges[1] % 4])
    pair = (x, x[:4] + 1)
    out = ours(pair, Graph.from_edge_index(index, (NODES, 4)))
    torch.testing.assert_close(out, theirs(pair, index), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("make", [GATConv, CATConv])
def test_weights_per_head(make, edges, x):
    layer, weight = make(6, 4, 2).eval(), torch.rand(40, 2)
    extra = {"structure": torch.rand(NODES, 3)} if make is CATConv else {}
    both = layer(x, Graph.from_edge_index(edges, NODES, weight), **extra).view(NODES, 2, 4)
    for head in range(2):
        one = Graph.from_edge_index(edges, NODES, weight[:, head])
        alone = layer(x, one, **extra).view(NODES, 2, 4)
        torch.testing.assert_close(both[:, head], alone[:, head])


def test_structure_knows_its_graph_in_any_order_of_edges(edges):
    embedding = StructuralEmbedding(NODES, 3)
    embedding(Graph.from_edge_index(edges, NODES))
    order = torch.randperm(40)
    assert embedding(Graph.from_edge_index(edges[:, order], NODES)) is embedding.weight


@pytest.mark.parametrize("nodes", [5, 100])
def test_structure_of_a_graph_without_edges(nodes):
    empty = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), nodes)
    assert torch.equal(fit_structure(empty, 3), torch.zeros(nodes, 3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, e: GCNConv(6, 3)(x.long(), e), r"floating-point \(got torch.int64\)"),
        (lambda x, e: GCNConv(6, 3)(x.double(), e), "weights are torch.float32"),
        (lambda x, e: GCNConv(6, 3)(None, e), "'x' is None"),
        (lambda x, e: GCNConv(6, 3)(x.numpy(), e), "got ndarray"),
        (lambda x, e: GCNConv(6, 3)(x.to_sparse(), e), "SparseFeatures.from_torch"),
        (lambda x, e: GATConv(6, 3)(x * float("nan"), e), "'x' must be finite"),
        (lambda x, e: SAGEConv(6, 3)(x, "edges"), "must be a meanmax.Graph or an edge_index"),
        (lambda x, e: build_model("gin", None, 7, 8, 3)(x, e), "has 6 channels.*built for 7"),
        (lambda x, e: fit_structure(e, 3), "'graph' must be a meanmax.Graph"),
        (
            lambda x, e: structure_loss(x, Graph.from_edge_index(e, NODES, torch.rand(40, 2))),
            "one weight per edge",
        ),
        (
            lambda x, e: MaskedGCNConv(6, 3)(x, Graph.from_edge_index(e, NODES, torch.rand(40, 2))),
            "one weight per edge",
        ),
    ],
)
def test_errors_say_what_to_do(call, message, edges, x):
    with pytest.raises(ValueError, match=message):
        call(x, edges)


def test_repr_shows_what_changes_the_result():
    assert "normalize=False" in repr(GCNConv(2, 3, normalize=False))
    assert "negative_slope=0.3" in repr(GATConv(2, 3, negative_slope=0.3))
    assert "self_dropout=0.5" in repr(CATConv(2, 3, self_dropout=0.5))
    assert "root_weight=False" in repr(SAGEConv(2, 3, root_weight=False))
    assert "gamma=1.0" in repr(GCNConv(2, 3, aggr="softmax"))
