from __future__ import annotations

import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from meanmax.train import History
from meanmax.train.tensorboard import TensorBoard, TensorBoardError


def scalars(folder):
    events = EventAccumulator(str(folder))
    events.Reload()
    return {
        name: [(event.step, event.value) for event in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


def test_every_epoch_is_written(tmp_path):
    learned = {"layers.0.gamma": [[1.0], [1.5]], "layers.1.p": [[2.0, 3.0], [2.5, 3.5]]}
    whole = History([0.5, 0.25], [0.75, 0.5], [0.5, 1.0], learned)
    first = History([0.5], [0.75], [0.5], {name: values[:1] for name, values in learned.items()})
    with TensorBoard(tmp_path / "a" / "b") as board:
        board(0, first)
        board(1, whole)
    assert scalars(tmp_path / "a" / "b") == {
        "loss/train": [(0, 0.5), (1, 0.25)],
        "loss/val": [(0, 0.75), (1, 0.5)],
        "score/val": [(0, 0.5), (1, 1.0)],
        "learned/layers.0.gamma": [(0, 1.0), (1, 1.5)],
        "learned/layers.1.p/0": [(0, 2.0), (1, 2.5)],
        "learned/layers.1.p/1": [(0, 3.0), (1, 3.5)],
    }


def test_without_validation_there_are_fewer_curves(tmp_path):
    with TensorBoard(tmp_path) as board:
        board(0, History([0.5]))
    assert scalars(tmp_path) == {"loss/train": [(0, 0.5)]}


def test_epochs_after_the_last_checkpoint_are_not_there_twice(tmp_path):
    with TensorBoard(tmp_path) as board:
        for epoch in range(4):
            board(epoch, History([1.0] * (epoch + 1)))
    with TensorBoard(tmp_path) as board:  # goes on from the state after epoch 1
        for epoch in (2, 3, 4):
            board(epoch, History([2.0] * (epoch + 1)))
    assert scalars(tmp_path)["loss/train"] == [(0, 1.0), (1, 1.0), (2, 2.0), (3, 2.0), (4, 2.0)]


def test_missing_tensorboard_is_an_error_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(TensorBoardError, match=r"pip install 'meanmax\[tensorboard\]'"):
        TensorBoard(tmp_path / "logs")
    assert not (tmp_path / "logs").exists()
