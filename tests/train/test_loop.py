from __future__ import annotations

import pytest
import torch

from meanmax import Graph, build_model
from meanmax.train import LabeledNodes, Sample, Schedule, TrainingError, TrainingProblem, train
from meanmax.train import loop as module
from meanmax.train.problem import Objective


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


# Outputs for validation nodes in three epochs: all are class 0, in a perfect order; one of class 1
# is found, in a worse order; and all are confused.
ORDERED = [[5.0, 1.0], [5.0, 2.0], [5.0, 3.0], [5.0, 4.0]]
FOUND = [[5.0, 1.0], [5.0, 4.0], [5.0, 3.0], [5.0, 6.0]]
WRONG = [[1.0, 2.0], [1.0, 2.0], [2.0, 1.0], [2.0, 1.0]]


@pytest.mark.parametrize(
    ("metric", "scores", "best"),
    [(None, [0.5, 0.75, 0.0], 1), ("roc_auc", [1.0, 0.75, 0.0], 0), ("macro_f1", None, 1)],
)
def test_the_best_epoch_is_that_of_the_metric(monkeypatch, metric, scores, best):
    graph, x, nodes, _ = problem()
    val = LabeledNodes(torch.arange(4), torch.tensor([0, 0, 1, 1]), objective=Objective(metric))
    told, given = [torch.tensor(out) for out in (ORDERED, FOUND, WRONG)], module.output

    def output(model, sample):
        return told.pop(0) if not model.training else given(model, sample)

    monkeypatch.setattr(module, "output", output)
    model = build_model("gcn", None, 5, 8, 2)
    seen = []
    history = train(
        model,
        on_graph(graph, x, nodes, val),
        Schedule(epochs=3, select="score"),
        lambda *_: seen.append(model.layers[0].lin.weight.detach().clone()),
    )
    assert scores is None or history.val_score == scores
    assert history.best_epoch == best
    assert torch.equal(model.layers[0].lin.weight, seen[best])


def test_lower_errors_are_better(monkeypatch):
    graph, x, _, _ = problem()
    objective = Objective("mae", None, 10.0, 2.0)
    nodes = LabeledNodes(torch.arange(10), torch.arange(10.0), objective=objective)
    val = LabeledNodes(torch.arange(2), torch.tensor([10.0, 14.0]), objective=objective)
    told = [torch.tensor([[0.0], [out]]) for out in (0.0, 3.0, 1.0)]
    given = module.output

    def output(model, sample):
        return told.pop(0) if not model.training else given(model, sample)

    monkeypatch.setattr(module, "output", output)
    model = build_model("gcn", None, 5, 8, 1)
    schedule = Schedule(epochs=3, select="score")
    history = train(model, on_graph(graph, x, nodes, val), schedule)
    assert history.val_score == [2.0, 1.0, 1.0]  # off by 4, 2 and 2 on the second of two nodes
    assert history.val_loss == pytest.approx([2.0, 0.5, 0.5])
    assert history.best_epoch == 1


def test_a_metric_that_validation_nodes_do_not_define_is_refused_before_training():
    graph, x, nodes, _ = problem()
    val = LabeledNodes(torch.arange(3), torch.ones(3).long(), objective=Objective("roc_auc"))
    heard = []
    with pytest.raises(ValueError, match="ROC AUC is not defined for the validation nodes, which"):
        train(
            build_model("gcn", None, 5, 8, 2),
            on_graph(graph, x, nodes, val),
            Schedule(epochs=2),
            lambda *_: heard.append(1),
        )
    assert heard == []
