from __future__ import annotations

import torch

from meanmax.data import Dataset, Split, load, make_split
from meanmax.train import Settings
from meanmax.train.fit import GraphData
from meanmax.train.problem import LabeledNodes


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
    data = GraphData.from_dataset(dataset, dataset.split, Settings())
    assert data.inductive and data.num_nodes is None
    assert [sample.graph.num_nodes for sample in data.problem.samples] == [4]
    test = data.sample(LabeledNodes(dataset.split.test, dataset.y[dataset.split.test]))
    torch.testing.assert_close(test.x, dataset.x[7:])
    torch.testing.assert_close(test.nodes.target, dataset.y[7:])
    inside = dataset.edge_index[1] >= 7
    own = (dataset.edge_index[:, inside] - 7).T.tolist()
    assert sorted(test.graph.edge_index.T.tolist()) == sorted(own)


def test_one_graph_is_shared_by_all_parts():
    dataset = load("karate")
    split = make_split(dataset, seed=1)
    data = GraphData.from_dataset(dataset, split, Settings())
    assert not data.inductive and data.num_nodes == 34
    test = data.sample(LabeledNodes(split.test, dataset.y[split.test]))
    samples = (*data.problem.samples, data.problem.val, test)
    assert len({id(sample.graph) for sample in samples}) == 1


def test_scaling_of_whole_graphs_is_learned_on_training_graphs():
    dataset = three_graphs()
    data = GraphData.from_dataset(dataset, dataset.split, Settings(scale=True))
    train = data.problem.samples[0].x
    torch.testing.assert_close(train.mean(0), torch.zeros(2), atol=1e-6, rtol=0)
    assert data.problem.val.x.mean(0).abs().max() > 1e-3
