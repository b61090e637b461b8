"""No NaN and no infinity, forward or backward, whatever finite features come in."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from meanmax import Graph

from .cases import FORMS, both_dtypes, every_backend, fast_backend, run
from .strategies import bounded, extreme_cases

WEIGHTED_MEANS = [form for form in FORMS if "weighted" in str(form)]


# What a search with other seeds has found: form, features, edges, weights, parameter.
FOUND = [
    ("lp-consistent-shift", [[-1e30], [0.0]], [[1], [1]], [1e12], 1.0),
    ("lp-consistent-shift", [[-1e30], [0.0]], [[1], [1]], [1e-12], 31.0),
    ("lp-consistent-abs", [[1e30], [1.0]], [[1, 0], [1, 1]], [1e-38, 1e12], 1.0),
    ("lp-paper-shift", [[1.0], [-1e30], [0.0]], [[2, 0], [2, 2]], [1e-38, 1e12], 1.0),
    ("lp-paper-shift", [[1.0, 0.0], [1e30, 1e30]], [[1], [0]], [1e12], 1.0),
    ("lp-paper-abs", [[-1e30], [1.0]], [[0], [1]], [1e-12], 31.0),
    ("lp-paper-abs", [[0.0], [1e-40]], [[1], [0]], [1.0], 1.0),
    ("lp-paper-abs", [[-1e30], [1e-20], [0.0]], [[2], [0]], [1.0], 1.0),
    ("polynomial-weighted-shift", [[0.0], [1.5e30]], [[1], [0]], [1e-12], 0.0),
    ("polynomial-weighted-abs", [[-1e-40], [0.0], [-1e10]], [[0], [1]], [1.0], 1.0),
    ("polynomial-weighted-abs", [[-1e-40], [1.0], [0.0]], [[0], [2]], [1.0], 30.0),
    ("polynomial-sum-shift", [[0.0], [2e-40]], [[1], [0]], [1.0], 0.0),
    ("polynomial-sum-shift", [[0.0], [0.01], [1.0]], [[1, 0], [0, 0]], [1.0, 1.0], 200.0),
    ("polynomial-sum-abs", [[0.0], [-1e30], [1e-20]], [[0], [0]], [1.0], 0.0),
    ("polynomial-sum-abs", [[2e30], [1e30]], [[1, 0], [1, 1]], [1.0, 0.0], 1000.0),
    ("polynomial-sum-abs", [[-1e-20], [-1e30]], [[0, 1], [0, 0]], [1.0, 1.0], 0.001),
    ("softmax-weighted", [[1e30], [0.0]], [[0], [0]], [1e-12], 0.0),
    ("softmax-weighted", [[0.0], [-1e30]], [[0, 1], [0, 0]], [0.0, 1.0], 0.001),
    ("softmax-sum", [[-1e30], [0.0]], [[0], [1]], [1e12], 1.0),
    ("softmax-paper", [[0.0], [2e30]], [[1, 0], [0, 0]], [1.0, 1.0], 0.0),
    ("softmax-paper", [[1e30], [1e30]], [[0, 1], [0, 0]], [1e12, 1.0], 1.0),
]


def check(form, x, graph, weight, theta, backend):
    """All gradients are finite, and so is what fits the dtype of the output."""
    got = run(form, x, graph, theta, backend, edge_weight=weight, upstream=torch.ones_like(x))
    for name, grad in got.grads.items():
        assert torch.isfinite(grad).all(), f"gradient of {name} is not finite"
    want = form(x, graph, theta, edge_weight=weight, backend="reference").double()
    fits = torch.isfinite(want)  # a sum of weights 1e12 over features 1e30 does not fit float32
    assert not torch.isnan(got.out).any()
    spread = (x.max().double() - x.min().double()).item()
    most = max(weight.sum().item(), 1.0)
    error = (got.out - want).abs()[fits]
    assert (error <= 1e-4 * want[fits].abs().clamp(min=spread * most) + 1e-37).all()


@both_dtypes
@pytest.mark.parametrize("kind", ["lp", "polynomial", "softmax"])
@fast_backend
@bounded
@given(data=st.data())
def test_finite_and_near_the_reference(backend, kind, dtype, data):
    forms = [form for form in FORMS if form.kind == kind]
    form, x, graph, weight, theta = data.draw(extreme_cases(dtype, forms))
    check(form, x, graph, weight, theta, backend)


@both_dtypes
@pytest.mark.parametrize(("name", "x", "edges", "weight", "theta"), FOUND)
@every_backend
def test_found_cases(backend, name, x, edges, weight, theta, dtype):
    form = next(form for form in FORMS if str(form) == name)
    x, weight = torch.tensor(x, dtype=dtype), torch.tensor(weight, dtype=dtype)
    graph = Graph.from_edge_index(edges, len(x))
    if backend == "reference":
        got = run(form, x, graph, theta, backend, edge_weight=weight, upstream=torch.ones_like(x))
        assert not any(torch.isnan(grad).any() for grad in got.grads.values())
    else:
        check(form, x, graph, weight, theta, backend)


@bounded
@given(data=st.data())
def test_reference_is_a_number(data):
    """The derivative by a weight of zero may be infinite; nothing is undefined."""
    form, x, graph, weight, theta = data.draw(extreme_cases(torch.float64))
    got = run(form, x, graph, theta, "reference", edge_weight=weight, upstream=torch.ones_like(x))
    assert torch.isfinite(got.out).all()
    for name, grad in got.grads.items():
        assert not torch.isnan(grad).any(), f"gradient of {name} is not a number"


@fast_backend
@bounded
@given(data=st.data())
def test_weighted_means_lie_between_minimum_and_maximum(backend, data):
    form, x, graph, weight, theta = data.draw(extreme_cases(torch.float64, WEIGHTED_MEANS))
    out = form(x, graph, theta, edge_weight=weight, backend=backend)
    values = x.abs() if "abs" in str(form) else x
    slack = 1e-9 * (values.max() - values.min() + values.abs().max())
    for (source, target), a in zip(graph.edge_index.t().tolist(), weight.tolist(), strict=True):
        near = graph.edge_index[0, (graph.edge_index[1] == target) & (weight > 0)]
        if a > 0:
            assert source in near
            assert (out[target] >= values[near].amin(0) - slack).all()
            assert (out[target] <= values[near].amax(0) + slack).all()
