"""Options of a classifier: schedules, PyG baselines, names, checkpoints."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

from meanmax import NodeClassifier
from meanmax.data import load, make_split
from meanmax.nn import PYG_BASELINES
from meanmax.train import Checkpoint, CheckpointError


@pytest.fixture(scope="module")
def wine():
    dataset = load("wine")
    split = make_split(dataset)
    return dataset.graph(), dataset.x, dataset.y, split.train, split.val


def quick(**params) -> NodeClassifier:
    return NodeClassifier(**{"hidden": 8, "epochs": 25, **params})


def weights(model: NodeClassifier) -> dict[str, torch.Tensor]:
    return model.model_.state_dict()


def assert_same_weights(first: NodeClassifier, second: NodeClassifier) -> None:
    assert weights(first).keys() == weights(second).keys()
    for name, value in weights(first).items():
        assert torch.equal(value, weights(second)[name]), name


def test_schedule_options_reach_training(wine):
    held = quick(schedule_options={"schedule": "alternating", "aggregator_lr": 0.0}).fit(*wine)
    moved = quick(schedule_options={"schedule": "alternating", "aggregator_lr": 0.1}).fit(*wine)
    assert float(held.model_.learned()["layers.0.gamma"]) == 1.0
    assert float(moved.model_.learned()["layers.0.gamma"]) != 1.0
    chosen = quick(schedule_options={"select": "score"}).fit(*wine).history_
    best = max(chosen.val_score)
    assert chosen.val_score[chosen.best_epoch] == best


def test_aggregators_have_the_learning_rate_of_weights_unless_they_have_their_own(wine):
    same = quick(schedule_options={"aggregator_lr": 0.01, "weight_steps": 1}).fit(*wine)
    assert_same_weights(quick().fit(*wine), same)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aggregator_rate": 1.0}, "'schedule_options' has no 'aggregator_rate'; it may hold agg"),
        ({"epochs": 3}, "'schedule_options' has no 'epochs'"),
        ({"weight_steps": 0}, "'weight_steps' must be a whole number from 1 on"),
        ({"select": "luck"}, "'select' must be one of 'loss', 'score', 'both'"),
        ([("select", "loss")], "'schedule_options' must be a dictionary or None"),
    ],
)
def test_wrong_schedule_options(wine, options, message):
    with pytest.raises(ValueError, match=message):
        quick(schedule_options=options).fit(*wine)


@pytest.mark.parametrize("baseline", PYG_BASELINES)
def test_pyg_baselines_by_name(wine, baseline, tmp_path):
    graph, x, y, train, val = wine
    model = quick(aggr=baseline, epochs=40).fit(*wine)
    assert type(model.model_).__name__ == "PyGBaseline"
    assert model.score(graph, x, y) > 0.8
    assert model.maxness(graph, x) == {}
    model.save(tmp_path / "baseline.zip")
    again = NodeClassifier.load(tmp_path / "baseline.zip")
    np.testing.assert_array_equal(again.predict_proba(graph, x), model.predict_proba(graph, x))


def test_pyg_baselines_have_no_model_options(wine):
    with pytest.raises(ValueError, match="'model_options' has no effect with aggr='pna'"):
        quick(aggr="pna", model_options={"norm": "batch"}).fit(*wine)


def test_named_classes_count_without_training_nodes(wine):
    graph, x, y, train, val = wine
    names = ("red", "rosé", "white", "none at all")
    with pytest.raises(ValueError, match="labels that no training node has"):
        quick(epochs=2).fit(graph, x, y, train[y[train] < 2], val)
    model = quick(epochs=2).fit(graph, x, y, train[y[train] < 2], val, class_names=names)
    assert model.class_names_ == names
    assert model.predict_proba(graph, x).shape == (178, 4)
    assert quick(epochs=2).fit(*wine).class_names_ == ("0", "1", "2")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a", "b"), "'class_names' has 2 names, but 'y' holds classes 0, 1, 2"),
        (("a", "b", "a"), "must be different names"),
        ("abc", "must be different names"),
    ],
)
def test_wrong_names(wine, names, message):
    with pytest.raises(ValueError, match=message):
        quick().fit(*wine, class_names=names)


def test_names_of_labels_must_be_as_many(wine):
    graph, x, y, train, val = wine
    labels = torch.stack([y == 0, y < 2], dim=1).float()
    model = quick(epochs=2).fit(graph, x, labels, train, val, class_names=("red", "pale"))
    assert model.class_names_ == ("red", "pale")
    with pytest.raises(ValueError, match="3 names, but 'y' holds 2 labels"):
        quick().fit(graph, x, labels, train, val, class_names=("a", "b", "c"))


def test_an_interrupted_fit_goes_on_bit_for_bit(wine, tmp_path):
    whole = quick(schedule_options={"schedule": "alternating"}).fit(*wine)
    epochs = []

    def interrupt(epoch, history):
        epochs.append(epoch)
        if len(epochs) == 11:
            raise KeyboardInterrupt

    path = tmp_path / "state"
    half = quick(schedule_options={"schedule": "alternating"})
    with pytest.raises(KeyboardInterrupt):
        half.fit(*wine, on_epoch=interrupt, checkpoint=Checkpoint(path, "a run", every=0.0))
    half.fit(*wine, on_epoch=interrupt, checkpoint=Checkpoint(path, "a run", every=0.0))
    assert epochs == [*range(11), *range(10, 25)]  # of the eleventh nothing was kept
    assert_same_weights(whole, half)
    assert half.history_.val_loss == whole.history_.val_loss
    with pytest.raises(CheckpointError, match="other settings or data: delete or move it"):
        quick().fit(*wine, checkpoint=Checkpoint(path, "another run"))


def test_maxness_of_a_linear_layer_is_zero(wine):
    found = quick(epochs=2).fit(*wine).maxness(*wine[:2])
    assert found.keys() == {"layers.0", "layers.1"}
    np.testing.assert_allclose(found["layers.1"], 0, atol=1e-5)
    assert (found["layers.0"] > 0.01).all()


@pytest.fixture(scope="module")
def rare():
    """A rare class that features tell from the other one with much noise."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 300, (2, 300), generator=generator)
    y = (torch.rand(300, generator=generator) < 0.1).long()
    x = torch.randn(300, 4, generator=generator) + y[:, None]
    return edges, x, y, torch.arange(200), torch.arange(200, 250)


def test_balanced_weights_find_the_rare_class(rare):
    edges, x, y, *_ = rare
    test = torch.arange(250, 300)
    plain, weighted = (quick(class_weight=w, epochs=60).fit(*rare) for w in (None, "balanced"))
    found = [np.sum(model.predict(edges, x)[test.numpy()] == 1) for model in (plain, weighted)]
    assert found[0] < int(y[test].sum()) < found[1]


@pytest.mark.parametrize(
    ("metric", "function"),
    [("roc_auc", roc_auc_score), ("average_precision", average_precision_score)],
)
def test_another_metric_selects_and_scores(rare, metric, function, tmp_path):
    edges, x, y, _, val = rare
    model = quick(metric=metric, schedule_options={"select": "score"}).fit(*rare)
    history = model.history_
    assert history.val_score[history.best_epoch] == max(history.val_score)
    expected = function(y[val], model.predict_proba(edges, x)[val, 1])
    assert model.score(edges, x, y, val) == pytest.approx(expected, abs=1e-6)
    assert max(history.val_score) == pytest.approx(expected, abs=1e-6)
    model.save(tmp_path / "model")
    again = NodeClassifier.load(tmp_path / "model")
    assert again.metric_ == metric
    assert again.score(edges, x, y, val) == model.score(edges, x, y, val)
    assert np.isnan(model.score(edges, x, y, (y == 0).nonzero()[:, 0]))


def test_metrics_and_weights_have_to_fit(rare):
    edges, x, y, train, val = rare
    with pytest.raises(ValueError, match="ROC AUC is not defined for the validation nodes, which"):
        quick(metric="roc_auc").fit(edges, x, y, train, val[y[val] == 0])
    with pytest.raises(ValueError, match="for a multiclass task .got 'micro_f1'"):
        quick(metric="micro_f1").fit(*rare)
    labels = torch.stack([y, 1 - y], dim=1)
    with pytest.raises(ValueError, match="class_weight='balanced' needs one class for each node"):
        quick(class_weight="balanced").fit(edges, x, labels, train, val)
    assert (
        quick(metric="macro_f1", epochs=2).fit(edges, x, labels, train, val).metric_ == "macro_f1"
    )


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1, 10**30, 1.5, "1", None, True])
def test_a_seed_that_no_generator_takes(wine, seed):
    with pytest.raises(ValueError, match=r"'seed' must be a whole number from -2\*\*63 to 2\*\*64"):
        quick(seed=seed).fit(*wine)


@pytest.mark.parametrize("seed", [2**64 - 1, np.int64(3)])
def test_large_seeds_and_those_of_numpy(wine, seed):
    again = quick(seed=int(seed), epochs=1).fit(*wine)
    assert_same_weights(quick(seed=seed, epochs=1).fit(*wine), again)


def test_complex_features(wine):
    graph, x, *rest = wine
    with pytest.raises(ValueError, match=r"'x' must hold numbers \(got torch.complex64\)"):
        quick().fit(graph, x + 0j, *rest)
