"""Classifiers trained in batches, from memory and from disk."""

import dataclasses
import threading

import numpy as np
import pytest
import torch

from meanmax import NodeClassifier
from meanmax.data import load, make_split
from meanmax.scale import (
    Batches,
    BatchingError,
    Job,
    Source,
    assign_blocks,
    exact_scores,
    fit_batches,
    layerwise,
    open_folder,
    predict_folder,
    write_folder,
    write_partition,
)
from meanmax.train import Checkpoint, loop
from tests.scale import work
from tests.scale.launch import on_ranks

CLUSTERS = Batches("clusters", parts=6, parts_per_batch=2, cut="blocks")
NEIGHBOURS = Batches("neighbours", fanout=(4, 3), batch_size=7)
DATA = "sbm:nodes=240,edges=1200,seed=1"


@pytest.fixture(scope="module")
def data():
    dataset = load(DATA)
    return dataset, make_split(dataset)


def classifier(epochs=6, **more):
    return NodeClassifier("gcn", "lp", hidden=8, epochs=epochs, patience=epochs, **more)


@pytest.mark.parametrize("batches", [CLUSTERS, NEIGHBOURS], ids=lambda b: b.kind)
@pytest.mark.parametrize("backbone", ["gcn", "masked_gcn", "gat", "sage", "gin", "gen"])
def test_every_backbone_learns(data, batches, backbone):
    dataset, split = data
    source = Source.of_dataset(dataset, split)
    model = NodeClassifier(backbone, "softmax", hidden=16, epochs=30, patience=30)
    fit_batches(model, source, batches)
    graph = dataset.graph()
    score = model.score(graph, dataset.x, dataset.y, split.val)
    assert model.history_.val_score[model.history_.best_epoch] == pytest.approx(score)
    assert max(model.history_.val_score) > 2 / dataset.num_classes
    assert exact_scores(model, source)["test"] == pytest.approx(
        model.score(graph, dataset.x, dataset.y, split.test)
    )


def test_one_batch_of_everything_is_ordinary_training(data, monkeypatch):
    monkeypatch.setattr(
        loop, "restrict_to_field", lambda problem, _: problem
    )  # sums in the same order
    dataset, split = data
    whole = classifier(dropout=0.0)
    whole.fit(dataset.graph(), dataset.x, dataset.y, split.train, split.val,
              class_names=dataset.class_names)  # fmt: skip
    batched = classifier(dropout=0.0)
    fit_batches(batched, Source.of_dataset(dataset, split), Batches("clusters", parts=1))
    assert batched.history_.train_loss == whole.history_.train_loss
    assert batched.history_.val_loss == whole.history_.val_loss
    assert batched.class_names_ == whole.class_names_


@pytest.mark.parametrize("batches", [CLUSTERS, NEIGHBOURS], ids=lambda b: b.kind)
@pytest.mark.parametrize("scale", [False, True])
def test_a_folder_trains_as_memory_does(data, tmp_path, batches, scale):
    dataset, split = data
    folder = write_folder(tmp_path / "g", dataset, split=split)
    found = []
    for source in (
        Source.of_dataset(folder.dataset(), folder.split),
        Source.of_folder(folder, memory=50_000, scratch=tmp_path),
    ):
        model = fit_batches(classifier(scale=scale), source, batches)
        found.append((model, exact_scores(model, source)))
    losses = [np.array(model.history_.val_loss) for model, _ in found]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
    assert found[0][1] == pytest.approx(found[1][1], abs=0.05)
    assert [path.name for path in tmp_path.iterdir()] == ["g"]
    chance = predict_folder(found[1][0], folder, memory=50_000)
    whole = found[1][0].predict_proba(dataset.graph(), dataset.x)
    np.testing.assert_allclose(chance, whole, atol=1e-5)


def test_stored_parts_are_the_clusters(data, tmp_path):
    dataset, split = data
    part = assign_blocks(dataset.graph(), 5)
    source = Source.of_folder(write_folder(tmp_path / "g", dataset, split=split, part=part))
    fit_batches(classifier(2), source, Batches("clusters", parts_per_batch=2))
    with pytest.raises(BatchingError, match="cut into 5 parts already .got parts=6"):
        fit_batches(classifier(2), source, CLUSTERS)


class Stop(Exception):
    pass


@pytest.mark.parametrize("batches", [CLUSTERS, NEIGHBOURS], ids=lambda b: b.kind)
def test_interrupted_training_ends_as_if_it_had_not_been(data, tmp_path, batches):
    dataset, split = data
    source = Source.of_dataset(dataset, split)

    def checkpoint():
        return Checkpoint(tmp_path / "state", run="r", every=0.0)

    def stop(epoch, _):
        if epoch == 3:
            raise Stop

    undisturbed = fit_batches(classifier(8), source, batches)
    with pytest.raises(Stop):
        fit_batches(classifier(8), source, batches, on_epoch=stop, checkpoint=checkpoint())
    resumed = fit_batches(classifier(8), source, batches, checkpoint=checkpoint())
    assert resumed.history_.train_loss == undisturbed.history_.train_loss
    assert resumed.history_.val_loss == undisturbed.history_.val_loss
    for name, value in undisturbed.model_.state_dict().items():
        assert torch.equal(value, resumed.model_.state_dict()[name])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "cluster"}, "'kind' must be one of 'clusters', 'neighbours'"),
        ({"kind": "clusters", "parts": 0}, "'parts' must be a whole number"),
        ({"kind": "neighbours", "batch_size": 0}, "'batch_size' must be a whole number"),
        ({"kind": "neighbours", "parts": 3}, "'parts' has no effect with kind='neighbours'"),
        ({"kind": "clusters", "fanout": (3,)}, r"'fanout' has no effect .* \(got \(3,\)\): leave"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(BatchingError, match=message):
        Batches(**options)


def test_what_batches_cannot_do(data, tmp_path):
    dataset, split = data
    source = Source.of_dataset(dataset, split)
    with pytest.raises(BatchingError, match="'fanout' has 1 hops, but the model has 2 layers"):
        fit_batches(classifier(), source, Batches("neighbours", fanout=(5,)))
    with pytest.raises(BatchingError, match="'fanout' has 3 hops, but the model has 2 layers"):
        fit_batches(classifier(), source, Batches("neighbours", fanout=(5, 5, 5)))
    with pytest.raises(BatchingError, match="needs the whole graph"):
        fit_batches(NodeClassifier("cat", "lp"), source, CLUSTERS)
    with pytest.raises(BatchingError, match="between 1 and all 6 parts"):
        fit_batches(classifier(), source, Batches("clusters", 6, 7, "blocks"))
    with pytest.raises(BatchingError, match="no node that it is for training"):
        Source.of_folder(write_folder(tmp_path / "g", load("karate")))
    folder = write_folder(tmp_path / "h", dataset, split=split)
    held_out = classifier(schedule_options={"schedule": "alternating", "aggregator_loss": "val"})
    with pytest.raises(BatchingError, match="aggregator_loss='val' needs the graph in memory"):
        fit_batches(held_out, Source.of_folder(folder), CLUSTERS)
    wide = NodeClassifier("gcn", "lp", epochs=1).fit(
        dataset.graph(), torch.ones(240, 3), dataset.y, split.train
    )
    with pytest.raises(BatchingError, match="features, but the classifier was trained on 3"):
        predict_folder(wide, open_folder(tmp_path / "h"))


@pytest.mark.parametrize("batches", [CLUSTERS, NEIGHBOURS], ids=lambda b: b.kind)
@pytest.mark.parametrize("in_folder", [False, True])
def test_another_metric_and_balanced_classes(data, tmp_path, batches, in_folder):
    dataset, split = data
    rare = (dataset.y[split.train] == 0).nonzero()[:15, 0]
    kept = torch.ones(len(split.train), dtype=torch.bool).index_fill(0, rare, False)
    split = dataclasses.replace(split, train=split.train[kept])
    source = Source.of_dataset(dataset, split)
    if in_folder:
        source = Source.of_folder(write_folder(tmp_path / "g", dataset, split=split))
    given = {"metric": "roc_auc", "schedule_options": {"select": "score"}}
    plain, weighted = (classifier(class_weight=w, **given) for w in (None, "balanced"))
    for model in (plain, weighted):
        fit_batches(model, source, batches)
    score = weighted.score(dataset.graph(), dataset.x, dataset.y, split.val)
    assert weighted.history_.val_score[weighted.history_.best_epoch] == pytest.approx(score)
    assert max(weighted.history_.val_score) == pytest.approx(score)
    assert exact_scores(weighted, source)["val"] == pytest.approx(score)
    assert plain.history_.train_loss != weighted.history_.train_loss


def test_processes_score_by_counts_alone(data, tmp_path):
    dataset, split = data
    source, job = Source.of_dataset(dataset, split), Job(0, 2, None)
    message = "metric 'roc_auc' needs the outputs of all nodes in one process: leave it out for acc"
    with pytest.raises(BatchingError, match=message):
        fit_batches(classifier(metric="roc_auc"), source, CLUSTERS, job=job)
    part = assign_blocks(dataset.graph(), 1)
    write_partition(tmp_path / "p", dataset, split, part, 1, origin={}, method="blocks")
    refused, scored = on_ranks(work.score_part, 1, tmp_path / "p")[0]
    assert message in refused["metric"]
    assert "class_weight='balanced' needs the labels of all parts" in refused["class_weight"]
    assert scored["accuracy"] == scored[None]


def test_numbers_are_not_learned_in_batches(data):
    dataset, split = data
    numbers = dataclasses.replace(dataset, y=dataset.y.float(), class_names=())
    with pytest.raises(BatchingError, match="are numbers, but only classes and labels"):
        Source.of_dataset(numbers, split)


def test_inference_while_another_thread_trains(data):
    """Kernels are one at a time: blocks of one and batches of another do not get mixed up."""
    dataset, split = data
    source = Source.of_dataset(dataset, split)
    model = fit_batches(classifier(2), source, CLUSTERS).model_
    expected = layerwise(model, dataset.x, dataset.graph())
    thread = threading.Thread(target=lambda: fit_batches(classifier(4), source, NEIGHBOURS))
    thread.start()
    try:
        for _ in range(5):
            assert torch.equal(layerwise(model, dataset.x, dataset.graph()), expected)
    finally:
        thread.join()
