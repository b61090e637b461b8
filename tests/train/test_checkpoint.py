from __future__ import annotations

import os
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from meanmax import build_model
from meanmax.train import Checkpoint, CheckpointError, Sample, Schedule, TrainingProblem, train
from tests.train.problems import small

SCHEDULE = Schedule(epochs=12, schedule="alternating", weight_steps=2, patience=12)


def fitted(checkpoint=None, stop=None, epochs=12):
    torch.manual_seed(3)
    model = build_model("gat", "softmax", 5, 8, 3, heads=2, dropout=0.3)

    def on_epoch(epoch, history):
        if stop is not None and epoch >= stop:
            raise KeyboardInterrupt

    history = train(model, small(), replace(SCHEDULE, epochs=epochs), on_epoch, checkpoint)
    return model, history


def test_a_run_that_was_interrupted_ends_as_one_that_was_not(tmp_path):
    whole, told = fitted()
    checkpoint = Checkpoint(tmp_path / "run.pt", "run", every=0.0)
    with pytest.raises(KeyboardInterrupt):
        fitted(checkpoint, stop=7)
    resumed, retold = fitted(checkpoint)
    assert retold.train_loss == told.train_loss
    assert (retold.val_loss, retold.learned) == (told.val_loss, told.learned)
    assert retold.best_epoch == told.best_epoch
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


def test_a_trained_model_that_was_kept_is_not_trained_again(tmp_path):
    whole, told = fitted()
    checkpoint = Checkpoint(tmp_path / "run.pt", "run", keep=True)
    fitted(checkpoint)
    again, retold = fitted(checkpoint, stop=0)  # which no epoch reaches
    assert (retold.train_loss, retold.best_epoch) == (told.train_loss, told.best_epoch)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


def test_a_run_that_was_kept_continues_with_more_epochs_as_if_it_had_them_at_once(tmp_path):
    whole, told = fitted()
    checkpoint = Checkpoint(tmp_path / "run.pt", "run", keep=True)
    fitted(checkpoint, epochs=5)
    resumed, retold = fitted(checkpoint)
    assert len(told.train_loss) > 5
    assert (retold.train_loss, retold.learned) == (told.train_loss, told.learned)
    assert (retold.val_loss, retold.best_epoch) == (told.val_loss, told.best_epoch)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


def test_a_state_that_is_too_large_is_not_kept(tmp_path):
    model, _ = fitted()
    size = 4 * sum(value.nbytes for value in model.state_dict().values())
    for largest in (size - 1, size):
        checkpoint = Checkpoint(tmp_path / "run.pt", "run", keep=True, largest=largest)
        fitted(checkpoint)
        assert checkpoint.path.exists() == (largest == size)


def test_batches_of_graphs_go_on_in_the_same_order(tmp_path):
    def several(checkpoint=None, stop=None):
        torch.manual_seed(5)
        model = build_model("gcn", "lp", 5, 8, 3, dropout=0.5)
        parts = [small(seed=seed) for seed in range(5)]
        problem = TrainingProblem([part.samples[0] for part in parts], parts[0].val)

        def on_epoch(epoch, history):
            if epoch == stop:
                raise KeyboardInterrupt

        return train(model, problem, SCHEDULE, on_epoch, checkpoint)

    told = several()
    checkpoint = Checkpoint(tmp_path / "run.pt", "run", every=0.0)
    with pytest.raises(KeyboardInterrupt):
        several(checkpoint, stop=4)
    assert several(checkpoint).train_loss == told.train_loss


@pytest.mark.parametrize("damage", ["cut", "text", "pickle", "legacy", "memory", "pipe"])
def test_a_damaged_checkpoint_is_refused_and_nothing_in_it_runs(tmp_path, damage):
    path = tmp_path / "run.pt"
    checkpoint = Checkpoint(path, "run", every=0.0)
    with pytest.raises(KeyboardInterrupt):
        fitted(checkpoint, stop=2)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-200])
    elif damage == "text":
        path.write_text("not a checkpoint")
    elif damage == "pickle":
        path.write_bytes(pickle.dumps(_Touch(str(tmp_path / "touched"))))
    elif damage == "legacy":  # its reader takes as much memory as the pickle says
        torch.save(checkpoint.read(), path, _use_new_zipfile_serialization=False)
    elif damage == "memory":
        with zipfile.ZipFile(path, "w") as archive:
            program = b"\x80\x02cbuiltins\nbytearray\n\x8a\x05\0\0\0\0\1\x85R."  # of 4 GiB
            archive.writestr("run/data.pkl", program)
    else:
        path.unlink()
        getattr(os, "mkfifo", Path.touch)(path)
    with pytest.raises(CheckpointError, match=r"run\.pt .* delete or move it"):
        fitted(checkpoint)
    assert not (tmp_path / "touched").exists()


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fitted(Checkpoint(tmp_path / "run.pt", "one", every=0.0), stop=2)
    with pytest.raises(CheckpointError, match="other settings or data"):
        fitted(Checkpoint(tmp_path / "run.pt", "two"))


@pytest.mark.parametrize("spare", [True, False])
def test_only_what_training_needs_waits_for_the_disk(tmp_path, monkeypatch, spare):
    waits = []
    monkeypatch.setattr(os, "fsync", waits.append)
    checkpoint = Checkpoint(tmp_path / "run.pt", "run", spare=spare)
    checkpoint.write({"epoch": 1})
    assert checkpoint.read()["epoch"] == 1
    assert bool(waits) is not spare


def test_writing_leaves_the_last_one_when_it_fails(tmp_path, monkeypatch):
    checkpoint = Checkpoint(tmp_path / "run.pt", "run", every=0.0)
    checkpoint.write({"epoch": 1})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="No space"):
        checkpoint.write({"epoch": 2})
    monkeypatch.undo()
    assert checkpoint.read()["epoch"] == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "run.pt"]


def test_batches_hold_every_graph_once_and_keep_them_apart():
    parts = [small(num_nodes=n, seed=n) for n in (9, 12, 15)]
    problem = TrainingProblem([part.samples[0] for part in parts], batch_graphs=2)
    torch.manual_seed(0)
    batches = list(problem.batches())
    assert sorted(batch.graph.num_nodes for batch in batches)[-1] < 9 + 12 + 15
    assert sum(batch.graph.num_nodes for batch in batches) == 36
    model = build_model("gcn", "softmax", 5, 4, 3).eval()
    alone = {sample.x.size(0): sample for sample in problem.samples}
    for batch in batches:
        sizes = batch.graph.src_ptr.diff().tolist()
        outs = model(batch.x, batch.graph).split(sizes)
        for size, out in zip(sizes, outs, strict=True):
            sample: Sample = alone[size]
            torch.testing.assert_close(out, sample.output(model))
    targets = sum(float(batch.nodes.target.sum()) for batch in batches)
    assert targets == sum(float(sample.nodes.target.sum()) for sample in problem.samples)


class _Touch:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (Path(self.path),)


@pytest.mark.parametrize("change", [lambda best: best.popitem(), lambda best: best.clear()])
def test_best_weights_of_another_model_are_refused(tmp_path, change):
    checkpoint = Checkpoint(tmp_path / "run.pt", "run", keep=True)
    fitted(checkpoint, epochs=2)
    state = torch.load(checkpoint.path, weights_only=True)
    change(state["best"])
    torch.save(state, checkpoint.path)
    with pytest.raises(CheckpointError, match="its best weights are those of another model"):
        fitted(checkpoint, epochs=2)
