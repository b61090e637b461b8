from __future__ import annotations

import pytest
import torch

from meanmax import Graph, LpAggregation, PolynomialAggregation, SoftmaxAggregation, maxness

KINDS = (LpAggregation, PolynomialAggregation, SoftmaxAggregation)


def star(leaves=2000):
    r"""One node with many neighbours, and features."""
    torch.manual_seed(0)
    source = torch.arange(leaves)
    graph = Graph.from_edge_index(torch.stack([source, torch.zeros_like(source)]), leaves)
    return graph, torch.rand(leaves, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_edges_are_left_out_in_training_alone(kind):
    graph, x = star()
    aggr, plain = kind(edge_dropout=0.5), kind()
    assert not torch.equal(aggr(x, graph)[0], plain(x, graph)[0])
    assert torch.equal(aggr.eval()(x, graph), plain(x, graph))


def test_it_is_the_aggregate_of_the_edges_that_stay():
    graph, x = star(50)
    aggr = SoftmaxAggregation(edge_dropout=0.4)
    torch.manual_seed(1)
    out = aggr(x, graph)
    seen = []
    aggr._formula = lambda x, graph, theta, weight: seen.append(weight)  # type: ignore
    torch.manual_seed(1)
    aggr(x, graph)
    kept = seen[0] > 0
    assert 0 < int(kept.sum()) < 50
    chosen = x[graph.edge_index[0][kept]]
    expected = (chosen.exp() * chosen).sum(0) / chosen.exp().sum(0)
    torch.testing.assert_close(out[0], expected)


def test_the_weighted_sum_is_kept_in_the_mean():
    graph, x = star()
    aggr = LpAggregation(1.0, edge_dropout=0.5)
    torch.manual_seed(0)
    drawn = torch.stack([aggr(x, graph)[0].detach() for _ in range(200)])
    torch.testing.assert_close(drawn.mean(0), x.sum(0), rtol=0.01, atol=0.0)


def test_all_heads_of_an_edge_go_together_and_messages_are_left_out_too():
    graph, x = star(60)
    aggr = SoftmaxAggregation(edge_dropout=0.5)
    both = torch.stack([x, x], dim=1)
    weight = torch.ones(60, 2)
    out = aggr(both, graph, edge_weight=weight)
    torch.testing.assert_close(out[:, 0], out[:, 1])
    index = torch.zeros(60, dtype=torch.int64)
    assert not torch.equal(aggr(x, index), aggr.eval()(x, index))


def test_maxness_does_not_leave_out_edges():
    graph, x = star()
    torch.testing.assert_close(
        maxness(SoftmaxAggregation(edge_dropout=0.9), x, graph),
        maxness(SoftmaxAggregation(), x, graph),
    )


def test_a_wrong_share_is_refused_and_the_repr_shows_it():
    with pytest.raises(ValueError, match=r"'edge_dropout' must be in \[0, 1\)"):
        LpAggregation(edge_dropout=1.0)
    assert "edge_dropout=0.5" in repr(LpAggregation(edge_dropout=0.5))
