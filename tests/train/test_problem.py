"""Losses and scores of labelled nodes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from sklearn.utils.class_weight import compute_class_weight

from meanmax import Graph
from meanmax.train import LabeledNodes, Settings, SettingsError
from meanmax.train.problem import Objective, Sample, graph_samples, joined


def logits(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_balanced_classes_have_the_same_share_of_the_loss():
    target, out = torch.tensor([0, 0, 0, 0, 0, 1, 1, 2]), logits(8, 3)
    index = torch.arange(8)
    nodes = LabeledNodes(index, target)
    objective = Objective.of(Settings(class_weight="balanced"), nodes, 3)
    expected = compute_class_weight("balanced", classes=np.arange(3), y=target.numpy())
    np.testing.assert_allclose(objective.class_weight.numpy(), expected)
    own = -out.log_softmax(dim=1)[index, target]
    by_class = [float(own[target == number].mean()) for number in range(3)]
    weighted = LabeledNodes(index, target, objective=objective)
    assert float(weighted.loss(out)) == pytest.approx(np.mean(by_class), rel=1e-6)
    parts = [LabeledNodes(part, target[part], 8, objective) for part in index.split(3)]
    assert sum(float(part.loss(out)) for part in parts) == pytest.approx(np.mean(by_class), 1e-6)
    assert weighted.score(out) == nodes.score(out)


def test_a_class_without_training_nodes_does_not_change_the_weights():
    nodes = LabeledNodes(torch.arange(4), torch.tensor([0, 0, 0, 2]))
    weight = Objective.of(Settings(class_weight="balanced"), nodes, 4).class_weight
    assert weight.tolist() == pytest.approx([4 / (2 * 3), 1.0, 4 / 2, 1.0])


def test_numbers_are_standardized_by_those_of_training_nodes():
    train = LabeledNodes(torch.arange(3), torch.tensor([1e6, 1e6 + 2, 1e6 + 4]))
    objective = Objective.of(Settings(), train, 1)
    assert objective.mean == 1e6 + 2
    assert objective.scale == pytest.approx(np.sqrt(8 / 3))
    out = torch.tensor([[0.0], [0.0], [0.0], [1.0]])
    nodes = LabeledNodes(torch.tensor([1, 3]), torch.tensor([1e6 + 2, 1e6]), objective=objective)
    assert float(nodes.loss(out)) == pytest.approx((0 + (1 + 2 / np.sqrt(8 / 3)) ** 2) / 2)
    assert nodes.predictions(out).tolist() == pytest.approx([1e6 + 2, 1e6 + 2 + np.sqrt(8 / 3)])
    assert (nodes.task, nodes.metric) == ("regression", "r2")
    assert nodes.score(out) == pytest.approx(1 - (2 + np.sqrt(8 / 3)) ** 2 / 2)


def test_targets_without_spread_are_refused():
    nodes = LabeledNodes(torch.arange(3), torch.full((3,), 0.1))
    with pytest.raises(ValueError, match=r"training targets are all 0\.1"):
        Objective.of(Settings(), nodes, 1)


def test_scores_by_another_metric():
    out, target = logits(12, 2), torch.arange(12) % 2
    nodes = LabeledNodes(torch.arange(12), target, objective=Objective("roc_auc"))
    expected = roc_auc_score(target.numpy(), out.softmax(dim=1)[:, 1].numpy())
    assert nodes.score(out.requires_grad_()) == pytest.approx(expected)
    assert not nodes.is_counted
    assert LabeledNodes(torch.arange(12), target, objective=Objective("accuracy")).is_counted


def test_settings_have_to_fit_the_task():
    classes = LabeledNodes(torch.arange(4), torch.arange(4) % 2)
    labels = LabeledNodes(torch.arange(4), torch.eye(4))
    numbers = LabeledNodes(torch.arange(4), torch.arange(4.0))
    for nodes in (labels, numbers):
        with pytest.raises(SettingsError, match="class_weight='balanced' needs one class for each"):
            Objective.of(Settings(class_weight="balanced"), nodes, 4)
    for nodes, metric in ((classes, "r2"), (labels, "accuracy"), (numbers, "roc_auc")):
        with pytest.raises(SettingsError, match=f"for a {nodes.task} task .got '{metric}'"):
            Objective.of(Settings(metric=metric), nodes, 4)


def test_the_objective_stays_with_nodes_of_several_graphs():
    graph = Graph.from_edge_index([[0, 1, 2, 3], [1, 0, 3, 2]], 4, batch=[0, 0, 1, 1])
    objective = Objective("roc_auc", torch.tensor([1.0, 3.0]))
    nodes = LabeledNodes(torch.arange(4), torch.tensor([0, 1, 1, 0]), objective=objective)
    samples = graph_samples(torch.ones(4, 1), graph, nodes)
    assert [sample.nodes.objective for sample in samples] == [objective] * 2
    batch = joined(samples)
    assert isinstance(batch, Sample) and batch.nodes.objective is objective
    assert batch.nodes.target.tolist() == [0, 1, 1, 0]
