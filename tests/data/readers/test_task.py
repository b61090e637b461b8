"""Labels that are declared to be classes or a regression target."""

from __future__ import annotations

import numpy as np
import pytest

from meanmax.data import DataError, load
from meanmax.data.readers import check

pytestmark = pytest.mark.extra  # tables are read with pyarrow
AGES = ["18", "90", "", "42", "18"]


def table(folder, labels):
    lines = [f"{number},{number % 3},{label}" for number, label in enumerate(labels)]
    (folder / "nodes.csv").write_text("id,height,label\n" + "\n".join(lines) + "\n")
    (folder / "edges.csv").write_text("source,target\n0,1\n1,2\n2,3\n3,4\n")
    return folder


def arrays(folder, labels):
    path = folder / "graph.npz"
    x = np.ones((len(labels), 2), np.float32)
    np.savez(path, edges=np.array([[0, 1], [1, 2], [2, 3]]), features=x, labels=labels)
    return path


def test_whole_numbers_can_be_a_target(tmp_path):
    assert load(table(tmp_path, AGES)).task == "multiclass"
    found = load(tmp_path, task="regression")
    assert (found.task, found.class_names) == ("regression", ())
    assert np.array_equal(found.y.numpy(), [18, 90, np.nan, 42, 18], equal_nan=True)
    assert not [note for note in found.notes if "regression" in note]
    assert load(tmp_path, task="classification").class_names == ("18", "42", "90")


def test_many_different_whole_numbers_are_no_names(tmp_path):
    table(tmp_path, [str(20 + number) for number in range(30)])
    with pytest.raises(DataError, match="occurs at one node only"):
        load(tmp_path)
    assert load(tmp_path, task="regression").y.tolist() == list(range(20, 50))


@pytest.mark.parametrize("kind", [np.int64, np.float32, str])
def test_arrays_of_whole_numbers(tmp_path, kind):
    path = arrays(tmp_path, np.array([7, 30, 7, 12]).astype(kind))
    assert load(path, task="regression").y.tolist() == [7, 30, 7, 12]


@pytest.mark.parametrize(
    ("labels", "task", "said"),
    [
        (["1.5", "2", "3", "1", "2"], "classification", "not whole numbers, and task='class"),
        (["a", "b", "1", "a", "b"], "regression", "are not numbers, and task='regression'"),
        (["1|2", "2", "1", "1", "2"], "regression", "are not numbers, and task='regression'"),
    ],
)
def test_labels_that_do_not_fit_the_task(tmp_path, labels, task, said):
    with pytest.raises(DataError, match=said):
        load(table(tmp_path, labels), task=task)
    assert any(said in str(problem) for problem in check(tmp_path, task=task))


def test_numbers_below_zero_are_not_lost(tmp_path):
    path = arrays(tmp_path, np.array([-7, 30, 7, 12]))
    with pytest.raises(DataError, match="labels below 0 are read as none"):
        load(path, task="regression")
    assert load(table(tmp_path, ["-7", "30", "7", "12", ""]), task="regression").y[0] == -7
    path = arrays(tmp_path, np.array([-7, 30, 7, 12]).astype(str))
    assert load(path, task="regression").y[0] == -7


def test_wrong_tasks(tmp_path):
    with pytest.raises(DataError, match="'task' must be one of 'classification', 'regression'"):
        load(table(tmp_path, AGES), task="ranking")
    with pytest.raises(DataError, match="'task' is for graphs of your own"):
        load("karate", task="regression")
