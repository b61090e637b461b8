"""The backbone that ignores the edges."""

from __future__ import annotations

import pytest
import torch

from meanmax import Graph, LpAggregation, NodeClassifier, SparseFeatures, build_model
from meanmax.nn import DenseLayer
from meanmax.train import LabeledNodes, Sample, TrainingProblem
from meanmax.train.problem import FieldSample, restrict_to_field

NODES, CHANNELS, HIDDEN, CLASSES = 30, 6, 8, 4


def graph_of(edges: int = 120) -> Graph:
    generator = torch.Generator().manual_seed(0)
    return Graph.from_edge_index(torch.randint(0, NODES, (2, edges), generator=generator), NODES)


def features() -> torch.Tensor:
    x = torch.rand(NODES, CHANNELS, generator=torch.Generator().manual_seed(1))
    return x * (x > 0.4)


def model_of(layers: int = 2, **options):
    torch.manual_seed(2)
    return build_model("mlp", None, CHANNELS, HIDDEN, CLASSES, layers, **options)


def test_it_is_the_mlp_of_pytorch_whatever_the_edges_are():
    model, x = model_of().eval(), features()
    first, last = (layer.lin for layer in model.layers)
    peer = torch.nn.Sequential(
        torch.nn.Linear(CHANNELS, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, CLASSES)
    )
    peer[0].load_state_dict(first.state_dict())
    peer[2].load_state_dict(last.state_dict())
    for edges in (0, 10, 120):
        torch.testing.assert_close(model(x, graph_of(edges)), peer(x))
    no_edges = torch.empty(2, 0, dtype=torch.int64)
    torch.testing.assert_close(model(x, no_edges), peer(x))


def test_one_layer_is_logistic_regression():
    model, x = model_of(layers=1).eval(), features()
    (layer,) = model.layers
    wanted = x @ layer.lin.weight.T + layer.lin.bias
    torch.testing.assert_close(model(x, graph_of()), wanted)


@pytest.mark.parametrize("norm", ["batch", "layer", None])
@pytest.mark.parametrize("skip", ["linear", "residual", "res+", None])
def test_norms_skips_and_sparse_features(skip, norm):
    model, x = model_of(layers=3, skip=skip, norm=norm, activation="elu"), features()
    model(x, graph_of()).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    model.eval()
    assert [h.shape for h in model.hidden(x, graph_of())] == [(NODES, HIDDEN)] * 2
    sparse = model(SparseFeatures.from_dense(x), graph_of())
    torch.testing.assert_close(sparse, model(x, graph_of()), rtol=1e-5, atol=1e-5)


def test_dropout_is_of_training_alone():
    model, x = model_of(dropout=0.5), features()
    assert not torch.equal(model(x, graph_of()), model(x, graph_of()))
    assert torch.equal(*(model.eval()(x, graph_of()) for _ in range(2)))


def test_it_has_no_aggregator_to_report():
    model = model_of()
    assert model.learned() == model.maxness(features(), graph_of()) == {}
    assert model.aggregator_parameters() == []
    assert len(model.other_parameters()) == 4
    assert not any("Aggregation" in type(module).__name__ for module in model.modules())


def test_new_weights():
    model = model_of()
    before = model.layers[0].lin.weight.detach().clone()
    model.reset_parameters()
    assert not torch.equal(model.layers[0].lin.weight, before)


@pytest.mark.parametrize("given", ["lp", "max", LpAggregation(2.0)])
def test_an_aggregator_is_refused(given):
    with pytest.raises(ValueError, match=r"'mlp' ignores the edges and takes no aggregator but"):
        build_model("mlp", given, CHANNELS, HIDDEN, CLASSES)
    with pytest.raises(ValueError, match=r"aggr_options=\{'start': 2.0\}\): give it aggr=None"):
        build_model("mlp", None, CHANNELS, HIDDEN, CLASSES, aggr_options={"start": 2.0})
    with pytest.raises(ValueError, match="'order' belongs to backbone"):
        build_model("mlp", None, 6, 8, 4, layer_options={"order": "aggregate-first"})


def test_features_must_fit():
    layer = DenseLayer(CHANNELS, CLASSES)
    with pytest.raises(ValueError, match=r"'x' must be \[30, 6\]"):
        layer(features()[:29], graph_of())
    with pytest.raises(ValueError, match="'out_channels' must be a positive integer"):
        DenseLayer(CHANNELS, 0)


@pytest.mark.parametrize("sparse", [False, True])
def test_its_receptive_field_is_the_nodes_themselves(sparse):
    model, dense = model_of(layers=3, skip="linear", norm="layer").double().eval(), features()
    dense = dense.double()
    x = SparseFeatures.from_dense(dense, torch.float64) if sparse else dense
    nodes = torch.tensor([1, 5, 7])
    field = model.field(graph_of(), nodes)
    assert field is not None
    assert torch.equal(field.nodes, nodes)
    assert all(stage.graph.num_edges == 0 for stage in field.stages)
    whole = Sample(x, graph_of(), LabeledNodes(nodes.flip(0), torch.tensor([0, 3, 1])))
    narrow = restrict_to_field(TrainingProblem([whole]), model).samples[0]
    assert isinstance(narrow, FieldSample)
    losses = [given.nodes.loss(given.output(model)) for given in (whole, narrow)]
    torch.testing.assert_close(*losses)
    grads = [torch.autograd.grad(loss, list(model.parameters())) for loss in losses]
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("sparse", [False, True])
def test_compiled_without_a_break(sparse):
    model = model_of(dropout=0.0).double()
    dense = features().double()
    x = SparseFeatures.from_dense(dense, torch.float64) if sparse else dense
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, graph_of()), model(x, graph_of()))


@pytest.mark.parametrize("aggr", [{}, {"aggr": None}, {"aggr": "none"}])
def test_classifier(aggr, tmp_path):
    generator = torch.Generator().manual_seed(3)
    y = torch.arange(NODES) % 3
    x = torch.nn.functional.one_hot(y, CHANNELS) + 0.1 * torch.rand(
        NODES, CHANNELS, generator=generator
    )
    model = NodeClassifier(backbone="mlp", **aggr, hidden=8, epochs=60, lr=0.05)
    model.fit(graph_of(), x, y, range(12), range(12, 18))
    assert model.score(graph_of(), x, y, range(18, NODES)) == 1.0
    assert model.maxness(graph_of(), x) == {}
    model.save(tmp_path / "model.zip")
    again = NodeClassifier.load(tmp_path / "model.zip")
    torch.testing.assert_close(again.predict_proba(graph_of(), x), model.predict_proba([[], []], x))


def test_a_classifier_refuses_an_aggregator_that_was_asked_for():
    model = NodeClassifier("mlp", aggr="lp")
    with pytest.raises(ValueError, match="takes no aggregator"):
        model.fit(graph_of(), features(), torch.arange(NODES) % 3, range(12))
