"""Some graphs of a batch."""

from __future__ import annotations

import pytest
import torch

from meanmax import Graph, SoftmaxAggregation


def graphs(weights=False):
    draw = torch.Generator().manual_seed(1)
    found = []
    for size in (3, 1, 5, 2):
        edges = torch.randint(0, size, (2, 2 * size), generator=draw)
        weight = torch.rand(2 * size, generator=draw) if weights else None
        found.append(Graph.from_edge_index(edges, size, weight).prepared())
    found.append(Graph.from_edge_index(torch.zeros(2, 0, dtype=torch.int64), 4))  # no edge
    return found[:4] if weights else found


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("chosen", [[2, 0], [3], [1, 1, 2], [0, 1, 2, 3]])
@pytest.mark.parametrize("options", [(None, False), ("sym", True), ("row", False)])
def test_it_is_the_batch_of_these_graphs(weights, chosen, options):
    parts = graphs(weights)
    found = Graph.batch(parts).select(torch.tensor(chosen)).prepared(*options)
    wanted = Graph.batch([parts[number] for number in chosen]).prepared(*options)
    for name in ("rowptr", "col", "src_ptr", "dst_ptr", "colptr", "row", "csc_to_csr"):
        assert torch.equal(getattr(found, name), getattr(wanted, name)), name
    assert found.rowptr.dtype == found.col.dtype == torch.int32
    if wanted.weight is None:
        assert found.weight is None
    else:
        torch.testing.assert_close(found.weight, wanted.weight)


def test_aggregates_are_those_of_the_graphs_alone():
    parts = graphs()
    whole, aggr = Graph.batch(parts), SoftmaxAggregation(1.5)
    x = torch.randn(whole.num_nodes, 4)
    nodes = torch.cat([torch.arange(4, 9), torch.arange(0, 3)])
    found = aggr(x[nodes], whole.select(torch.tensor([2, 0])))
    torch.testing.assert_close(found, aggr(x, whole)[nodes])


def test_learned_weights_keep_their_gradient():
    parts = [Graph.from_edge_index([[0, 1], [1, 0]], 2) for _ in range(2)]
    weight = torch.tensor([1.0, 1.0, 2.0, 3.0], requires_grad=True)
    part = Graph.batch(parts).with_weight(weight).select(torch.tensor([1]))
    part.prepared("row", True).weight.square().sum().backward()
    assert weight.grad[:2].eq(0).all() and weight.grad[2:].ne(0).all()


@pytest.mark.parametrize("wrong", [[-1], [4], []])
def test_other_numbers_are_refused(wrong):
    with pytest.raises(ValueError, match="'graphs' must"):
        Graph.batch(graphs()[:4]).select(torch.tensor(wrong, dtype=torch.int64))
