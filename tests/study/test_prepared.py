from __future__ import annotations

import numpy as np
import pytest
import torch

from meanmax.data import Dataset, Split, load, make_split
from meanmax.study.runs.execute import cluster_scores, matched_accuracy, prepare


def three_graphs():
    torch.manual_seed(0)
    ptr = torch.tensor([0, 4, 7, 12])
    edges = [torch.randint(int(a), int(b), (2, 9)) for a, b in zip(ptr, ptr[1:])]  # noqa: B905
    y = (torch.rand(12, 3) > 0.5).float()
    split = Split(torch.arange(0, 4), torch.arange(4, 7), torch.arange(7, 12), "given")
    return Dataset(
        name="three",
        x=torch.randn(12, 2),
        y=y,
        edge_index=torch.cat(edges, dim=1),
        class_names=("a", "b", "c"),
        graph_ptr=ptr,
        split=split,
    )


def test_whole_graphs_are_kept_apart():
    dataset = three_graphs()
    prepared = prepare(dataset, dataset.split)
    assert prepared.inductive
    assert [sample.graph.num_nodes for sample in prepared.problem.samples] == [4]
    test = prepared.parts["test"]
    torch.testing.assert_close(test.x, dataset.x[7:])
    torch.testing.assert_close(test.nodes.target, dataset.y[7:])
    inside = dataset.edge_index[1] >= 7
    own = (dataset.edge_index[:, inside] - 7).T.tolist()
    assert sorted(test.graph.edge_index.T.tolist()) == sorted(own)


def test_one_graph_is_shared_by_all_parts():
    dataset = load("karate")
    split = make_split(dataset, seed=1)
    prepared = prepare(dataset, split)
    assert not prepared.inductive
    assert len({id(sample.graph) for sample in prepared.parts.values()}) == 1
    torch.testing.assert_close(prepared.parts["test"].nodes.target, dataset.y[split.test])
    assert prepared.parts["all"].nodes.index.numel() == 34


def test_scaling_of_whole_graphs_is_learned_on_training_graphs():
    dataset = three_graphs()
    prepared = prepare(dataset, dataset.split, scale=True)
    train = prepared.problem.samples[0].x
    torch.testing.assert_close(train.mean(0), torch.zeros(2), atol=1e-6, rtol=0)
    assert prepared.parts["test"].x.mean(0).abs().max() > 1e-3


def test_clusters_are_matched_to_classes():
    rng = np.random.default_rng(0)
    classes = np.repeat([0, 1, 2], 20)
    embedding = rng.normal(size=(60, 4)) * 0.01 + classes[:, None] * 5
    found = cluster_scores(embedding, classes)
    assert found == {"kmeans_accuracy": 100.0, "kmeans_nmi": 100.0, "kmeans_ari": 100.0}
    assert matched_accuracy(np.array([2, 2, 2, 0]), np.array([0, 0, 1, 1])) == pytest.approx(0.75)
