"""Classifiers and regressors of whole graphs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone, is_classifier
from sklearn.model_selection import cross_val_score
from torch_geometric.data import Batch, Data

from meanmax import GraphClassifier, GraphRegressor, NodeClassifier
from meanmax.data import load, make_split
from meanmax.nn import Readout
from meanmax.train import Settings, TrainingError, load_model

from .collection import collection


def data_list(dataset):
    ptr, edges = dataset.graph_ptr.tolist(), dataset.edge_index
    found = []
    for number, (first, end) in enumerate(zip(ptr, ptr[1:], strict=False)):
        own = edges[:, (edges[0] >= first) & (edges[0] < end)] - first
        found.append(Data(x=dataset.x[first:end], edge_index=own, y=dataset.y[number]))
    return found


def bare(dataset):
    return [Data(x=one.x, edge_index=one.edge_index) for one in data_list(dataset)]


@pytest.fixture(scope="module")
def peaks():
    return collection()


@pytest.fixture(scope="module")
def fitted(peaks):
    split = make_split(peaks, seed=0)
    options = {"layers": 1, "hidden": 16, "epochs": 80, "lr": 0.02, "batch_graphs": 16}
    return GraphClassifier(**options).fit(peaks, train_mask=split.train, val_mask=split.val)


def test_it_learns_what_the_peak_of_a_graph_tells(peaks, fitted):
    split = make_split(peaks, seed=0)
    assert fitted.score(peaks, mask=split.test) > 0.8
    assert fitted.predict_proba(peaks).shape == (60, 2)
    assert fitted.embed(peaks).shape == (60, 16)
    assert set(fitted.maxness(peaks)) == {"layers.0", "readout"}
    assert set(fitted.model_.learned()) == {"layers.0.gamma", "readout.gamma"}


def test_all_forms_of_a_collection_are_the_same_data(peaks, fitted):
    split, listed = make_split(peaks, seed=0), data_list(peaks)
    wanted = fitted.predict_proba(peaks)
    for given in (listed, tuple(listed), Batch.from_data_list(listed)):
        again = clone(fitted).fit(given, train_mask=split.train, val_mask=split.val)
        np.testing.assert_allclose(again.predict_proba(given), wanted, rtol=1e-4, atol=1e-5)
    apart = clone(fitted).fit(peaks.graph(), peaks.x, peaks.y, split.train, split.val)
    np.testing.assert_allclose(apart.predict_proba(peaks.graph(), peaks.x), wanted)


def test_test_graphs_have_no_part_in_training(peaks, fitted):
    split = make_split(peaks, seed=0)
    other = collection()
    rows = torch.isin(other.graph_id, split.test)
    other.x[rows] = 1e3
    other.y[split.test] = 1 - other.y[split.test]
    again = clone(fitted).fit(other, train_mask=split.train, val_mask=split.val)
    for name, value in fitted.model_.state_dict().items():
        assert torch.equal(again.model_.state_dict()[name], value), name


def test_without_a_mask_all_graphs_but_those_of_validation_are_trained_on(peaks):
    small = GraphClassifier(layers=1, hidden=4, epochs=1)
    val = torch.arange(50, 60)
    one = clone(small).fit(peaks, val_mask=val)
    two = clone(small).fit(peaks, train_mask=torch.arange(50), val_mask=val)
    assert one.history_.train_loss == two.history_.train_loss


def test_a_file_keeps_it(tmp_path, peaks, fitted):
    fitted.save(tmp_path / "model.zip")
    loaded = load_model(tmp_path / "model.zip")
    assert isinstance(loaded, GraphClassifier)
    assert np.array_equal(loaded.predict_proba(peaks), fitted.predict_proba(peaks))


def test_nothing_is_scored_without_labels(peaks, fitted):
    with pytest.raises(ValueError, match=r"no labels: pass y, or set data\.y"):
        fitted.score(bare(peaks))
    with pytest.raises(ValueError, match="no graph has a label"):
        fitted.score(load(bare(peaks)))


def test_numbers_are_predicted_in_their_units(tmp_path):
    peaks = collection(120, numbers=True)
    split = make_split(peaks, "random", 0)
    model = GraphRegressor("mlp", None, readout="max", layers=1, epochs=60, lr=0.02)
    model.fit(peaks, train_mask=split.train, val_mask=split.val)
    assert model.score(peaks, mask=split.test) > 0.8
    assert abs(model.predict(peaks).mean() - float(peaks.y.mean())) < 0.5
    model.save(tmp_path / "model.zip")
    assert np.array_equal(load_model(tmp_path / "model.zip").predict(peaks), model.predict(peaks))


@pytest.mark.parametrize(
    "settings",
    [
        {"layers": 2, "norm": "batch", "readout": "sum", "jump": "cat", "lr": 0.01},
        {"nonlinear": "readout"},
        {},
    ],
)
def test_settings_and_parameters_say_the_same(settings):
    given = Settings(backbone="gin", aggr="lp", start=1.5, **settings)
    model = GraphClassifier.from_settings(given)
    found = model.settings()
    for name, value in given.to_dict().items():
        if name != "start":
            assert getattr(found, name) == value
    # What settings leave out is not the estimator's default but build_model's.
    assert found.norm == settings.get("norm")
    assert found.readout == settings.get("readout", "mean")


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda d: NodeClassifier().fit(d), "use GraphClassifier or GraphRegressor"),
        (lambda d: NodeClassifier().fit(data_list(d)), "list of graphs: use GraphClassifier"),
        (lambda d: GraphClassifier().fit(data_list(d)[0]), "this is one graph"),
        (lambda d: GraphClassifier().fit([]), "holds no graph"),
        (lambda d: GraphClassifier("cat").fit(d), "use 'gat'"),
        (lambda d: GraphClassifier(readout="median").fit(d), "unknown readout"),
        (lambda d: GraphClassifier("gcn", "pyg-softmax").fit(d), "has no readout"),
        (lambda d: GraphClassifier().fit(d, train_mask=[60]), "graphs from 0 to 59"),
        (
            lambda d: GraphClassifier().fit(d, train_mask=[0, 1], val_mask=[1, 2]),
            "share 1 graphs",
        ),
        (lambda d: GraphClassifier().fit(d, y=np.arange(7)), "'y' must be"),
        (lambda d: GraphClassifier().fit(bare(d)), "no labels: pass y, or set data.y"),
        (lambda d: GraphRegressor().fit(bare(d)), "no labels: pass y, or set data.y"),
        (lambda d: GraphClassifier().fit(load(bare(d))), "no graph has a label: pass y, or set"),
        (lambda d: GraphClassifier().fit(bare(d), [-1] * 60), "no graph has a label: pass y"),
        (
            lambda d: GraphClassifier().fit(d, val_mask=range(60)),
            "'val_mask' holds all labelled graphs: leave some",
        ),
        (
            lambda d: GraphClassifier().fit(d, y=np.full(60, -1), train_mask=[0, 1, 2]),
            "'train_mask' holds 3 graphs without a label",
        ),
        (
            lambda d: GraphClassifier().fit(
                d, y=np.r_[0, 1, [2] * 58], train_mask=[0, 1], val_mask=[2]
            ),
            "'val_mask' holds graphs with labels that no training graph has",
        ),
        (
            lambda d: GraphClassifier(metric="roc_auc").fit(
                d, train_mask=range(8), val_mask=[8, 10]
            ),
            "not defined for the validation graphs",
        ),
        (lambda d: GraphRegressor().fit(d), "got a multiclass task.*load.*task='regression'"),
        (
            lambda d: GraphRegressor().fit(d, y=[None] * 60, train_mask=[0, 1]),
            "'train_mask' holds 2 graphs without a number",
        ),
    ],
)
def test_wrong_use_says_what_to_do(peaks, fit, message):
    with pytest.raises(ValueError, match=message):
        fit(peaks)


def test_graphs_that_do_not_fit_together_are_refused(peaks):
    listed, none = data_list(peaks), torch.zeros(2, 0, dtype=torch.int64)
    wrong = {
        "graph 60 has features of shape": Data(x=torch.ones(2, 7), edge_index=none, y=0),
        "graph 60 has no features 'x'.*meanmax.data.load": Data(edge_index=none, num_nodes=2, y=0),
        "graph 60 has no nodes": Data(x=torch.ones(0, 3), edge_index=none, y=0),
    }
    for message, one in wrong.items():
        with pytest.raises(ValueError, match=message):
            GraphClassifier().fit([*listed, one])
    listed[3].edge_weight = torch.ones(listed[3].num_edges)
    with pytest.raises(ValueError, match="graph 0 has no 'edge_weight'"):
        GraphClassifier().fit(listed)


def test_rows_of_labels_may_be_missing(peaks):
    listed, small = data_list(peaks), GraphClassifier(layers=1, hidden=4, epochs=1)
    rows = torch.stack([peaks.y, 1 - peaks.y], dim=1)
    for one, row in zip(listed, rows, strict=True):
        one.y = row
    with pytest.raises(ValueError, match=r"got 120 in all.*such as y\[None, :\]"):
        small.fit(listed)
    for one, row in zip(listed, rows, strict=True):
        one.y = row[None, :]
    listed[3].y = None
    known = [number for number in range(60) if number != 3]
    found = clone(small).fit(listed)
    assert found.multilabel_
    assert found.history_.train_loss == (
        clone(small).fit(listed, y=rows, train_mask=known).history_.train_loss
    )
    listed[5].y = "left"
    with pytest.raises(ValueError, match="graph 0 has several labels and others have one"):
        small.fit(listed)


def test_graphs_without_edges_are_sets(peaks):
    none, small = torch.zeros(2, 0).long(), GraphClassifier(layers=1, hidden=4, epochs=2)
    empty = [Data(x=one.x, edge_index=none, y=one.y) for one in data_list(peaks)]
    bare = [Data(x=one.x, y=one.y) for one in empty]
    wanted = clone(small).fit(empty).predict_proba(empty)
    assert np.array_equal(clone(small).fit(bare).predict_proba(bare), wanted)
    with pytest.raises(ValueError, match="graph 1 has no 'edge_index' and others have"):
        small.fit([empty[0], *bare[1:]])
    bare[0].adj_t = torch.eye(2)
    with pytest.raises(ValueError, match="graph 0 has no 'edge_index', but adj_t"):
        small.fit(bare)


def test_only_what_is_learned_from_has_to_be_alike(peaks):
    listed = data_list(peaks)
    listed[0].name = "first"
    small = GraphClassifier(layers=1, hidden=4, epochs=1)
    one = clone(small).fit(listed).history_.train_loss
    assert one == clone(small).fit(iter(data_list(peaks))).history_.train_loss
    part = torch.utils.data.Subset(listed, range(50))
    assert clone(small).fit(part).predict(part).shape == (50,)


def test_graphs_without_label_are_left_out(peaks):
    listed, small = data_list(peaks), GraphClassifier(layers=1, hidden=4, epochs=1)
    names = np.array(["left", "right"], object)[peaks.y.numpy()]
    for number, one in enumerate(listed):
        one.y = None if number in (3, 5) else str(names[number])
    model = small.fit(listed)
    assert set(model.predict(listed)) <= {"left", "right"}
    assert 0 <= model.score(listed) <= 1
    known = [number for number in range(60) if number not in (3, 5)]
    assert model.score(listed) == model.score(listed, mask=known)


def test_scikit_learn_calls_it_with_labels_second(peaks):
    listed, y = data_list(peaks), peaks.y.numpy()
    small = GraphClassifier(layers=1, hidden=4, epochs=2)
    assert clone(small).fit(listed, y).score(listed, y) == clone(small).fit(listed).score(listed)
    assert cross_val_score(small, listed, y, cv=3).shape == (3,)


def test_scikit_learn_stratifies_its_folds(peaks):
    listed = sorted(data_list(peaks), key=lambda one: int(one.y))
    y = np.sort(peaks.y.numpy())
    small = GraphClassifier(layers=1, hidden=4, epochs=2)
    assert is_classifier(small) and is_classifier(NodeClassifier())
    assert not np.isnan(cross_val_score(small, listed, y, cv=2, error_score="raise")).any()


def test_features_beside_a_batch_are_used(peaks, fitted):
    given = Batch.from_data_list(data_list(peaks))
    np.testing.assert_allclose(
        fitted.predict_proba(given, 2 * peaks.x), fitted.predict_proba(peaks.graph(), 2 * peaks.x)
    )
    assert not np.allclose(fitted.predict_proba(given, 2 * peaks.x), fitted.predict_proba(given))


def test_balanced_weights_count_in_batches_of_one_class():
    peaks = collection(40)
    peaks.y[:] = torch.arange(40) % 5 == 0  # 8 of 40
    options = {"layers": 1, "hidden": 4, "epochs": 3, "batch_graphs": 1, "norm": None}
    losses = [
        GraphClassifier(class_weight=weight, **options).fit(peaks).history_.train_loss
        for weight in (None, "balanced")
    ]
    assert abs(losses[0][-1] - losses[1][-1]) > 1e-3


def test_batch_norm_on_a_single_node_says_what_to_do(peaks):
    small = GraphClassifier(layers=1, hidden=4, epochs=1, batch_graphs=1)
    with pytest.raises(TrainingError, match="use norm='layer', or more graphs"):
        small.fit(peaks)


@pytest.mark.parametrize("options", [{"aggr": "spread"}, {"aggr": "lp", "signed": True}])
def test_a_penalty_is_zero_at_the_linear_end_of_signed_parameters(peaks, options):
    aggr = options.pop("aggr")
    model = GraphClassifier(aggr=aggr, layers=1, hidden=4, epochs=2)
    model.set_params(
        schedule_options={"aggregator_decay": 0.1},
        model_options={"aggr_options": options} if options else None,
    )
    assert np.isfinite(model.fit(peaks).history_.train_loss).all()


def test_a_readout_object_is_not_saved(tmp_path, peaks):
    model = GraphClassifier(readout=Readout("max"), aggr=None, layers=1, hidden=4, epochs=1)
    with pytest.raises(ValueError, match="Readout object cannot be saved"):
        model.fit(peaks).save(tmp_path / "model.zip")
    assert not any(tmp_path.iterdir())
