"""The fast backends against the reference, for inputs of ordinary size."""

import pytest
import torch

from meanmax import Graph

from .cases import (
    LOWER,
    ORDINARY,
    assert_agree,
    both_dtypes,
    default_form,
    every_form,
    fast_backend,
    form_with_mu,
    messy_edges,
    messy_weight,
    normal,
    run,
)

EDGES = messy_edges()


def check(form, x, graph, theta, backend, **given):
    # Of one sign, so that the parameter's gradient is no difference of large numbers.
    given.setdefault("upstream", 0.1 + normal(graph.num_dst, *x.shape[1:], seed=4).abs())
    want = run(form, x, graph, theta, "reference", **given)
    got = run(form, x, graph, theta, backend, **given)
    assert_agree(got, want, x, ORDINARY[x.dtype])


@both_dtypes
@pytest.mark.parametrize("offset", [0.0, 0.6, 1.0, 4.0])
@fast_backend
@every_form
def test_every_form(form, backend, offset, dtype):
    theta = torch.full((4,), LOWER[form.kind] + offset)
    x = normal(30, 4).to(dtype)
    check(
        form, x, Graph.from_edge_index(EDGES, 30), theta, backend, edge_weight=messy_weight(EDGES)
    )


@both_dtypes
@fast_backend
@form_with_mu
def test_given_origin(form, backend, dtype):
    x = normal(30, 4).to(dtype)
    graph = Graph.from_edge_index(EDGES, 30, messy_weight(EDGES).to(dtype))
    for offset in (0.0, 1.7):
        theta = torch.full((4,), LOWER[form.kind] + offset)
        check(form, x, graph, theta, backend, mu=x.min() - 0.5)


@both_dtypes
@pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 1), (3, 4), (1, 4), (3,)], ids=str)
@fast_backend
@default_form
def test_parameter_shapes_with_heads(form, backend, shape, dtype):
    theta = LOWER[form.kind] + 0.5 + normal(*shape).abs()
    x = normal(30, 3, 4).to(dtype)
    weight = messy_weight(EDGES, (3,))
    check(form, x, Graph.from_edge_index(EDGES, 30), theta, backend, edge_weight=weight)


@both_dtypes
@pytest.mark.parametrize("heads", [(), (1,), (3,)], ids=["shared", "one", "own"])
@fast_backend
@every_form
def test_weight_heads(form, backend, heads, dtype):
    x, weight = normal(30, 3, 5).to(dtype), messy_weight(EDGES, heads)
    theta = torch.tensor([[1.3], [2.0], [4.0]])
    check(form, x, Graph.from_edge_index(EDGES, 30), theta, backend, edge_weight=weight)
    own = run(form, x, Graph.from_edge_index(EDGES, 30, weight.to(dtype)), theta, backend)
    given = run(form, x, Graph.from_edge_index(EDGES, 30), theta, backend, edge_weight=weight)
    assert torch.equal(own.out, given.out)
    assert torch.equal(own.grads["x"], given.grads["x"])


@fast_backend
@every_form
def test_rectangular(form, backend):
    edges = torch.stack([EDGES[0], EDGES[1] % 9])
    x, weight = normal(30, 4), messy_weight(edges)
    graph = Graph.from_edge_index(edges, (30, 11))
    check(form, x, graph, torch.tensor(2.2), backend, edge_weight=weight)
    assert form(x, graph, 2.2, backend=backend).shape == (11, 4)


@fast_backend
@default_form
def test_features_without_channels_dimension(form, backend):
    x, graph = normal(30), Graph.from_edge_index(EDGES, 30)
    check(form, x, graph, torch.tensor(2.2), backend, edge_weight=messy_weight(EDGES))
    column = form(x.unsqueeze(1), graph, 2.2, backend=backend)
    assert torch.equal(form(x, graph, 2.2, backend=backend), column.squeeze(1))


@fast_backend
@default_form
def test_index_types(form, backend):
    x = normal(30, 4)
    outs = [
        form(x, Graph.from_edge_index(EDGES.to(dtype), 30), 2.2, backend=backend)
        for dtype in (torch.int32, torch.int64)
    ]
    assert torch.equal(*outs)


@fast_backend
@default_form
def test_weights_of_the_graph_receive_their_gradient(form, backend):
    grads = []
    for name in (backend, "reference"):
        weight = messy_weight(EDGES).double().requires_grad_()
        graph = Graph.from_edge_index(EDGES, 30, weight, normalize="sym", self_loops=True)
        form(normal(30, 4).double(), graph, 2.2, backend=name).square().sum().backward()
        grads.append(weight.grad)
    torch.testing.assert_close(*grads, rtol=1e-10, atol=1e-10)


@fast_backend
@every_form
def test_strided_and_transposed_inputs(form, backend):
    x, weight = normal(4, 60).t()[::2], messy_weight(EDGES, (2,))[:, 0]
    assert not x.is_contiguous() and not weight.is_contiguous()
    graph = Graph.from_edge_index(EDGES, 30)
    upstream = normal(4, 30).t()
    got = run(form, x, graph, 2.2, backend, edge_weight=weight, upstream=upstream)
    want = run(form, x.contiguous(), graph, 2.2, backend, edge_weight=weight, upstream=upstream)
    assert torch.equal(got.out, want.out)
    assert torch.equal(got.grads["x"], want.grads["x"])
