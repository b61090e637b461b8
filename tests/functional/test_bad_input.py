"""What a user gets wrong first, and what must not overflow."""

import pytest
import torch

from meanmax import Graph, LpAggregation, functional

EDGES = torch.tensor([[0, 1, 2], [2, 2, 2]])
GRAPH = Graph.from_edge_index(EDGES, 3)


def test_edge_index_in_place_of_the_graph():
    with pytest.raises(ValueError, match=r"'graph' must be a meanmax.Graph \(got Tensor\)"):
        functional.softmax(torch.ones(3, 2), EDGES, 1.0)


@pytest.mark.parametrize("value", [None, "2", [2.0, 3.0], True, 2j])
def test_parameter_that_is_no_number(value):
    with pytest.raises(ValueError, match="'p' must be a real number"):
        functional.lp(torch.ones(3, 2), GRAPH, value)
    with pytest.raises(ValueError, match="'mu' must be a real number"):
        functional.lp(torch.ones(3, 2), GRAPH, 2.0, mu="low" if value is None else value)


def test_weights_that_do_not_fit_the_features():
    heavy = torch.full((3,), 1e300, dtype=torch.float64)
    with pytest.raises(ValueError, match="'edge_weight' must be finite"):
        functional.sum(torch.ones(3, 2), GRAPH, edge_weight=heavy)
    with pytest.raises(ValueError, match=r"'graph.weight' must be finite"):
        functional.softmax(torch.ones(3, 2), GRAPH.with_weight(heavy), 1.0)


@pytest.mark.parametrize("backend", ["numba", "torch", "reference"])
def test_reductions_do_not_overflow(backend):
    x = torch.full((3, 2), 1.5e38, requires_grad=True)
    mean = functional.mean(x, GRAPH, backend=backend)
    torch.testing.assert_close(mean[2], x[0].detach())
    total = functional.sum(x, GRAPH, backend=backend)
    assert total[2, 0] == torch.finfo(torch.float32).max
    (grad,) = torch.autograd.grad(mean.sum(), x)
    torch.testing.assert_close(grad, torch.full((3, 2), 1 / 3))
    heavy = torch.full((3,), 3e38)
    out = functional.mean(torch.ones(3, 2), GRAPH, edge_weight=heavy, backend=backend)
    torch.testing.assert_close(out[2], torch.ones(2))


def test_aggregator_refuses_what_is_no_tensor():
    with pytest.raises(ValueError, match=r"'index' must be a tensor \(got list\)"):
        LpAggregation()(torch.ones(3, 2), [0, 1, 1])
    with pytest.raises(ValueError, match=r"'x' must be a tensor \(got list\)"):
        LpAggregation()([1.0], torch.tensor([0]))
