"""No NaN and no infinity, forward or backward, whatever finite features come in."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from .cases import FORMS, fast_backend, run
from .strategies import bounded, extreme_cases

WEIGHTED_MEANS = [form for form in FORMS if "weighted" in str(form)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@fast_backend
@bounded
@given(data=st.data())
def test_finite_and_near_the_reference(backend, dtype, data):
    form, x, graph, weight, theta = data.draw(extreme_cases(dtype))
    got = run(form, x, graph, theta, backend, weight=weight, upstream=torch.ones_like(x))
    for name, grad in got.grads.items():
        assert torch.isfinite(grad).all(), f"gradient of {name} is not finite"
    want = form(x, graph, theta, weight=weight, backend="reference").double()
    fits = torch.isfinite(want)  # a sum of weights 1e12 over features 1e30 does not fit float32
    assert torch.isfinite(got.out[fits]).all()
    assert not torch.isnan(got.out).any()
    spread = (x.max().double() - x.min().double()).item()
    most = max(weight.sum().item(), 1.0)
    error = (got.out - want).abs()[fits]
    assert (error <= 1e-4 * want[fits].abs().clamp(min=spread * most) + 1e-37).all()


@bounded
@given(data=st.data())
def test_reference_is_a_number(data):
    """The derivative by a weight of zero may be infinite; nothing is undefined."""
    form, x, graph, weight, theta = data.draw(extreme_cases(torch.float64))
    got = run(form, x, graph, theta, "reference", weight=weight, upstream=torch.ones_like(x))
    assert torch.isfinite(got.out).all()
    for name, grad in got.grads.items():
        assert not torch.isnan(grad).any(), f"gradient of {name} is not a number"


@fast_backend
@bounded
@given(data=st.data())
def test_weighted_means_lie_between_minimum_and_maximum(backend, data):
    form, x, graph, weight, theta = data.draw(extreme_cases(torch.float64, WEIGHTED_MEANS))
    out = form(x, graph, theta, weight=weight, backend=backend)
    values = x.abs() if "abs" in str(form) else x
    slack = 1e-9 * (values.max() - values.min() + values.abs().max())
    for (source, target), a in zip(graph.edge_index.t().tolist(), weight.tolist(), strict=True):
        near = graph.edge_index[0, (graph.edge_index[1] == target) & (weight > 0)]
        if a > 0:
            assert source in near
            assert (out[target] >= values[near].amin(0) - slack).all()
            assert (out[target] <= values[near].amax(0) + slack).all()
