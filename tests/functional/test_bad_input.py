"""What a user gets wrong first, and what must not overflow."""

import pytest
import torch

from meanmax import Graph, LpAggregation, functional
from meanmax.nn import SAGEConv

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


LAYOUTS = {
    "sparse_coo": torch.eye(3).to_sparse(),
    "float8_e4m3fn": torch.ones(3, 3).to(torch.float8_e4m3fn),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("operation", ["softmax", "max"])
def test_features_that_are_not_dense_floats(operation, layout):
    x, rest = LAYOUTS[layout], (GRAPH, 1.0) if operation == "softmax" else (GRAPH,)
    advice = "float16, bfloat16, float32 or float64" if "float8" in layout else "from_torch"
    for call in (getattr(functional, operation), lambda x, *_: LpAggregation()(x, GRAPH)):
        with pytest.raises(ValueError, match=rf"'x' must be .*got .*{layout}\)") as caught:
            call(x, *rest)
        assert advice in str(caught.value)
    with pytest.raises(ValueError, match=f"'x' .*{layout}"):
        SAGEConv(3, 2, aggr="softmax")(x, GRAPH)
    with pytest.raises(ValueError, match=f"'edge_weight' must be .*{layout}"):
        functional.sum(torch.ones(3, 2), GRAPH, edge_weight=x)
    with pytest.raises(ValueError, match=f"'gamma' must be .*{layout}"):
        functional.softmax(torch.ones(3, 3), GRAPH, x[0])


def test_groups_that_no_machine_holds():
    x, far = torch.ones(2, 2), torch.tensor([0, 2**40])
    with pytest.raises(ValueError, match="asks for 1,099,511,627,777 groups"):
        LpAggregation()(x, far)
    with pytest.raises(ValueError, match="'dim_size' asks for 1,099,511,627,776 groups"):
        LpAggregation()(x, torch.tensor([0, 1]), dim_size=2**40)
