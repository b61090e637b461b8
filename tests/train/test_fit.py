from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from meanmax import NodeClassifier, NodeRegressor
from meanmax.data import Dataset, Split, load, make_split
from meanmax.train import Settings
from meanmax.train.fit import GraphData, fit
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


def test_numbers_of_a_data_set():
    """A data set with a number for each node has no classes, and NaN where there is none."""
    dataset = load("karate")
    y = torch.where(torch.arange(34) < 30, torch.arange(34.0), torch.nan)
    split = Split(torch.arange(20), torch.arange(20, 25), torch.arange(25, 30), "given")
    dataset = replace(dataset, y=y, class_names=())
    settings = Settings(backbone="sage", epochs=3, metric="mae")
    data = GraphData.from_dataset(dataset, split, settings)
    assert (data.task, data.out_channels, len(data.classes)) == ("regression", 1, 0)
    assert data.objective.mean == 9.5
    model, history = fit(settings, data)
    test = data.sample(LabeledNodes(split.test, y[split.test]))
    out = model(data.x, data.whole).detach()
    assert out.shape == (34, 1)
    errors = 9.5 + data.objective.scale * out[split.test, 0] - y[split.test]
    assert test.nodes.score(out) == pytest.approx(float(errors.abs().mean()), rel=1e-5)
    assert len(history.val_score) == 3
    assert NodeRegressor.from_settings(settings).fit_data(data).target_mean_ == 9.5
    with pytest.raises(
        ValueError, match="NodeClassifier learns .*a regression task of nodes.: use"
    ):
        NodeClassifier(epochs=1).fit_data(data)


def test_several_graphs_with_numbers():
    dataset = three_graphs()
    dataset = replace(dataset, y=torch.arange(12.0), class_names=())
    for backbone in ("gcn", "cat"):
        settings = Settings(backbone=backbone, epochs=2)
        data = GraphData.from_dataset(dataset, dataset.split, settings)
        assert data.inductive and data.objective.mean == 1.5
        assert len(fit(settings, data).history.val_score) == 2
