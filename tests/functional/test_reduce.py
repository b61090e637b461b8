import numpy as np
import pytest
import scipy.sparse
import torch
from torch.autograd import gradcheck

from meanmax import Graph, functional

from ..ops.cases import (
    both_dtypes,
    every_backend,
    fast_backend,
    messy_edges,
    messy_weight,
    normal,
)

EDGES = messy_edges()
WEIGHT = messy_weight(EDGES)
REDUCTIONS = {"sum": functional.sum, "mean": functional.mean, "max": functional.max}
every_reduction = pytest.mark.parametrize("reduction", REDUCTIONS.values(), ids=REDUCTIONS)


def matrix():
    size = (30, 30)
    return scipy.sparse.coo_array((WEIGHT.double().numpy(), (EDGES[1], EDGES[0])), size).tocsr()


@both_dtypes
@every_backend
def test_sum_and_mean(backend, dtype):
    x, tol = normal(30, 4).to(dtype), 1e-5 if dtype == torch.float32 else 1e-12
    graph = Graph.from_edge_index(EDGES, 30, WEIGHT.to(dtype))
    total = matrix().sum(axis=1)[:, None]
    want = matrix() @ x.double().numpy()
    np.testing.assert_allclose(functional.sum(x, graph, backend=backend), want, rtol=tol, atol=tol)
    want = np.divide(want, total, out=np.zeros_like(want), where=total > 0)
    np.testing.assert_allclose(functional.mean(x, graph, backend=backend), want, rtol=tol, atol=tol)


@both_dtypes
@every_backend
def test_max(backend, dtype):
    x = normal(30, 4).to(dtype)
    out = functional.max(x, Graph.from_edge_index(EDGES, 30), edge_weight=WEIGHT, backend=backend)
    for node in range(30):
        near = EDGES[0, (EDGES[1] == node) & (WEIGHT > 0)]
        want = x[near].amax(0) if len(near) else torch.zeros(4, dtype=dtype)
        assert torch.equal(out[node], want)


@every_reduction
@every_backend
def test_table(reduction, backend):
    """Three neighbours, one of weight 0; one neighbour; none; one of weight 0."""
    x = torch.tensor([[1.0], [-4.0], [8.0]])
    edges = [[0, 1, 2, 1, 2], [0, 0, 0, 1, 3]]
    weight = torch.tensor([1.0, 3.0, 0.0, 2.0, 0.0])
    out = reduction(x, Graph.from_edge_index(edges, (3, 4)), edge_weight=weight, backend=backend)
    want = {
        functional.sum: [-11.0, -8.0, 0.0, 0.0],
        functional.mean: [-2.75, -4.0, 0.0, 0.0],
        functional.max: [1.0, -4.0, 0.0, 0.0],
    }
    assert out.flatten().tolist() == want[reduction]


@pytest.mark.parametrize("heads", [(), (2,)], ids=["shared", "heads"])
@every_reduction
@every_backend
def test_gradients(reduction, backend, heads):
    x = normal(30, 2, 3).double().requires_grad_()
    weight = (0.1 + messy_weight(EDGES, heads)).double().requires_grad_()
    graph = Graph.from_edge_index(EDGES, 30)
    assert gradcheck(
        lambda x, weight: reduction(x, graph, edge_weight=weight, backend=backend),
        (x, weight),
        fast_mode=True,
    )


@every_reduction
@fast_backend
def test_gradients_agree_with_the_reference(reduction, backend):
    grads = []
    for name in (backend, "reference"):
        x, weight = normal(30, 4).requires_grad_(), WEIGHT.clone().requires_grad_()
        out = reduction(x, Graph.from_edge_index(EDGES, 30), edge_weight=weight, backend=name)
        out.backward(normal(30, 4, seed=8))
        grads.append((x.grad, torch.zeros_like(weight) if weight.grad is None else weight.grad))
    for got, want in zip(*grads, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


@every_backend
def test_ties_share_the_gradient_of_the_maximum(backend):
    x = torch.tensor([[2.0], [2.0], [1.0], [2.0]], requires_grad=True)
    graph = Graph.from_edge_index([[0, 1, 2, 3, 3], [0, 0, 0, 0, 1]], 4)
    weight = torch.tensor([1.0, 5.0, 1.0, 0.0, 1.0])
    functional.max(x, graph, edge_weight=weight, backend=backend)[0].backward()
    assert x.grad.flatten().tolist() == [0.5, 0.5, 0.0, 0.0]


@every_reduction
@every_backend
def test_rows_without_weight(reduction, backend):
    x = (5 + normal(4, 2)).requires_grad_()
    weight = torch.zeros(2, requires_grad=True)
    graph = Graph.from_edge_index([[0, 1], [0, 0]], 4)
    out = reduction(x, graph, edge_weight=weight, backend=backend)
    assert (out == 0).all()
    out.sum().backward()
    assert (x.grad == 0).all()


@every_reduction
@every_backend
def test_no_edges(reduction, backend):
    x = normal(3, 2).requires_grad_()
    out = reduction(x, Graph.from_edge_index([[], []], 3), backend=backend)
    out.sum().backward()
    assert (out == 0).all() and (x.grad == 0).all()


@every_reduction
@fast_backend
def test_second_derivatives_are_refused(reduction, backend):
    x = normal(30, 2).requires_grad_()
    out = reduction(x, Graph.from_edge_index(EDGES, 30), backend=backend)
    (grad,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        grad.sum().backward()


@every_reduction
@every_backend
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_features_must_be_finite(reduction, backend, bad):
    x = normal(30, 2)
    x[3, 1] = bad
    with pytest.raises(ValueError, match="'x' must be finite"):
        reduction(x, Graph.from_edge_index(EDGES, 30), backend=backend)


@pytest.mark.parametrize(
    ("weight", "size"),
    [
        ([1e-39, 0.0, 2e-39], 1.0),
        ([3e-39, 1e-39, 1e-45], 1e10),
        ([1e-20, 2e-20, 3e-20], 1e-22),
        ([1e-12, 2e-12, 1.0], 1e-30),
        ([1e-30, 1e-38, 1e30], 1e30),
        ([1e38, 2e38, 1e-10], 1e30),
    ],
)
@both_dtypes
@every_backend
def test_mean_with_weights_of_any_size(backend, dtype, weight, size):
    """What a row without weight is, is the same everywhere: one whose weights are all 0."""
    x = (size * torch.tensor([[1.0, -2.0], [3.0, 0.5], [7.0, 1.0]])).to(dtype).requires_grad_()
    weight = torch.tensor([*weight, 0.0], dtype=dtype, requires_grad=True)
    graph = Graph.from_edge_index([[0, 1, 2, 0], [0, 0, 1, 2]], (3, 4))
    out = functional.mean(x, graph, edge_weight=weight, backend=backend)
    a, z = weight.detach().double()[:2], x.detach().double()
    share = a / a.sum()
    want = torch.stack([share @ z[:2], z[2], 0 * z[0], 0 * z[0]])
    torch.testing.assert_close(out.double(), want, rtol=1e-5, atol=0)
    torch.testing.assert_close(functional.mean(x, graph.with_weight(weight), backend=backend), out)
    dx, dw = torch.autograd.grad(out.sum(), (x, weight))
    want = torch.stack([share[0], share[1], torch.tensor(1.0)]).unsqueeze(1).expand(3, 2)
    torch.testing.assert_close(dx.double(), want, rtol=1e-5, atol=1e-44)
    limit = torch.finfo(dtype).max
    want = ((z[:2] - share @ z[:2]).sum(1) / a.sum()).clamp(-limit, limit)
    torch.testing.assert_close(dw[:2].double(), want, rtol=1e-5, atol=1e-5 * want.abs().max())
    assert torch.isfinite(dw).all() and dw[3] == 0
