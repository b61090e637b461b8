"""Drawings of some graphs of a collection."""

from __future__ import annotations

import torch

from meanmax.data import Dataset, load
from meanmax.study.report.drawings import SHOWN, example_graphs


def test_classes_take_turns_and_points_lie_in_the_square():
    drawn = example_graphs(load("digits-graphs"))
    assert [one.label for one in drawn] == [str(number) for number in range(SHOWN)]
    for one in drawn:
        assert one.lines
        assert all(0 <= value <= 100 for x, y, _ in one.dots for value in (x, y))
        ends = {end for line in one.lines for end in (line[:2], line[2:])}
        assert ends <= {(x, y) for x, y, _ in one.dots}


def test_nodes_have_the_colour_of_their_largest_feature():
    data = Dataset(
        "pair",
        torch.eye(3)[[0, 2, 1, 1]],
        torch.tensor([1, 0]),
        torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]),
        class_names=("a", "b"),
        graph_ptr=torch.tensor([0, 2, 4]),
        level="graph",
    )
    first, second = example_graphs(data)
    assert (first.label, second.label) == ("a", "b")
    assert [colour for *_, colour in first.dots] == [1, 1]
    assert [colour for *_, colour in second.dots] == [0, 2]
    assert len(first.lines) == 1


def test_nodes_of_one_graph_are_not_drawn():
    assert example_graphs(load("karate")) == []
