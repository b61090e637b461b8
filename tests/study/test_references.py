"""References compared with values worked out by hand, scikit-learn and dense sums of powers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import Normalizer, StandardScaler

from meanmax import SparseFeatures, names
from meanmax.data import Dataset, Split, load, make_split
from meanmax.study import references
from meanmax.study.references import REFERENCES, STRENGTHS, run_reference
from meanmax.train import LabeledNodes
from tests.data.real import FOLDER, needs_planetoid

NODES = 90


def accuracy(scores, targets):
    return LabeledNodes(torch.arange(len(targets)), targets).score(scores)


def minus_error(scores, targets):
    return -float((scores - targets).abs().mean())


METRICS = {"classes": accuracy, "labels": accuracy, "values": minus_error}


def split_of(train, val=(), test=()):
    return Split(*(torch.tensor(part, dtype=torch.int64) for part in (train, val, test)), "own")


def thirds(nodes=NODES):
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(4)).split(nodes // 3)
    return Split(*(part.sort().values for part in order[:3]), "thirds")


def dataset_of(y, edges=(), x=None, num_classes=2, **options):
    """A data set of a few nodes; an edge is stored both ways."""
    ends = torch.tensor(list(edges), dtype=torch.int64).view(-1, 2).T
    x = torch.eye(len(y)) if x is None else x
    both = torch.cat([ends, ends.flip(0)], dim=1)
    class_names = tuple(f"class {number}" for number in range(num_classes))
    return Dataset("made", x, y, both, class_names=class_names, **options)


def made(kind, *, sparse=False, graphs=1):
    """Targets that features and neighbours tell something about."""
    draw = torch.Generator().manual_seed(7)
    x = torch.rand(NODES, 5, generator=draw) * (torch.rand(NODES, 5, generator=draw) > 0.4)
    x = x + 0.01 * torch.rand(NODES, 5, generator=draw)
    noisy = x + 0.15 * torch.randn(NODES, 5, generator=draw)
    y = {
        "classes": noisy[:, :3].argmax(dim=1),
        "labels": (noisy[:, :3] > 0.5).float(),
        "values": noisy[:, 0] - 2 * noisy[:, 1] + 5,
    }[kind]
    size = NODES // graphs
    ends = torch.randint(0, size, (2, 300), generator=draw)
    ends = ends + size * torch.randint(0, graphs, (300,), generator=draw)
    pointer = torch.arange(0, NODES + 1, size)
    features = SparseFeatures.from_dense(x) if sparse else x
    return dataset_of(y, ends.T.tolist(), features, 3, graph_ptr=pointer)


def run(name, data, split, metric=accuracy, **options):
    found = run_reference(name, data, split, metric, **options)
    assert found.scores.dtype == torch.float32
    assert bool(torch.isfinite(found.scores).all())
    return found


def test_names_and_labels_need_no_pytorch():
    assert {name: label for name, (_, label) in REFERENCES.items()} == names.REFERENCES
    with pytest.raises(ValueError, match="unknown reference 'mean': 'name' must be one of 'major"):
        run_reference("mean", made("classes"), thirds(), accuracy)


def test_majority_is_the_frequency_of_training_nodes():
    data = dataset_of(torch.tensor([0, 1, 1, 1, 0, 0, -1]), num_classes=3)
    found = run("majority", data, split_of([0, 1, 2, 3], [4], [5]))
    assert found.chosen == {}
    torch.testing.assert_close(found.scores.exp(), torch.tensor([[0.25, 0.75, 0.0]]).expand(7, 3))
    nan = float("nan")
    labels = torch.tensor([[1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [nan, nan]])
    scores = run("majority", dataset_of(labels), split_of([0, 1, 2, 3])).scores
    torch.testing.assert_close(scores.sigmoid(), torch.tensor([[0.75, 0.25]]).expand(5, 2))
    assert (scores > 0).tolist() == [[True, False]] * 5
    values = dataset_of(torch.tensor([1.0, 2.0, 6.0, nan]))
    assert run("majority", values, split_of([0, 2]), minus_error).scores.tolist() == [3.5] * 4


def test_labels_of_both_ends_meet_in_the_middle_of_a_path():
    y = torch.tensor([0, -1, 1])
    found = run("label-propagation", dataset_of(y, [(0, 1), (1, 2)]), split_of([0, 2]))
    assert found.chosen == {"alpha": 0.9}
    torch.testing.assert_close(found.scores[1].exp(), torch.tensor([0.5, 0.5]))
    y = torch.tensor([0, -1, -1, 1])
    data = dataset_of(y, [(0, 1), (1, 2), (2, 3)])
    scores = run("label-propagation", data, split_of([0, 3])).scores
    assert scores.argmax(dim=1).tolist() == [0, 0, 1, 1]
    torch.testing.assert_close(scores, scores.flip(0).flip(1))


def test_labels_stay_in_their_clique_and_leave_isolated_nodes_to_the_frequencies():
    left = [(a, b) for a in range(3) for b in range(a)]
    right = [(a + 3, b + 3) for a, b in left]
    y = torch.tensor([0, -1, -1, 1, 1, -1, -1])
    data = dataset_of(y, left + right)  # node 6 has no edge
    scores = run("label-propagation", data, split_of([0, 3, 4])).scores
    third = [1 / 3, 2 / 3]
    wanted = [[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 3 + [third]
    torch.testing.assert_close(scores.exp(), torch.tensor(wanted))
    values = replace(data, y=torch.tensor([1.0, 0.0, 0.0, 4.0, 7.0, 0.0, 0.0]))
    found = run("label-propagation", values, split_of([0, 3]), minus_error).scores
    torch.testing.assert_close(found, torch.tensor([1.0, 1.0, 1.0, 4.0, 4.0, 4.0, 2.5]))


@pytest.mark.parametrize("kind", METRICS)
def test_label_propagation_is_a_sum_of_powers(kind):
    draw = np.random.default_rng(3)
    dense = draw.random((12, 12)) * (draw.random((12, 12)) < 0.2)  # directed, with weights
    dense[:, 0] = dense[0] = 0.0
    target, source = dense.nonzero()
    y = {
        "classes": torch.from_numpy(draw.integers(0, 3, 12)),
        "labels": torch.from_numpy(draw.integers(0, 2, (12, 3))).float(),
        "values": torch.from_numpy(draw.random(12)).float(),
    }[kind]
    weight = torch.from_numpy(dense[target, source]).float()
    ends = torch.from_numpy(np.stack([source, target]))
    data = replace(dataset_of(y, num_classes=3), edge_index=ends, edge_weight=weight)
    split = split_of(range(4), range(4, 9))
    found = run("label-propagation", data, split, METRICS[kind])

    rows, columns = dense.sum(axis=1), dense.sum(axis=0)
    step = dense / np.sqrt(np.outer(np.where(rows, rows, 1), np.where(columns, columns, 1)))
    known = np.eye(3)[y.numpy()] if kind == "classes" else y.double().numpy().reshape(12, -1)
    best = -np.inf
    for alpha in (0.5, 0.9, 0.99):
        kernel = sum((1 - alpha) * alpha**k * np.linalg.matrix_power(step, k) for k in range(50))
        kernel = (kernel + alpha**50 * np.linalg.matrix_power(step, 50))[:, :4]
        total = kernel.sum(axis=1, keepdims=True)
        mean = np.where(
            total > 0, kernel @ known[:4] / np.where(total, total, 1), known[:4].mean(0)
        )
        scores = {
            "classes": lambda mean: np.log(np.maximum(mean, 1e-30)),
            "labels": lambda mean: (
                np.log(np.maximum(mean, 1e-30)) - np.log(np.maximum(1 - mean, 1e-30))
            ),
            "values": lambda mean: mean[:, 0],
        }[kind](mean)
        quality = METRICS[kind](torch.from_numpy(scores).float()[split.val], y[split.val])
        if quality > best:
            best, wanted, chosen = quality, scores, alpha
    assert found.chosen == {"alpha": chosen}
    np.testing.assert_allclose(found.scores.numpy(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", METRICS)
def test_logistic_is_scikit_learn_with_the_strength_that_is_best_on_validation_nodes(kind, sparse):
    data, split = made(kind, sparse=sparse), thirds()
    found = run("logistic", data, split, METRICS[kind])
    x = (data.x.to_dense() if sparse else data.x).double().numpy()
    x = Normalizer().fit_transform(x) if sparse else StandardScaler().fit_transform(x)
    y = data.y.numpy()
    scores, quality = {}, {}
    for strength in STRENGTHS:
        model = {
            "classes": LogisticRegression(C=strength, max_iter=300),
            "labels": OneVsRestClassifier(LogisticRegression(C=strength, max_iter=300)),
            "values": Ridge(alpha=1 / (2 * strength)),
        }[kind].fit(x[split.train], y[split.train])
        scores[strength] = {
            "classes": lambda model: model.predict_log_proba(x),
            "labels": lambda model: model.decision_function(x),
            "values": lambda model: model.predict(x),
        }[kind](model)
        own = torch.from_numpy(scores[strength]).float()[split.val]
        quality[strength] = METRICS[kind](own, data.y[split.val])
    chosen = max(quality, key=quality.get)
    assert found.chosen == {"C": chosen}
    assert len(set(quality.values())) > 1  # so that the choice matters
    np.testing.assert_allclose(found.scores.numpy(), scores[chosen], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("kind", METRICS)
@pytest.mark.parametrize("graphs", [1, 3])
def test_only_labels_of_training_and_validation_nodes_are_read(name, kind, graphs):
    data, split = made(kind, graphs=graphs), thirds()
    found = run(name, data, split, METRICS[kind])
    seen = torch.isin(torch.arange(NODES), torch.cat([split.train, split.val]))
    garbage = {"classes": -1, "labels": float("nan"), "values": float("nan")}[kind]
    y = torch.where(seen.view(-1, *[1] * (data.y.dim() - 1)), data.y, garbage)
    again = run(name, replace(data, y=y), replace(split, test=split.test[:0]), METRICS[kind])
    assert torch.equal(again.scores, found.scores)
    assert again.chosen == found.chosen
    graph = data.graph()
    assert torch.equal(run(name, data, split, METRICS[kind], graph=graph).scores, found.scores)


def test_validation_labels_only_choose():
    data, split = made("classes"), thirds()
    for name in REFERENCES:
        y = data.y.clone()
        y[split.val] = (y[split.val] + 1) % 3
        metric = lambda scores, targets: -1.0  # noqa: E731
        found, other = (run(name, replace(data, y=given), split, metric) for given in (data.y, y))
        assert torch.equal(found.scores, other.scores)
        assert list(found.chosen.values()) in ([], [0.01], [0.5])  # the first of equal ones


@pytest.mark.parametrize("nan_at", [0, 1])
def test_a_metric_that_is_not_defined_is_worse_than_any(nan_at):
    seen = []

    def metric(scores, targets):
        seen.append(float("nan") if len(seen) == nan_at else -float(len(seen)))
        return seen[-1]

    found = run("label-propagation", made("classes"), thirds(), metric)
    assert found.chosen == {"alpha": (0.9, 0.5)[nan_at]}
    undefined = run("logistic", made("classes"), thirds(), lambda *_: float("nan"))
    assert undefined.chosen == {"C": 0.01}


def test_without_validation_nodes_the_usual_values_are_taken():
    data, split = made("classes"), replace(thirds(), val=torch.empty(0, dtype=torch.int64))
    chosen = {name: run(name, data, split).chosen for name in REFERENCES}
    assert chosen == {"majority": {}, "logistic": {"C": 1.0}, "label-propagation": {"alpha": 0.9}}


@pytest.mark.parametrize("sparse", [False, True])
def test_one_class_in_training_is_always_predicted(sparse):
    data = made("classes", sparse=sparse)
    same = (data.y == 1).nonzero().view(-1)
    split = split_of(same[:10].tolist(), [0, 1, 2])
    found = run("logistic", data, split)
    assert found.chosen == {}
    assert torch.equal(found.scores, run("majority", data, split).scores)
    assert (found.scores.argmax(dim=1) == 1).all()


def test_classes_and_labels_that_training_nodes_lack():
    data, split = made("classes"), thirds()
    train = split.train[data.y[split.train] != 1]
    found = run("logistic", data, replace(split, train=train))
    assert not (found.scores.argmax(dim=1) == 1).any()
    torch.testing.assert_close(found.scores.exp().sum(dim=1), torch.ones(NODES))
    data = made("labels")
    y = data.y.clone()
    y[split.train, 0], y[split.train, 2] = 0.0, 1.0
    scores = run("logistic", replace(data, y=y), split).scores
    assert (scores[:, 0] < -30).all()
    assert (scores[:, 2] > 30).all()
    assert scores[:, 1].std() > 0


def test_several_graphs_are_scaled_by_training_nodes_alone():
    data, split = made("classes", graphs=3), split_of(range(30), range(30, 60), range(60, 90))
    found = run("logistic", data, split)
    x = data.x.clone()
    x[60:] = 100 * x[60:] + 7
    again = run("logistic", replace(data, x=x), split)
    assert torch.equal(again.scores[:60], found.scores[:60])
    spread = run("label-propagation", data, split)
    frequencies = run("majority", data, split).scores
    assert torch.equal(spread.scores[30:], frequencies[30:])  # no label reaches another graph
    assert not torch.equal(spread.scores[:30], frequencies[:30])


@pytest.mark.parametrize("name", REFERENCES)
def test_graphs_without_edges_or_features(name):
    data, split = made("classes"), thirds()
    no_edges = replace(data, edge_index=torch.empty(2, 0, dtype=torch.int64))
    scores = run(name, no_edges, split).scores
    if name == "label-propagation":
        rest = torch.cat([split.val, split.test])
        assert torch.equal(scores[rest], run("majority", data, split).scores[rest])
    assert run(name, replace(data, x=torch.empty(NODES, 0)), split).scores.shape == (NODES, 3)


def test_a_model_that_has_not_converged_says_nothing(monkeypatch):
    monkeypatch.setattr(references, "MAX_ITER", 1)  # warnings are errors here
    assert run("logistic", made("classes"), thirds()).scores.shape == (NODES, 3)


def test_labels_travel_fifty_steps():
    y = torch.tensor([0] + [-1] * 59 + [1])
    data = dataset_of(y, [(node, node + 1) for node in range(59)])  # node 60 has no edge
    scores = run("label-propagation", data, split_of([0, 60])).scores
    wanted = [[1.0, 0.0]] * 51 + [[0.5, 0.5]] * 9 + [[0.0, 1.0]]
    torch.testing.assert_close(scores.exp(), torch.tensor(wanted))


def test_zero_weights_lead_nowhere():
    data = dataset_of(torch.tensor([0, -1, 1]), [(0, 1), (1, 2)])
    weight = torch.tensor([1.0, 0.0, 1.0, 0.0])  # 0 - 1, and nothing between 1 and 2
    scores = run("label-propagation", replace(data, edge_weight=weight), split_of([0, 2])).scores
    torch.testing.assert_close(scores[1].exp(), torch.tensor([1.0, 0.0]))


@needs_planetoid
def test_cora():
    data = load("cora", data_dir=FOLDER)
    split = make_split(data, "citation", 0)
    found = {
        name: accuracy(run(name, data, split).scores[split.test], data.y[split.test])
        for name in REFERENCES
    }
    assert 0.25 < found["majority"] < 0.35
    assert 0.5 < found["logistic"] < 0.65
    assert 0.65 < found["label-propagation"] < 0.8


def test_ties_of_training_nodes_are_broken_outside_of_the_test_set():
    y = torch.tensor([0, 1, 2] * 2 + [2] * 6 + [0] * 30)
    edges = torch.zeros(2, 0, dtype=torch.int64)
    data = Dataset("made", torch.ones(42, 1), y, edges, class_names=("a", "b", "c"))
    split = Split(torch.arange(3), torch.arange(3, 6), torch.arange(12, 42), "given")
    assert run("majority", data, split).scores.argmax(1).unique().tolist() == [2]
