"""The reference against the formulas, evaluated independently with sixty digits."""

import numpy as np
import pytest
import torch

from meanmax import Graph

from .cases import FORMS, LOWER, every_form, form_with_mu, normal, run
from .truth import as_array, as_numbers, differences, truth

EDGES = torch.tensor([[0, 1, 2, 2, 3, 3, 4, 0, 1, 1], [0, 0, 0, 1, 1, 1, 2, 3, 3, 4]])
WEIGHT = torch.tensor([0.4, 1.1, 0.3, 0.7, 0.0, 0.9, 2.0, 0.5, 0.5, 0.0])
X = normal(6, 2, seed=5)  # node 5 is isolated, node 4 has no weight, nodes 1 and 3 a multi-edge
UPSTREAM = normal(6, 2, seed=6)
PAIRS = list(zip(*EDGES.tolist(), strict=True))


def graph_of(edges=EDGES, weight=None):
    return Graph.from_edge_index(edges, 6, weight)


def parameters(form):
    return [LOWER[form.kind] + step for step in (0.0, 0.5, 1.0, 2.5, 60.0)]


CASES = [
    pytest.param(form, theta, mu, id=f"{form}-{theta}-{mu}")
    for form in FORMS
    for theta in parameters(form)
    for mu in ((None, -3.5) if form.takes_mu else (None,))
]


@pytest.mark.parametrize(("form", "theta", "mu"), CASES)
def test_values(form, theta, mu):
    given = {} if mu is None else {"mu": mu}
    x = X.double()
    out = form(x, graph_of(), theta, edge_weight=WEIGHT.double(), backend="reference", **given)
    numbers = as_numbers(x.numpy()), as_numbers(np.full(2, theta)), as_numbers(WEIGHT.numpy())
    want = truth(form, numbers[0], PAIRS, *numbers[1:], mu=None if mu is None else as_numbers(mu))
    np.testing.assert_allclose(out.numpy(), as_array(want), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("offset", [0.0, 0.5, 2.5])
@every_form
def test_gradients(form, offset):
    theta = LOWER[form.kind] + offset
    given = -3.5 if form.takes_mu and offset == 0 else None  # y^0 has no derivative at y = 0
    weight = WEIGHT[WEIGHT > 0].double()
    edges = EDGES[:, WEIGHT > 0]
    got = run(form, X.double(), graph_of(edges), torch.full((2,), theta), "reference",
              edge_weight=weight, mu=given, upstream=UPSTREAM)  # fmt: skip
    values = {"x": X.numpy(), "theta": np.full(2, theta), "edge_weight": weight.numpy()}
    if given is not None:
        values["mu"] = given
    values = {name: as_numbers(value) for name, value in values.items()}
    pairs = list(zip(*edges.tolist(), strict=True))

    def loss(**moved):
        now = {**values, **moved}
        out = truth(form, now["x"], pairs, now["theta"], now["edge_weight"], mu=now.get("mu"))
        return sum(g * o for gs, os in zip(UPSTREAM.tolist(), out, strict=True)
                   for g, o in zip(gs, os, strict=True))  # fmt: skip

    for name, value in values.items():
        want = differences(lambda moved, name=name: loss(**{name: moved}), value)
        np.testing.assert_allclose(got.grads[name].numpy(), want, rtol=1e-9, atol=1e-12)


@form_with_mu
def test_gradient_of_a_given_origin(form):
    theta = LOWER[form.kind] + 1.5
    got = run(form, X.double(), graph_of(weight=WEIGHT), theta, "reference", mu=-3.5,
              upstream=UPSTREAM)  # fmt: skip
    x, weight = as_numbers(X.numpy()), as_numbers(WEIGHT.numpy())

    def loss(mu):
        out = truth(form, x, PAIRS, as_numbers([theta, theta]), weight, mu=mu)
        return sum(g * o for gs, os in zip(UPSTREAM.tolist(), out, strict=True)
                   for g, o in zip(gs, os, strict=True))  # fmt: skip

    want = differences(loss, as_numbers(-3.5))
    np.testing.assert_allclose(got.grads["mu"].item(), want, rtol=1e-9)


@every_form
def test_huge_parameters_and_features(form):
    x, theta = 1e4 * X.double(), 1000.0
    out = form(x, graph_of(), theta, edge_weight=WEIGHT.double(), backend="reference")
    numbers = as_numbers(x.numpy()), as_numbers(np.full(2, theta)), as_numbers(WEIGHT.numpy())
    want = as_array(truth(form, numbers[0], PAIRS, *numbers[1:]))
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-11, atol=1e-8)
