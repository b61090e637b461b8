from __future__ import annotations

import pytest
import torch

from meanmax import Graph, build_model
from meanmax.train import LabeledNodes, Sample, Schedule, TrainingError, TrainingProblem, train


def on_graph(graph, x, nodes, val):
    return TrainingProblem(
        [Sample(x, graph, nodes)], None if val is None else Sample(x, graph, val)
    )


def problem():
    torch.manual_seed(0)
    graph = Graph.from_edge_index(torch.randint(0, 20, (2, 60)), 20)
    x, y = torch.randn(20, 5), torch.arange(20) % 2
    index = torch.arange(20)
    return graph, x, LabeledNodes(index[:10], y[:10]), LabeledNodes(index[10:], y[10:])


def test_the_best_epoch_is_restored():
    graph, x, nodes, val = problem()
    model = build_model("gcn", "lp", 5, 8, 2, dropout=0.0)
    history = train(
        model, on_graph(graph, x, nodes, val), Schedule(epochs=80, lr=0.05, patience=15)
    )
    assert history.best_epoch < len(history.val_loss) - 1
    with torch.no_grad():
        now = float(val.loss(model(x, graph)))
    assert now == pytest.approx(min(history.val_loss), rel=1e-6)
    assert len(history.val_loss) == history.best_epoch + 16
    assert not model.training


def test_without_validation_the_last_epoch_stays():
    graph, x, nodes, _ = problem()
    model = build_model("gcn", None, 5, 8, 2, dropout=0.0)
    history = train(model, on_graph(graph, x, nodes, None), Schedule(epochs=30))
    assert (len(history.train_loss), history.val_loss, history.best_epoch) == (30, [], 29)
    assert history.train_loss[-1] < history.train_loss[0]


def test_aggregators_have_their_own_learning_rate_and_no_decay():
    graph, x, nodes, _ = problem()
    model = build_model("gcn", "softmax", 5, 8, 2)
    schedule = Schedule(epochs=5, aggregator_lr=0.0, weight_decay=10.0)
    train(model, on_graph(graph, x, nodes, None), schedule)
    assert float(model.learned()["layers.0.gamma"]) == 1.0


def test_divergence_is_an_error_that_says_what_to_do():
    graph, x, nodes, _ = problem()
    model = build_model("gin", None, 5, 8, 2, dropout=0.0)
    with torch.no_grad():
        model.layers[1].nn[2].bias.fill_(float("nan"))
    with pytest.raises(TrainingError, match="lower the learning rate"):
        train(model, on_graph(graph, x, nodes, None), Schedule(epochs=3))


def test_callers_hear_of_every_epoch():
    graph, x, nodes, val = problem()
    heard = []
    model = build_model("gcn", None, 5, 8, 2)
    train(
        model,
        on_graph(graph, x, nodes, val),
        Schedule(epochs=4),
        lambda e, h: heard.append((e, len(h.val_loss))),
    )
    assert heard == [(0, 1), (1, 2), (2, 3), (3, 4)]
