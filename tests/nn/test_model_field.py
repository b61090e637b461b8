"""A model on the field of some nodes gives their outputs and gradients as on the whole graph."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from meanmax import Graph, build_model
from meanmax.graph import SparseFeatures
from meanmax.graph.views import RowsGraph
from meanmax.nn.model import Field
from meanmax.train import LabeledNodes, Sample, Schedule, TrainingProblem, loop, train
from meanmax.train.problem import FieldSample, restrict_to_field

NODES = 300
BACKBONES = ("gcn", "masked_gcn", "gat", "cat", "sage", "gin", "gen")
AGGRS = ("none", "lp", "poly", "softmax", "max")


def sample(*, sparse: bool, weighted: bool, seed: int = 0) -> Sample:
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, NODES, (2, 700), generator=generator)
    edges = edges[:, edges[1] > 5]  # the first nodes have no neighbours
    weight = torch.rand(edges.size(1), generator=generator) if weighted else None
    x = torch.rand(NODES, 12, generator=generator, dtype=torch.float64)
    x = x * (x > 0.5)
    index = torch.tensor([50, 7, 3, 3, 299, 0])  # in no order, and one twice
    target = torch.tensor([0, 1, 2, 2, 1, 0])
    features = SparseFeatures.from_dense(x, torch.float64) if sparse else x
    return Sample(
        features, Graph.from_edge_index(edges, NODES, weight), LabeledNodes(index, target)
    )


def model_of(backbone: str, aggr: str, layers: int = 2, **options):
    torch.manual_seed(0)
    heads = 2 if backbone in ("gat", "cat") else None
    num_nodes = NODES if backbone == "cat" else None
    model = build_model(
        backbone,
        aggr,
        12,
        16,
        3,
        layers=layers,
        heads=heads,
        layer_options={"num_nodes": num_nodes},
        **options,
    )
    return model.double().eval()


def outcome(model, given: Sample):
    model.zero_grad()
    loss = given.nodes.loss(given.output(model))
    loss.backward()
    grads = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return loss, grads, given.nodes.hits(given.output(model))


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize(("nonlinear", "layers"), [("first", 2), ("all", 3)])
@pytest.mark.parametrize("aggr", AGGRS)
@pytest.mark.parametrize("backbone", BACKBONES)
def test_field_equals_whole(backbone, aggr, nonlinear, layers, weighted, sparse):
    given = sample(sparse=sparse, weighted=weighted)
    model = model_of(backbone, aggr, layers, nonlinear=nonlinear)
    narrow = restrict_to_field(TrainingProblem([given]), model).samples[0]
    assert isinstance(narrow, FieldSample)
    loss, grads, hits = outcome(model, given)
    found, found_grads, found_hits = outcome(model, narrow)
    torch.testing.assert_close(found, loss, rtol=1e-10, atol=1e-12)
    assert found_hits == hits
    assert found_grads.keys() == grads.keys()
    for name, grad in grads.items():
        scale = float(grad.abs().max())
        torch.testing.assert_close(found_grads[name], grad, rtol=1e-6, atol=1e-7 * scale + 1e-13)


@pytest.mark.parametrize("skip", ["linear", "residual", "res+", None])
@pytest.mark.parametrize("backbone", ["gcn", "masked_gcn", "gat", "gen"])
def test_skips_and_layer_norms(backbone, skip):
    given = sample(sparse=True, weighted=False)
    model = model_of(backbone, "softmax", 3, skip=skip, norm="layer")
    narrow = restrict_to_field(TrainingProblem([given]), model).samples[0]
    assert isinstance(narrow, FieldSample)
    loss, grads, _ = outcome(model, given)
    found, found_grads, _ = outcome(model, narrow)
    torch.testing.assert_close(found, loss)
    for name, grad in grads.items():
        torch.testing.assert_close(found_grads[name], grad, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("aggregator_loss", ["train", "val"])
@pytest.mark.parametrize(("backbone", "aggr"), [("gcn", "lp"), ("gat", "softmax"), ("cat", "poly")])
def test_training_takes_the_field_and_ends_the_same(monkeypatch, backbone, aggr, aggregator_loss):
    given = sample(sparse=True, weighted=False)
    index = torch.tensor([11, 20, 31])
    val = replace(given, nodes=LabeledNodes(index, torch.tensor([0, 1, 2])))
    schedule = Schedule(
        epochs=4, schedule="alternating", aggregator_loss=aggregator_loss, weight_steps=2
    )
    ended = []
    for narrows in (True, False):
        if not narrows:
            monkeypatch.setattr(loop, "restrict_to_field", lambda problem, _: problem)
        seen = []
        model = model_of(backbone, aggr, dropout=0.0)
        if backbone == "cat":
            for layer in model.layers:
                layer.self_dropout = 0.0
        forward = model._run
        monkeypatch.setattr(
            model,
            "_run",
            lambda *args, seen=seen, forward=forward: seen.append(args[1]) or forward(*args),
        )
        history = train(model, TrainingProblem([given], val), schedule)
        assert all(isinstance(graph, Field) == narrows for graph in seen) and len(seen) == 16
        ended.append((history, model.state_dict()))
    (mine, state), (theirs, wanted) = ended
    assert mine.train_loss == pytest.approx(theirs.train_loss, rel=1e-6)
    assert mine.val_loss == pytest.approx(theirs.val_loss, rel=1e-6)
    for name, value in wanted.items():
        torch.testing.assert_close(state[name], value, rtol=1e-4, atol=1e-6)


def test_dropout_on_a_field_is_drawn_and_scaled():
    given = sample(sparse=True, weighted=False)
    model = model_of("gcn", "none", dropout=0.5)
    narrow = restrict_to_field(TrainingProblem([given]), model).samples[0]
    model.activation = "none"  # linear in what is dropped, so that means agree
    wanted = model.eval()(given.x, given.graph)[torch.unique(given.nodes.index)]
    model.train()
    torch.manual_seed(0)
    drawn = torch.stack([narrow.output(model).detach() for _ in range(3000)])
    assert not torch.equal(drawn[0], drawn[1])
    error = drawn.std(0) / 3000**0.5
    assert bool(((drawn.mean(0) - wanted).abs() < 5 * error + 1e-9).all())


def test_learned_features_own_samples_and_odd_indices_stay_whole():
    given = sample(sparse=False, weighted=False)
    model = model_of("gcn", "none")

    class Own(Sample):
        """A sample with a mind of its own."""

    mask = torch.zeros(NODES, dtype=torch.bool)
    mask[:3] = True
    target = given.nodes.target[:3]
    for whole in (
        replace(given, x=given.x.clone().requires_grad_()),
        Own(given.x, given.graph, given.nodes),
        replace(given, nodes=LabeledNodes(torch.tensor([-1, 2, 3]), target)),
        replace(given, nodes=LabeledNodes(mask, target)),
    ):
        assert restrict_to_field(TrainingProblem([whole]), model).samples[0] is whole
        whole.nodes.loss(whole.output(model)).backward()


def test_norms_over_nodes_and_unknown_modules_stay_whole():
    given = sample(sparse=False, weighted=False)
    rows = torch.tensor([1, 2])
    model = model_of("gin", "none")
    assert model.field(given.graph, rows) is not None
    model.layers[0].nn = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.BatchNorm1d(16))
    assert model.field(given.graph, rows) is None
    model = model_of("gcn", "none")
    model.norms[0] = torch.nn.InstanceNorm1d(16)
    assert model.field(given.graph, rows) is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_features_of_half_precision(dtype):
    given = sample(sparse=True, weighted=False)
    half = replace(given, x=given.x.to(dtype))
    model = model_of("gcn", "none").float()
    narrow = restrict_to_field(TrainingProblem([half]), model).samples[0]
    assert isinstance(narrow, FieldSample)
    torch.testing.assert_close(outcome(model, narrow)[0], outcome(model, half)[0])


def test_labelled_nodes_without_neighbours_and_words():
    given = sample(sparse=True, weighted=False)
    dense = given.x.to_dense()
    dense[:3] = 0
    alone = LabeledNodes(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 2]))
    given = Sample(SparseFeatures.from_dense(dense, torch.float64), given.graph, alone)
    for backbone in BACKBONES:
        model = model_of(backbone, "softmax")
        narrow = restrict_to_field(TrainingProblem([given]), model).samples[0]
        assert isinstance(narrow, FieldSample)
        torch.testing.assert_close(outcome(model, narrow)[0], outcome(model, given)[0])


def test_a_field_is_checked():
    given = sample(sparse=False, weighted=False)
    model = model_of("gcn", "softmax")
    for rows in ([5, 3], [3, 3], [-1, 4], [4, NODES]):
        with pytest.raises(ValueError, match="ascending"):
            model.field(given.graph, torch.tensor(rows))
    field = model.field(given.graph, torch.tensor([3, 5]))
    for other in (model_of("gcn", "lp"), model_of("gcn", "softmax", 3)):
        with pytest.raises(ValueError, match="made for another model"):
            other.on_field(given.x[field.nodes], field)


def test_only_what_is_needed_is_computed():
    given = sample(sparse=False, weighted=False)
    rows = given.nodes.index.unique()
    field = model_of("gcn", "softmax").field(given.graph, rows)
    first, last = (stage.graph for stage in field.stages)
    assert last.rows.tolist() == rows.tolist() and last.num_edges < 20
    assert set(last.nodes.tolist()) == neighbourhood(given.graph, rows.tolist())
    assert first.rows.tolist() == last.nodes.tolist()
    assert set(first.nodes.tolist()) == neighbourhood(given.graph, last.nodes.tolist())
    # Lp measures features from the least of all nodes, so all of them go in.
    assert len(model_of("gcn", "lp").field(given.graph, rows).nodes) == NODES


def test_no_field_where_nothing_is_gained():
    given = sample(sparse=False, weighted=False)
    every = torch.arange(NODES)
    assert model_of("gcn", "none").field(given.graph, every) is None
    assert model_of("gcn", "none", norm="batch").field(given.graph, every[:3]) is None
    batch = Graph.batch([given.graph, given.graph])
    assert model_of("gcn", "none").field(batch, every[:3]) is None
    weight = torch.rand(given.graph.num_edges, requires_grad=True)
    assert model_of("gcn", "none").field(given.graph.with_weight(weight), every[:3]) is None


def test_other_models_and_several_samples_stay_whole():
    given = sample(sparse=False, weighted=False)
    several = TrainingProblem([given, given])
    assert restrict_to_field(several, model_of("gcn", "none")) is several
    one = TrainingProblem([given])
    assert restrict_to_field(one, torch.nn.Identity()) is one


def test_rows_keep_the_weights_of_the_whole():
    given = sample(sparse=False, weighted=True).graph
    rows = torch.tensor([10, 40])
    nodes = torch.tensor(sorted(neighbourhood(given, rows.tolist())))
    part = RowsGraph(given, nodes, rows)
    for options in (("sym", True), ("row", False), (None, "replace"), (None, False)):
        whole, cut = given.prepared(*options), part.prepared(*options)
        for row in rows.tolist():
            at = int((nodes == row).nonzero())
            mine = slice(int(cut.rowptr[at]), int(cut.rowptr[at + 1]))
            theirs = slice(int(whole.rowptr[row]), int(whole.rowptr[row + 1]))
            assert nodes[cut.col[mine].long()].tolist() == whole.col[theirs].tolist()
            assert torch.equal(cut.weight[mine], whole.weight[theirs])
        assert cut.num_edges == sum(int(whole.rowptr.diff()[row]) for row in rows.tolist())
    with pytest.raises(TypeError, match="weights belong to the whole graph"):
        part.with_weight(None)


def neighbourhood(graph: Graph, rows: list[int]) -> set[int]:
    source, target = graph.edge_index.tolist()
    return set(rows) | {u for u, v in zip(source, target, strict=True) if v in set(rows)}
