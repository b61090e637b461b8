from __future__ import annotations

import pytest
import torch

import meanmax
from meanmax import Graph, LpAggregation, SparseFeatures, build_model
from meanmax.nn import CATConv, GATConv, GCNConv, GENConv, GINConv, MaskedGCNConv, SAGEConv

NODES, CHANNELS, CLASSES = 30, 6, 4
LAYERS = {
    "gcn": GCNConv,
    "masked_gcn": MaskedGCNConv,
    "gat": GATConv,
    "cat": CATConv,
    "sage": SAGEConv,
    "gin": GINConv,
    "gen": GENConv,
}


@pytest.fixture
def graph():
    generator = torch.Generator().manual_seed(0)
    return Graph.from_edge_index(torch.randint(0, NODES, (2, 120), generator=generator), NODES)


@pytest.fixture
def x():
    return torch.relu(torch.randn(NODES, CHANNELS, generator=torch.Generator().manual_seed(1)))


@pytest.mark.parametrize("layers", [1, 2, 3, 8])
@pytest.mark.parametrize("backbone", LAYERS)
def test_every_backbone_at_every_depth(backbone, layers, graph, x):
    model = build_model(backbone, "lp", CHANNELS, 16, CLASSES, layers)
    assert [type(layer) for layer in model.layers] == [LAYERS[backbone]] * layers
    assert model(x, graph).shape == (NODES, CLASSES)
    assert [h.shape for h in model.hidden(x, graph)] == [(NODES, 16)] * (layers - 1)


@pytest.mark.parametrize(
    ("nonlinear", "expected"),
    [("first", [0]), ("hidden", [0, 1, 2]), ("all", [0, 1, 2, 3])],
)
def test_which_layers_are_nonlinear(nonlinear, expected):
    model = build_model("gcn", "softmax", CHANNELS, 8, CLASSES, 4, nonlinear=nonlinear)
    assert list(model.learned()) == [f"layers.{index}.gamma" for index in expected]
    assert len(model.aggregator_parameters()) == len(expected)
    total = len(list(model.parameters()))
    assert len(model.other_parameters()) == total - len(expected)


def test_attention_has_a_parameter_per_head_and_averages_the_last():
    model = build_model(
        "gat",
        "poly",
        CHANNELS,
        32,
        CLASSES,
        heads=4,
        nonlinear="all",
        layer_options={"out_heads": 3},
    )
    assert {name: value.numel() for name, value in model.learned().items()} == {
        "layers.0.alpha": 4,
        "layers.1.alpha": 3,
    }
    assert (model.layers[0].out_channels, model.layers[0].concat) == (8, True)
    assert (model.layers[1].out_channels, model.layers[1].concat) == (CLASSES, False)


def test_options_of_the_aggregator():
    options = {"start": 1.5, "per": "channel", "reparam": "softplus", "learn": False}
    model = build_model("gcn", "lp", CHANNELS, 8, CLASSES, aggr_options=options)
    assert torch.allclose(model.learned()["layers.0.p"], torch.full((8,), 1.5))
    assert model.aggregator_parameters() == []


def test_layers_get_copies_of_an_aggregator():
    given = LpAggregation(3.0)
    model = build_model("gcn", given, CHANNELS, 8, CLASSES, nonlinear="all")
    assert {float(value) for value in model.learned().values()} == {3.0}
    assert len({id(p) for p in (*model.aggregator_parameters(), given.raw)}) == 3


def test_none_and_its_name_are_the_same(graph, x):
    outs = []
    for aggr in (None, "none"):
        torch.manual_seed(0)
        outs.append(build_model("gcn", aggr, CHANNELS, 8, CLASSES).eval()(x, graph))
    assert torch.equal(*outs)


@pytest.mark.parametrize("skip", ["linear", "residual", "res+"])
@pytest.mark.parametrize("norm", ["batch", "layer"])
@pytest.mark.parametrize("backbone", LAYERS)
def test_skip_and_norm(backbone, norm, skip, graph, x):
    model = build_model(backbone, None, CHANNELS, 8, CLASSES, 3, skip=skip, norm=norm, heads=None)
    model(x, graph).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_skip_adds_the_input(graph, x):
    torch.manual_seed(0)
    model = build_model(
        "gcn", None, CHANNELS, CHANNELS, CLASSES, skip="residual", activation="none"
    ).eval()
    (hidden,) = model.hidden(x, graph)
    torch.testing.assert_close(hidden, model.layers[0](x, graph) + x)
    (again,) = model.hidden(SparseFeatures.from_dense(x), graph)
    torch.testing.assert_close(again, hidden, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backbone", LAYERS)
@pytest.mark.parametrize("aggr", [None, "lp", "poly", "softmax", "max"])
def test_sparse_input_gives_the_same(backbone, aggr, graph, x):
    torch.manual_seed(0)
    model = build_model(backbone, aggr, CHANNELS, 16, CLASSES).eval()
    sparse = model(SparseFeatures.from_dense(x), graph)
    torch.testing.assert_close(sparse, model(x, graph), rtol=1e-4, atol=1e-5)


def test_embedding_and_maxness(graph, x):
    model = build_model("gcn", "softmax", CHANNELS, 8, CLASSES, 3, nonlinear="hidden").train()
    assert torch.equal(model.embed(x, graph), model.embed(x, graph))
    assert model.training
    model.eval()
    assert torch.equal(model.embed(x, graph), model.hidden(x, graph)[-1])
    found = model.maxness(x, graph)
    assert list(found) == ["layers.0", "layers.1", "layers.2"]
    layer = model.layers[0]
    prepared = graph.prepared("sym", True)
    expected = meanmax.maxness(layer.aggr.learned, layer.lin(x), prepared)
    torch.testing.assert_close(found["layers.0"], expected)
    assert bool((found["layers.2"] == 0).all())  # the last layer is linear
    assert not any(module._forward_hooks for module in model.modules())


def test_maxness_of_attention_and_of_max(graph, x):
    found = build_model("gat", "softmax", CHANNELS, 16, CLASSES, heads=2).maxness(x, graph)
    assert found["layers.0"].shape == (2, 8)
    assert bool(((found["layers.0"] >= 0) & (found["layers.0"] <= 1)).all())
    found = build_model("sage", "max", CHANNELS, 8, CLASSES).maxness(x, graph)
    assert bool((found["layers.0"] == 1).all())


def test_reset_draws_anew(graph, x):
    model = build_model("cat", "lp", CHANNELS, 16, CLASSES, layer_options={"num_nodes": NODES})
    with torch.no_grad():
        model.layers[0].aggr.learned.raw += 1
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model(x, graph)
    model.reset_parameters()
    assert float(model.learned()["layers.0.p"][0]) == 2.0
    assert not torch.equal(model.structure.weight, before["structure.weight"])
    assert not torch.equal(model.layers[1].lin.weight, before["layers.1.lin.weight"])


def test_cat_learns_embeddings_of_one_graph_or_fits_them(graph, x):
    learned = build_model("cat", None, CHANNELS, 16, CLASSES, layer_options={"num_nodes": NODES})
    loss = learned.extra_loss(graph)
    loss.backward()
    assert float(loss.detach()) > 0 and bool((learned.structure.weight.grad != 0).any())
    other = Graph.from_edge_index([[0, 1], [1, 2]], NODES)
    with pytest.raises(ValueError, match="fit_structure"):
        learned(x, other)
    structure = meanmax.nn.fit_structure(other, CLASSES)
    assert learned(x, other, structure=structure).shape == (NODES, CLASSES)
    fitted = build_model("cat", None, CHANNELS, 16, CLASSES)
    assert fitted.extra_loss(graph) is None
    assert fitted(x, other).shape == (NODES, CLASSES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"backbone": "gcm"}, "unknown backbone 'gcm'.*'gcn', 'masked_gcn', 'gat', 'cat'"),
        (
            {"aggr": "median"},
            "unknown aggregator 'median'.*'linear', 'lp', 'poly', 'softmax', 'spread', 'max'",
        ),
        ({"backbone": "gat", "hidden": 20, "heads": 8}, "multiple of 'heads'.*hidden=64"),
        ({"heads": 4}, "'gcn' has no heads"),
        ({"layers": 0}, "'layers' must be a positive integer"),
        ({"hidden": 2.5}, "'hidden' must be a positive integer"),
        ({"dropout": 1.0}, r"'dropout' must be in \[0, 1\)"),
        ({"nonlinear": "last"}, "'nonlinear' must be one of"),
        ({"skip": "dense"}, "'skip' must be one of"),
        ({"norm": "graph"}, "'norm' must be one of"),
        ({"activation": "tanh"}, "'activation' must be one of"),
        ({"layer_options": {"order": "sideways"}}, "'order' must be one of"),
        ({"backbone": "gat", "layer_options": {"order": "aggregate-first"}}, "leave it out"),
        ({"layer_options": {"width": 2}}, "'layer_options' has no 'width'"),
        ({"layer_options": {"pool": True}}, "'pool' belongs to backbone 'sage'"),
        ({"aggr": "max", "aggr_options": {"start": 2}}, "no effect with aggr='max'"),
        ({"aggr_options": {"speed": 2}}, "the options do not fit LpAggregation"),
    ],
)
def test_errors_say_what_to_do(arguments, message):
    given = {"backbone": "gcn", "aggr": "lp", "in_channels": 4, "hidden": 8, "out_channels": 3}
    with pytest.raises(ValueError, match=message):
        build_model(**{**given, **arguments})


@pytest.mark.parametrize("backbone", LAYERS)
def test_a_graph_without_features(backbone, graph):
    model = build_model(backbone, None, CHANNELS, 16, CLASSES)
    with pytest.raises(ValueError, match=r"'x' is None.*torch.eye"):
        model.eval()(None, graph)


@pytest.mark.parametrize("backbone", [name for name in LAYERS if name != "gin"])
def test_features_of_the_wrong_width(backbone, graph):
    model = build_model(backbone, None, CHANNELS, 16, CLASSES).eval()
    with pytest.raises(ValueError, match=r"must be \[30, 6\].*got \[30, 5\]"):
        model(torch.rand(NODES, 5), graph)
