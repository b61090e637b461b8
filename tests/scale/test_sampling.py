"""Neighbours drawn at random."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from meanmax import Graph, build_model
from meanmax.scale import BatchingError, CsrEdges, NeighbourProblem, NeighbourSampler
from meanmax.scale.compiled import FEW
from meanmax.scale.features import rows_of
from meanmax.train import LabeledNodes, Schedule, train
from tests.scale.graphs import awkward, features

SEEDS = np.array([30, 4, 17, 0, 9, 5])


def drawn_edges(sampler, seeds, seed):
    """Sources and targets in the whole graph, and weights; without the loops of the last hop."""
    sample = sampler.sample(seeds, seed)
    source, target = sample.graph.edge_index.numpy()
    return sample.nodes[source], sample.nodes[target], sample.graph.edge_weight.numpy()


def star(leaves: int) -> CsrEdges:
    sources = torch.arange(1, leaves + 1)
    edges = torch.stack([sources, torch.zeros_like(sources)])
    return CsrEdges.of(Graph.from_edge_index(edges, leaves + 1))


@pytest.mark.parametrize("count", [3, FEW + 6])
def test_every_edge_is_as_likely_as_any_other(count):
    leaves, rounds = FEW + 16, 4000
    sampler, times = NeighbourSampler(star(leaves), [count]), np.zeros(leaves + 1)
    for seed in range(rounds):
        nodes = sampler.sample(np.array([0]), seed).nodes[1:]
        assert len(nodes) == len(set(nodes.tolist())) == count
        times[nodes] += 1
    # Drawing without replacement varies less than the test supposes: it would only pass more often.
    assert chisquare(times[1:]).pvalue > 1e-4
    pairs = np.abs(times[1:] - rounds * count / leaves).max()
    assert pairs < 6 * np.sqrt(rounds * count / leaves)


def test_pairs_of_edges_are_drawn_together_as_often_as_they_should():
    sampler, together = NeighbourSampler(star(6), [2]), np.zeros((7, 7))
    for seed in range(6000):
        first, second = sorted(sampler.sample(np.array([0]), seed).nodes[1:].tolist())
        together[first, second] += 1
    counts = together[np.triu_indices(7, 1)]
    counts = counts[counts > 0]
    assert len(counts) == 15 and chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("weighted", [False, True])
def test_drawn_edges_are_edges_with_their_weights(weighted):
    graph = awkward(weighted=weighted)
    edges = CsrEdges.of(graph)
    sampler = NeighbourSampler(edges, [3, 2])
    sample = sampler.sample(SEEDS, 7)
    assert sample.nodes[: len(SEEDS)].tolist() == SEEDS.tolist()
    assert len(set(sample.nodes.tolist())) == len(sample.nodes)
    degree = np.diff(edges.rowptr)
    pointer = sample.graph.rowptr.numpy()
    weights = {}
    for target, source, weight in zip(
        np.repeat(np.arange(60), degree),
        edges.col,
        np.ones(len(edges.col)) if edges.weight is None else edges.weight,
        strict=True,
    ):
        weights.setdefault((int(source), int(target)), []).append(float(weight))
    for row in range(len(SEEDS)):
        node, own = sample.nodes[row], slice(pointer[row], pointer[row + 1])
        sources = sample.nodes[sample.graph.col.numpy()[own]]
        count = min(3, degree[node])
        assert len(sources) == count
        for source, weight in zip(sources, sample.graph.weight.numpy()[own], strict=True):
            known = weights[int(source), int(node)]
            assert min(abs(weight - one) for one in known) < 1e-6


def test_isolated_nodes_and_fan_outs_beyond_degrees():
    edges = CsrEdges.of(awkward())
    alone = NeighbourSampler(edges, [4, 4]).sample(np.array([0, 1, 59]), 1)
    assert alone.nodes.tolist() == [0, 1, 59] and alone.graph.num_edges == 0
    everything = NeighbourSampler(edges, [10_000]).sample(SEEDS, 1)
    all_of_it = NeighbourSampler(edges, [-1]).sample(SEEDS, 2)
    assert torch.equal(everything.graph.col, all_of_it.graph.col)
    assert torch.equal(everything.graph.weight, all_of_it.graph.weight)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("backbone", ["gcn", "gat", "sage", "gin", "gen", "masked_gcn"])
def test_all_neighbours_give_the_output_of_the_whole_graph(backbone, weighted):
    """As many hops as layers reach everything; Masked GCN looks two hops far in each layer."""
    graph, x = awkward(weighted=weighted), features()
    torch.manual_seed(0)
    model = build_model(backbone, "softmax", 12, 16, 4, nonlinear="all").eval()
    hops = 4 if backbone == "masked_gcn" else 2
    sample = NeighbourSampler(CsrEdges.of(graph), [-1] * hops).sample(SEEDS, 3)
    with torch.no_grad():
        found = model(x[sample.nodes], sample.graph)[: len(SEEDS)]
        whole = model(x, graph)[SEEDS]
    torch.testing.assert_close(found, whole, rtol=1e-4, atol=1e-5)


def test_means_over_many_draws_are_those_of_the_whole_graph():
    """GraphSAGE's mean over drawn neighbours is right on average."""
    graph, x = awkward(), features()
    torch.manual_seed(0)
    model = build_model("sage", "none", 12, 16, 4, layers=1).eval()
    sampler, total = NeighbourSampler(CsrEdges.of(graph), [2]), 0
    with torch.no_grad():
        whole = model(x, graph)[SEEDS]
        for seed in range(3000):
            sample = sampler.sample(SEEDS, seed)
            total = total + model(x[sample.nodes], sample.graph)[: len(SEEDS)]
    assert float((total / 3000 - whole).abs().max()) < 0.05 * float(whole.abs().max())


def test_threads_and_companions_change_nothing():
    generator = np.random.default_rng(0)
    edges = generator.integers(0, 20_000, (2, 400_000))
    sampler = NeighbourSampler(CsrEdges.of(Graph.from_edge_index(edges, 20_000)), [5, 5])
    seeds, threads = np.arange(0, 20_000, 4), torch.get_num_threads()
    try:
        found = []
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append(sampler.sample(seeds, 11))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0].graph.col, found[1].graph.col)
    assert found[0].nodes.tolist() == found[1].nodes.tolist()
    few = sampler.sample(seeds[:3], 11)
    first = slice(0, int(few.graph.rowptr[3]))
    assert (
        few.nodes[few.graph.col[first]].tolist()
        == found[0].nodes[found[0].graph.col[first]].tolist()
    )
    other = sampler.sample(seeds[:3], 12)
    assert other.nodes.tolist() != few.nodes.tolist()


@pytest.mark.parametrize("fanout", [[], [0], [5, -2]])
def test_impossible_fan_outs(fanout):
    with pytest.raises(BatchingError, match="'fanout' must be a number of neighbours"):
        NeighbourSampler(star(3), fanout)


def test_batches_are_drawn_anew_and_repeat():
    nodes = LabeledNodes(
        torch.tensor([4, 7, 8, 20, 33, 41, 55]), torch.tensor([0, 1, 2, 3, 0, 1, 2])
    )
    sampler = NeighbourSampler(CsrEdges.of(awkward()), [2, 2])
    problem = NeighbourProblem(x=rows_of(features()), sampler=sampler, nodes=nodes, batch_size=3)

    def run():
        torch.manual_seed(5)
        model = build_model("sage", "poly", 12, 16, 4)
        return train(model, problem, Schedule(epochs=4)).train_loss

    torch.manual_seed(0)
    batches = list(problem.batches())
    assert [len(batch.nodes.index) for batch in batches] == [3, 2, 2]
    for batch in batches:
        assert batch.nodes.index.tolist() == list(range(len(batch.nodes.index)))
    assert run() == run()
