"""torch.func and forward mode: they work on the reference backend, elsewhere a sentence says so."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jacfwd, jacrev, jvp, vmap

from meanmax import Graph, SoftmaxAggregation, functional

from ..ops.cases import fast_backend, messy_edges, normal

GRAPH = Graph.from_edge_index(messy_edges(), 30)
X, GAMMA = normal(30, 4).double(), torch.tensor(1.5, dtype=torch.float64)


def by_parameter(gamma, backend="reference"):
    return functional.softmax(X, GRAPH, gamma, backend=backend).square().sum()


def by_features(x, backend="reference"):
    return functional.softmax(x, GRAPH, GAMMA, backend=backend).sum(0)


CALLS = {
    "grad": lambda backend: grad(by_parameter)(GAMMA, backend),
    "jacrev": lambda backend: jacrev(by_features)(X, backend),
    "jvp": lambda backend: jvp(lambda x: by_features(x, backend), (X,), (X,)),
}


@pytest.mark.parametrize("name", CALLS)
@fast_backend
def test_transforms_are_refused_by_name(backend, name):
    shown = {"jacrev": "grad"}.get(name, name)
    with pytest.raises(RuntimeError, match=rf"torch.func.{shown} does not reach.*torch.autograd"):
        CALLS[name](backend)


@fast_backend
def test_vmap_and_forward_mode_are_refused(backend):
    with pytest.raises(RuntimeError, match=r"torch.func.vmap.*once for each value"):
        vmap(lambda gamma: by_parameter(gamma, backend))(torch.ones(2))
    with pytest.raises(RuntimeError, match=r"torch.func.vmap.*once for each value"):
        vmap(lambda x: functional.max(x, GRAPH, backend=backend))(torch.ones(2, 30, 4))
    with (
        forward_ad.dual_level(),
        pytest.raises(RuntimeError, match=r"no forward-mode derivative: use backward"),
    ):
        functional.softmax(forward_ad.make_dual(X, X), GRAPH, GAMMA, backend=backend)


def test_layers_are_refused():
    layer = SoftmaxAggregation()
    parameters = dict(layer.named_parameters())
    with pytest.raises(RuntimeError, match=r"torch.func.grad.*backend='reference'"):
        grad(lambda p: functional_call(layer, p, (X, GRAPH)).sum())(parameters)


def test_reference_is_plain_pytorch():
    gamma, x = GAMMA.clone().requires_grad_(), X.clone().requires_grad_()
    (want,) = torch.autograd.grad(by_parameter(gamma), gamma)
    torch.testing.assert_close(grad(by_parameter)(GAMMA), want)
    torch.testing.assert_close(jacfwd(by_parameter)(GAMMA), want)
    want = torch.autograd.functional.jacobian(by_features, x)
    torch.testing.assert_close(jacrev(by_features)(X), want)
    torch.testing.assert_close(jvp(by_features, (X,), (X,))[1], (want * X).sum((1, 2)))


def test_an_index_that_is_made_inside_of_a_transform_is_refused():
    aggr = SoftmaxAggregation()
    with pytest.raises(RuntimeError, match="make the graph, or the index, before"):
        torch.func.grad(lambda x: aggr(x, torch.tensor([0, 0, 1])).sum())(torch.ones(3, 2))
    with pytest.raises(RuntimeError, match="make the graph, or the index, before"):
        torch.func.grad(lambda x: Graph.from_edge_index(torch.tensor([[0], [1]])).num_edges * x)(
            torch.ones(())
        )
