"""What holds where the formulas leave a choice: zero distance, ties, rows without weight."""

import math

import pytest
import torch

from meanmax import Graph, functional

from .cases import (
    FORMS,
    LOWER,
    every_backend,
    every_form,
    fast_backend,
    form_with_mu,
    messy_edges,
    normal,
    run,
    star,
)

POLYNOMIAL = next(form for form in FORMS if str(form) == "polynomial-weighted-shift")
LP = next(form for form in FORMS if str(form) == "lp-consistent-shift")
ONE = torch.ones(1, 1)


@every_backend
@form_with_mu
def test_ties_at_the_minimum_share_its_gradient(form, backend):
    x = normal(12, 3).double().clamp(min=-0.5)
    ties = x == x.min()
    assert ties.sum() > 3
    graph = Graph.from_edge_index(messy_edges(12, 40), 12)
    theta = LOWER[form.kind] + 2.0
    shared = run(form, x, graph, theta, backend).grads["x"]
    fixed = run(form, x, graph, theta, backend, mu=x.min())
    leaf = x.clone().requires_grad_()
    leaf.amin().backward()
    want = fixed.grads["x"] + fixed.grads["mu"] * leaf.grad
    torch.testing.assert_close(shared, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("alpha", "value", "at_origin"),
    [
        (0.0, 1.5, 0.5),  # the mean of 0 and 3
        (0.5, 3.0, 0.0),  # y^0.5 has an infinite slope at 0, taken as 0
        (1.0, 3.0, -1.0),  # d/dy (y^2 + 9) / (y + 3) at 0
        (2.0, 3.0, 0.0),
    ],
)
@every_backend
def test_polynomial_of_a_neighbour_at_the_origin(backend, alpha, value, at_origin):
    x, graph = star([0.0, 3.0], dtype=torch.float64)
    got = run(POLYNOMIAL, x, graph, alpha, backend, mu=0.0, upstream=ONE)
    assert got.out.item() == pytest.approx(value)
    assert got.grads["x"][0].item() == pytest.approx(at_origin, abs=1e-12)


@pytest.mark.parametrize(("p", "at_origin"), [(1.0, 1.0), (1.5, 0.0), (2.0, 0.0), (7.0, 0.0)])
@every_backend
def test_lp_of_a_neighbour_at_the_origin(backend, p, at_origin):
    x, graph = star([0.0, 3.0], dtype=torch.float64)
    got = run(LP, x, graph, p, backend, mu=0.0, upstream=ONE)
    assert got.out.item() == pytest.approx(3.0)
    assert got.grads["x"][0].item() == pytest.approx(at_origin, abs=1e-12)
    assert got.grads["theta"].item() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@every_backend
def test_parameter_derivative_at_the_origin_is_zero(backend, unit):
    """At alpha = 0 neighbours at mu count with y^0 = 1, which does not move with alpha.

    The tilt of neighbour 3 moves with log 3 in the features' own unit, that of 0 does not move:
    d/d alpha of (3^(alpha + 1)) / (1 + 3^alpha) at 0.
    """
    x, graph = star([0.0, 3.0 * unit], dtype=torch.float64)
    got = run(POLYNOMIAL, x, graph, 0.0, backend, mu=0.0, upstream=ONE)
    want = 3 * unit * math.log(3 * unit) / 4
    assert got.grads["theta"].item() == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("offset", [0.0, 0.5, 1.0, 2.0, 50.0])
@every_backend
@every_form
def test_all_neighbours_at_the_origin(form, backend, offset):
    """The mean is mu, the norm its shift alone, and nothing is divided by zero."""
    theta = LOWER[form.kind] + offset
    x, graph = star([2.0, 2.0], weight=torch.tensor([0.5, 0.75]), extra=[5.0])
    got = run(form, x, graph, theta, backend, upstream=ONE)
    options = dict(form.options)
    total = 1.25 if options.get("form") == "sum" else 1.0
    if form.kind == "lp":
        total = 1.25 ** (1 / theta) if "paper" not in str(form) or not form.takes_mu else 1.0
    if str(form) == "softmax-paper":
        total = 0.625
    assert got.out.item() == pytest.approx(2 * total, rel=1e-6)
    assert all(torch.isfinite(grad).all() for grad in got.grads.values())


@every_backend
@every_form
def test_all_neighbours_at_zero_of_abs_and_shift(form, backend):
    x, graph = star([0.0, 0.0], weight=torch.tensor([0.5, 0.75]), extra=[5.0])
    got = run(form, x, graph, LOWER[form.kind] + 1.5, backend, upstream=ONE)
    assert got.out.item() == 0.0
    assert all(torch.isfinite(grad).all() for grad in got.grads.values())
    assert got.grads["theta"].item() == 0.0


@every_backend
@every_form
def test_rows_without_weight(form, backend):
    """No neighbour, weights of zero: output 0, and nothing flows back."""
    edges = torch.tensor([[0, 1, 2, 2], [0, 0, 1, 1]])
    x, graph = 5 + normal(4, 2), Graph.from_edge_index(edges, 4)
    weight = torch.tensor([0.0, 0.0, 0.3, 0.4])
    upstream = torch.tensor([1.0, 0.0, 1.0, 1.0])[:, None].expand(4, 2)
    got = run(
        form, x, graph, LOWER[form.kind] + 1.0, backend, edge_weight=weight, upstream=upstream
    )
    assert (got.out[[0, 2, 3]] == 0).all()
    assert (got.out[1] != 0).all()
    assert all((grad == 0).all() for grad in got.grads.values())


@every_backend
@every_form
def test_graphs_without_edges_nodes_or_channels(form, backend):
    none = torch.zeros(2, 0, dtype=torch.long)
    for nodes, channels, edges in ((3, 2, none), (0, 2, none), (3, 0, messy_edges(3 + 3, 8) % 3)):
        graph = Graph.from_edge_index(edges, nodes)
        got = run(form, normal(nodes, channels), graph, 1.0, backend,
                  edge_weight=torch.ones(graph.num_edges))  # fmt: skip
        assert got.out.shape == (nodes, channels)
        assert (got.out == 0).all()
        assert all((grad == 0).all() for grad in got.grads.values())


@fast_backend
@every_form
def test_second_derivatives_are_refused(form, backend):
    x = normal(30, 2).requires_grad_()
    graph = Graph.from_edge_index(messy_edges(), 30)
    (grad,) = torch.autograd.grad(form(x, graph, 2.0, backend=backend).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        grad.sum().backward()


def test_reference_has_second_derivatives():
    x = normal(30, 2).double().requires_grad_()
    graph = Graph.from_edge_index(messy_edges(), 30)
    out = functional.softmax(x, graph, 2.0, backend="reference")
    (grad,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(grad.square().sum(), x)
    assert torch.isfinite(second).all() and second.norm() > 0


@fast_backend
def test_gradients_saturate(backend):
    """A neighbour of weight 1e30 at distance 1e-30 has a slope beyond float32."""
    x, graph = star([1e-30, 1.0], weight=torch.tensor([1e30, 1e-30]))
    for form in FORMS:
        got = run(form, x, graph, LOWER[form.kind] + 1.0, backend, upstream=ONE)
        assert all(torch.isfinite(grad).all() for grad in got.grads.values()), form


@every_backend
@every_form
def test_single_node(form, backend):
    graph = Graph.from_edge_index([[0], [0]], 1)
    got = run(form, torch.tensor([[2.5, -1.5]]), graph, LOWER[form.kind] + 3.0, backend)
    want = [2.5, 1.5] if "abs" in str(form) else [2.5, -1.5]
    assert got.out[0].tolist() == pytest.approx(want)


@pytest.mark.parametrize("kind", ["softmax", "polynomial"])
def test_output_may_be_changed_in_place(kind):
    """The gradient of weights does not read the output, also on rows of the exact path."""
    generator = torch.Generator().manual_seed(0)
    graph = Graph.from_edge_index(torch.randint(20, (2, 60), generator=generator), 20)
    x, start = 1000 * torch.randn(20, 4, generator=generator), torch.rand(60, generator=generator)
    grads = []
    for change in (lambda out: out + 12345.0, lambda out: out.add_(12345.0)):
        weight = start.clone().requires_grad_()
        out = getattr(functional, kind)(x, graph, 40.0, edge_weight=weight, form="sum")
        change(out).square().sum().backward()
        grads.append(weight.grad)
    assert torch.equal(*grads)
