"""Batches of clusters."""

import numpy as np
import pytest
import torch

from meanmax import SparseFeatures, build_model
from meanmax.nn.linear import as_dense
from meanmax.scale import BatchingError, ClusterProblem, Clusters, CsrEdges, assign_blocks
from meanmax.scale.features import rows_of
from meanmax.train import LabeledNodes, Sample, Schedule, TrainingProblem, loop, train
from tests.scale.graphs import awkward, features

TRAIN = LabeledNodes(torch.tensor([4, 7, 8, 20, 33, 41, 55]), torch.tensor([0, 1, 2, 3, 0, 1, 2]))


def problem_of(graph, part, per_batch=1, x=None, **more):
    x = features() if x is None else x
    clusters = Clusters.of(rows_of(x), CsrEdges.of(graph), part)
    return ClusterProblem(clusters=clusters, nodes=TRAIN, per_batch=per_batch, **more)


def shuffled_parts(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(count, (60,), generator=generator)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_batch_is_the_induced_graph(weighted):
    graph, part = awkward(weighted=weighted), shuffled_parts(6)
    problem = problem_of(graph, part, 2)
    sample = problem.sample([4, 1])
    nodes = problem.clusters.nodes([4, 1])
    assert sorted(nodes.tolist()) == torch.isin(part, torch.tensor([1, 4])).nonzero()[:, 0].tolist()
    dense = torch.zeros(60, 60)
    weight = torch.ones(graph.num_edges) if graph.weight is None else graph.edge_weight
    source, target = graph.edge_index
    dense.index_put_((target, source), weight, accumulate=True)
    found = torch.zeros(len(nodes), len(nodes))
    own = torch.ones(sample.graph.num_edges) if not weighted else sample.graph.edge_weight
    source, target = sample.graph.edge_index
    found.index_put_((target, source), own, accumulate=True)
    torch.testing.assert_close(found, dense[nodes][:, nodes])
    assert torch.equal(sample.x, features()[nodes])
    within = TRAIN.index[torch.isin(part[TRAIN.index], torch.tensor([1, 4]))]
    assert torch.equal(torch.from_numpy(nodes)[sample.nodes.index].sort().values, within)
    for place, target in zip(sample.nodes.index, sample.nodes.target, strict=True):
        assert int(target) == int(TRAIN.target[TRAIN.index == int(nodes[place])])


def test_an_epoch_sees_every_training_node_once():
    problem = problem_of(awkward(), shuffled_parts(9), 2)
    torch.manual_seed(0)
    batches = list(problem.batches())
    assert sum(len(batch.nodes.index) for batch in batches) == len(TRAIN.index)
    assert all(len(batch.nodes.index) for batch in batches)  # none without
    sizes = [batch.graph.num_nodes for batch in batches]
    again = [batch.graph.num_nodes for batch in problem.batches()]
    assert sizes != again  # drawn anew
    torch.manual_seed(0)
    assert [batch.graph.num_nodes for batch in problem.batches()] == sizes


def test_batches_are_of_equal_size_and_their_losses_weigh_each_node_the_same():
    part = torch.arange(60) % 7
    problem = problem_of(awkward(), part, 3)
    torch.manual_seed(0)
    batches = list(problem.batches())
    sizes = [batch.graph.num_nodes for batch in batches]
    assert len(sizes) == 3 and max(sizes) <= 27 and min(sizes) >= 16  # 3, 2 and 2 parts of 8 or 9
    out = torch.randn(60, 4)
    total = 0.0
    for batch in batches:
        assert batch.nodes.total == round(len(TRAIN.index) / 3)
        alone = LabeledNodes(batch.nodes.index, batch.nodes.target).loss(out)
        expected = alone * len(batch.nodes.index) / batch.nodes.total
        torch.testing.assert_close(batch.nodes.loss(out), expected)
        total += len(batch.nodes.index)
    assert total == len(TRAIN.index)


def test_sparse_features_come_along():
    dense = features().relu()
    problem = problem_of(awkward(), shuffled_parts(6), 2, SparseFeatures.from_dense(dense))
    nodes = problem.clusters.nodes([0, 3])
    assert torch.equal(as_dense(problem.sample([0, 3]).x), dense[nodes])


@pytest.mark.parametrize("backbone", ["gcn", "masked_gcn", "gat", "sage", "gin", "gen"])
def test_one_part_trains_as_the_whole_graph(backbone, monkeypatch):
    monkeypatch.setattr(
        loop, "restrict_to_field", lambda problem, _: problem
    )  # sums in the same order
    graph, x = awkward(), features()
    val = Sample(x, graph, LabeledNodes(torch.tensor([10, 11, 30]), torch.tensor([0, 1, 2])))
    losses = []
    whole = TrainingProblem([Sample(x, graph, TRAIN)], val)
    batched = problem_of(graph, torch.zeros(60, dtype=torch.int64), val=val)
    for problem in (whole, batched):
        torch.manual_seed(0)
        model = build_model(backbone, "lp", 12, 16, 4, dropout=0.0)
        history = train(model, problem, Schedule(epochs=5))
        losses.append((history.train_loss, history.val_loss, history.learned))
    assert losses[0] == losses[1]


def test_parts_that_are_consecutive_need_no_order():
    graph = awkward()
    part = assign_blocks(graph, 5)
    pointer = np.concatenate([[0], torch.bincount(part).cumsum(0).numpy()])
    plain = Clusters(rows_of(features()), CsrEdges.of(graph), pointer)
    ordered = Clusters.of(rows_of(features()), CsrEdges.of(graph), part)
    for parts in ([0], [3, 1]):
        assert plain.nodes(parts).tolist() == ordered.nodes(parts).tolist()


def test_too_many_parts_in_a_batch():
    with pytest.raises(BatchingError, match="between 1 and all 6 parts .got 7"):
        problem_of(awkward(), shuffled_parts(6), 7)
