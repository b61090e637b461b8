"""Maxness: from 0, the mean, to 1, the maximum, and undefined where the two are the same."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from meanmax import Graph, LpAggregation, PolynomialAggregation, SoftmaxAggregation, maxness

from .naive import CLASSES, LOWER, assert_close, every_kind, groups, naive, normal


def some_graph(weight=None):
    edge_index = torch.stack([groups(40, 10, seed=1), groups(40, 8, seed=2)])
    return edge_index, Graph.from_edge_index(edge_index, (10, 8), weight)


@every_kind
def test_the_ends(kind):
    (_, graph), x = some_graph(normal(40, seed=3).abs()), normal(10, 3)
    assert_close(maxness(CLASSES[kind](LOWER[kind]), x, graph), torch.zeros(3), 1e-6)
    assert_close(maxness(CLASSES[kind](1e4), x, graph), torch.ones(3), 1e-2)


@every_kind
@pytest.mark.parametrize("heads", [None, 2])
def test_the_definition(kind, heads):
    weight = normal(40, *([heads] if heads else []), seed=3).abs()
    (src, dst), graph = some_graph()
    x = normal(10, *([heads] if heads else []), 3)
    if kind != "softmax":
        x[9] = x[src].min()  # sent nowhere
    total = torch.zeros(8, *weight.shape[1:]).index_add(0, dst, weight)
    unit = weight / total[dst]
    out = naive(kind, x[src], dst, 8, 2.0, unit)
    mean = naive("softmax", x[src], dst, 8, 0.0, unit)
    share = []
    for v in range(8):
        top = x[src[dst == v]].double().amax(0) if (dst == v).any() else mean[v]
        share.append(
            torch.where(top > mean[v] + 1e-9, (out[v] - mean[v]) / (top - mean[v]), torch.nan)
        )
    got = maxness(CLASSES[kind](2.0), x, graph, edge_weight=weight)
    assert_close(got, torch.stack(share).nanmean(0))
    assert_close(CLASSES[kind](2.0).maxness(x, graph.with_weight(weight)), got, 0.0)


def test_by_hand():
    graph = Graph.from_edge_index([[0, 1, 2, 0], [0, 0, 0, 1]], num_nodes=3)
    x = torch.tensor([[0.0], [2.0], [4.0]])
    # Node 0: mean 2, max 4, sum y^2 / sum y = 20 / 6; nodes 1 and 2 have nothing to choose from.
    assert float(maxness(PolynomialAggregation(1.0), x, graph)) == pytest.approx(2 / 3)


def test_undefined_where_no_node_has_a_maximum_above_its_mean():
    graph = Graph.from_edge_index([[0, 1, 2, 2], [0, 0, 0, 1]], num_nodes=3)
    x = torch.tensor([[0.1, 0.0], [0.1, 1.0], [0.1, 0.0]])
    got = LpAggregation(3.0).maxness(x, graph)
    assert got.isnan().tolist() == [True, False]


def test_undefined_without_edges():
    graph = Graph.from_edge_index([[], []], num_nodes=2)
    assert maxness(LpAggregation(), torch.ones(2, 3), graph).isnan().tolist() == [True] * 3


def test_weights_of_zero_do_not_count():
    graph = Graph.from_edge_index([[0, 1, 0, 1], [0, 0, 1, 1]], num_nodes=2)
    x = torch.tensor([[0.0], [1.0]])
    weight = torch.tensor([1.0, 0.0, 3.0, 1.0])
    # Node 1: mean 1/4, max 1, softmax e / (3 + e).
    out = torch.tensor(1.0).exp() / (3 + torch.tensor(1.0).exp())
    expected = float((out - 0.25) / 0.75)
    assert float(maxness(SoftmaxAggregation(1.0), x, graph, edge_weight=weight)) == pytest.approx(
        expected
    )
    assert maxness(SoftmaxAggregation(1.0), x, graph, edge_weight=0 * weight).isnan().all()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SoftmaxAggregation(2.0, form="sum"), SoftmaxAggregation(2.0)),
        (PolynomialAggregation(2.0, form="sum"), PolynomialAggregation(2.0)),
        (LpAggregation(2.0, shift="paper"), LpAggregation(2.0)),
    ],
)
def test_forms_that_coincide_where_the_weights_sum_to_one(one, other):
    (_, graph), x = some_graph(5 * normal(40, seed=3).abs()), normal(10, 3)
    assert_close(one.maxness(x, graph), other.maxness(x, graph), 1e-6)


def test_the_printed_softmax_is_measured_as_it_is():
    graph = Graph.from_edge_index([[0, 1], [0, 0]])
    x = torch.tensor([[1.0], [2.0]])
    # Half the mean, 0.75, where the mean is 1.5 and the maximum 2.
    aggr = SoftmaxAggregation(0.0, form="paper")
    assert float(aggr.maxness(x, graph)) == pytest.approx((0.75 - 1.5) / 0.5)


def test_it_leaves_no_gradient_and_keeps_the_dtype():
    (_, graph), aggr = some_graph(), SoftmaxAggregation(1.0)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        got = aggr.maxness(normal(10, 3).to(dtype).requires_grad_(), graph)
        assert got.dtype == dtype and not got.requires_grad
    assert aggr.raw.grad is None


@every_kind
@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.data())
def test_it_lies_between_zero_and_one(kind, data):
    theta = data.draw(st.floats(LOWER[kind], 200.0))
    values = st.floats(-1e3, 1e3, width=32)
    x = torch.tensor(data.draw(st.lists(values, min_size=6, max_size=6))).view(6, 1)
    ends = st.lists(st.integers(0, 5), min_size=9, max_size=9)
    weights = st.lists(st.floats(0.0, 10.0, width=32), min_size=9, max_size=9)
    graph = Graph.from_edge_index([data.draw(ends), data.draw(ends)], 6, data.draw(weights))
    sign = {} if kind == "softmax" else {"sign": data.draw(st.sampled_from(["shift", "abs"]))}
    got = CLASSES[kind](theta, **sign).maxness(x, graph)
    assert got.isnan() or -1e-4 <= float(got) <= 1 + 1e-4
