"""A model on the field of some nodes gives their outputs and gradients as on the whole graph."""

from __future__ import annotations

import pytest
import torch

from meanmax import Graph, build_model
from meanmax.graph import SparseFeatures
from meanmax.graph.rows import RowsGraph
from meanmax.training import Nodes, Problem, Sample
from meanmax.training.narrow import NarrowSample, narrowed

NODES = 300
BACKBONES = ("gcn", "masked_gcn", "gat", "cat", "sage", "gin")
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
    return Sample(features, Graph.from_edge_index(edges, NODES, weight), Nodes(index, target))


def model_of(backbone: str, aggr: str, layers: int = 2, **options):
    torch.manual_seed(0)
    heads = 2 if backbone in ("gat", "cat") else None
    num_nodes = NODES if backbone == "cat" else None
    model = build_model(
        backbone, aggr, 12, 16, 3, layers=layers, heads=heads, num_nodes=num_nodes, **options
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
    narrow = narrowed(Problem([given]), model).samples[0]
    assert isinstance(narrow, NarrowSample)
    loss, grads, hits = outcome(model, given)
    found, found_grads, found_hits = outcome(model, narrow)
    torch.testing.assert_close(found, loss, rtol=1e-10, atol=1e-12)
    assert found_hits == hits
    assert found_grads.keys() == grads.keys()
    for name, grad in grads.items():
        scale = float(grad.abs().max())
        torch.testing.assert_close(found_grads[name], grad, rtol=1e-6, atol=1e-7 * scale + 1e-13)


@pytest.mark.parametrize("skip", ["linear", None])
def test_skips_and_layer_norms(skip):
    given = sample(sparse=True, weighted=False)
    model = model_of("gcn", "softmax", 3, skip=skip, norm="layer")
    narrow = narrowed(Problem([given]), model).samples[0]
    assert isinstance(narrow, NarrowSample)
    torch.testing.assert_close(outcome(model, narrow)[0], outcome(model, given)[0])


def test_only_what_is_needed_is_computed():
    given = sample(sparse=False, weighted=False)
    rows = given.nodes.index.unique()
    field = model_of("gcn", "softmax").field(given.graph, rows)
    first, last = field.graphs
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
    several = Problem([given, given])
    assert narrowed(several, model_of("gcn", "none")) is several
    one = Problem([given])
    assert narrowed(one, torch.nn.Identity()) is one


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
