"""Wrong input: an error names the argument, what it got and what it takes."""

import math

import pytest
import torch

from meanmax import Graph, functional, use_backend

from ..ops.cases import (
    DEFAULT_FORMS,
    LOWER,
    default_form,
    every_backend,
    form_with_mu,
    messy_edges,
    normal,
)

GRAPH = Graph.from_edge_index(messy_edges(), 30)
X = normal(30, 4)
NAMES = {"lp": "p", "polynomial": "alpha", "softmax": "gamma"}


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (normal(29, 4), r"'x' must be \[num_src, channels\].*num_src=30 \(got \[29, 4\]\)"),
        (normal(30, 2, 2, 2), r"'x' must be .*\(got \[30, 2, 2, 2\]\)"),
        (torch.tensor(1.0), r"'x' must be .*\(got \[\]\)"),
        (torch.ones(30, 4, dtype=torch.long), r"'x' must be a floating-point.*got torch.int64"),
        (torch.ones(30, 4, dtype=torch.cfloat), r"'x' must be a floating-point.*complex64"),
        (X.numpy(), r"'x' must be a floating-point tensor \(got ndarray\)"),
    ],
)
@default_form
def test_features(form, x, message):
    with pytest.raises(ValueError, match=message):
        form(x, GRAPH, 2.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@every_backend
@default_form
def test_features_are_finite(form, backend, bad):
    x = X.clone()
    x[17, 2] = bad
    with pytest.raises(ValueError, match=r"'x' must be finite \(got NaN or infinite"):
        form(x, GRAPH, 2.0, backend=backend)


@pytest.mark.parametrize("backend", ["numba", "torch"])
@default_form
def test_spread_fits_the_dtype(form, backend):
    x = X.clone()
    x[0], x[1] = 3e38, -3e38
    with pytest.raises(ValueError, match=r"spread of 'x' must fit torch.float32 \(got .*3e\+38"):
        form(x, GRAPH, 2.0, backend=backend)
    assert torch.isfinite(form(x.double(), GRAPH, 2.0, backend=backend)).all()


@pytest.mark.parametrize("offset", [-1e-3, -5.0, math.nan, math.inf])
@every_backend
@default_form
def test_domain_of_the_parameter(form, backend, offset):
    name, lowest = NAMES[form.kind], LOWER[form.kind]
    message = rf"'{name}' must be finite and at least {lowest:g} \(got .*\)"
    for bad in (lowest + offset, torch.tensor(lowest + offset)):
        with pytest.raises(ValueError, match=message):
            form(X, GRAPH, bad, backend=backend)
    among = torch.full((4,), lowest + 1)
    among[2] += offset - 1
    with pytest.raises(ValueError, match=message):
        form(X, GRAPH, among, backend=backend)


@pytest.mark.parametrize("shape", [(3,), (4, 1), (30, 4), (2, 2, 4), (0,)], ids=str)
@default_form
def test_shape_of_the_parameter(form, shape):
    with pytest.raises(ValueError, match=rf"'{NAMES[form.kind]}' must be"):
        form(X, GRAPH, torch.full(shape, 2.0))
    with pytest.raises(ValueError, match=r"broadcast to \[4\].*got shape \[3\]"):
        form(X, GRAPH, torch.full((3,), 2.0))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (torch.ones(119), r"'edge_weight' must be \[num_edges\].*num_edges=120 \(got \[119\]\)"),
        (torch.ones(120, 1, 1), r"'edge_weight' must be .*\(got \[120, 1, 1\]\)"),
        (torch.ones(()), r"'edge_weight' must be .*\(got \[\]\)"),
        (torch.ones(120, dtype=torch.long), r"'edge_weight' must be a floating-point.*torch.int64"),
        ([1.0] * 120, r"'edge_weight' must be a floating-point tensor \(got list\)"),
        (torch.ones(120, 3), r"'edge_weight' has 3 heads but 'x' has 1; pass features as"),
        (torch.full((120,), -0.5), r"'edge_weight' must be finite and non-negative.*from -0.5"),
        (
            torch.full((120,), math.nan),
            r"'edge_weight' must be finite and non-neg.*nan",
        ),
        (
            torch.full((120,), math.inf),
            r"'edge_weight' must be finite and non-neg.*inf",
        ),
    ],
)
@pytest.mark.parametrize("name", ["lp", "polynomial", "softmax", "sum", "mean", "max"])
def test_weights(name, weight, message):
    parameter = (2.0,) if name in NAMES else ()
    with pytest.raises(ValueError, match=message):
        getattr(functional, name)(X, GRAPH, *parameter, edge_weight=weight)


@default_form
def test_one_bad_weight_among_good_ones(form):
    for bad in (-1e-30, math.nan, math.inf):
        weight = torch.ones(120)
        weight[77] = bad
        with pytest.raises(ValueError, match="'edge_weight' must be finite and non-negative"):
            form(X, GRAPH, 2.0, edge_weight=weight)


@default_form
def test_heads_of_the_graph(form):
    graph = GRAPH.with_weight(torch.ones(120, 3))
    with pytest.raises(ValueError, match=r"'graph.weight' has 3 heads but 'x' has 2"):
        form(normal(30, 2, 5), graph, 2.0)
    assert form(normal(30, 3, 5), graph, 2.0).shape == (30, 3, 5)


@every_backend
@form_with_mu
def test_origin(form, backend):
    with pytest.raises(ValueError, match=r"'mu' must not exceed the smallest feature.*got 0\.5"):
        form(X, GRAPH, 2.0, mu=0.5, backend=backend)
    for bad in (math.nan, math.inf, torch.zeros(2), torch.zeros(0)):
        with pytest.raises(ValueError, match=r"'mu' must be one finite number.*1 graphs \(got"):
            form(X, GRAPH, 2.0, mu=bad, backend=backend)


def test_origin_of_absolute_values():
    for rule in (functional.lp, functional.polynomial):
        with pytest.raises(ValueError, match="'mu' has no meaning with sign='abs'"):
            rule(X, GRAPH, 2.0, sign="abs", mu=-9.0)


@pytest.mark.parametrize(
    ("rule", "option", "allowed"),
    [
        (functional.lp, "shift", "'consistent', 'paper'"),
        (functional.lp, "sign", "'shift', 'abs'"),
        (functional.polynomial, "form", "'weighted', 'sum', 'paper'"),
        (functional.polynomial, "sign", "'shift', 'abs'"),
        (functional.softmax, "form", "'weighted', 'sum', 'paper'"),
        (functional.softmax, "backend", "'auto', 'numba', 'torch', 'reference'"),
    ],
)
def test_options(rule, option, allowed):
    with pytest.raises(ValueError, match=rf"'{option}' must be one of {allowed} \(got 'other'\)"):
        rule(X, GRAPH, 2.0, **{option: "other"})


def test_backend_of_a_block():
    with pytest.raises(ValueError, match=r"'backend' must be one of 'auto', .*\(got 'cuda'\)"):
        use_backend("cuda")


def test_inputs_are_left_alone():
    for form in DEFAULT_FORMS:
        x, weight, theta = X.clone(), torch.ones(120), torch.full((4,), 2.0)
        for backend in ("numba", "torch", "reference"):
            form(x, GRAPH, theta, edge_weight=weight, backend=backend)
        assert torch.equal(x, X) and (weight == 1).all() and (theta == 2).all()


@pytest.mark.parametrize("backend", ["numba", "torch"])
@default_form
def test_changes_in_place_before_backward_are_noticed(form, backend):
    x = X.clone().requires_grad_()
    hidden = x * 1
    out = form(hidden, GRAPH, 2.0, backend=backend)
    hidden.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
