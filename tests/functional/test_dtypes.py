"""Half precision, autocast and torch.compile."""

import pytest
import torch

from meanmax import Graph, functional

from ..ops.cases import DEFAULT_FORMS, default_form, every_backend, messy_edges, normal

GRAPH = Graph.from_edge_index(messy_edges(), 30)
half = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["half", "bfloat"])


@half
@every_backend
@default_form
def test_half_precision_is_computed_in_float32(form, backend, dtype):
    x = normal(30, 4).to(dtype).requires_grad_()
    theta = torch.tensor(2.0, dtype=dtype, requires_grad=True)
    out = form(x, GRAPH, theta, backend=backend)
    assert out.dtype == dtype
    assert torch.equal(out, form(x.float(), GRAPH, 2.0, backend=backend).to(dtype))
    out.float().square().sum().backward()
    assert x.grad.dtype == theta.grad.dtype == dtype
    assert torch.isfinite(x.grad).all() and x.grad.norm() > 0


@half
@every_backend
@default_form
def test_autocast_gives_float32(form, backend, dtype):
    if dtype == torch.float16 and not torch.amp.is_autocast_available("cpu"):
        pytest.skip("no autocast")
    x, linear = normal(30, 4), torch.eye(4)
    with torch.autocast("cpu", dtype=dtype):
        hidden = x @ linear
        assert hidden.dtype == dtype
        out = form(hidden, GRAPH, 2.0, backend=backend)
        from_float = form(x, GRAPH, 2.0, backend=backend)
    assert out.dtype == from_float.dtype == torch.float32
    assert torch.equal(out, form(hidden.float(), GRAPH, 2.0, backend=backend))
    assert torch.equal(from_float, form(x, GRAPH, 2.0, backend=backend))


@pytest.mark.parametrize("reduction", [functional.sum, functional.mean, functional.max])
@half
def test_reductions_in_half_precision(reduction, dtype):
    x = normal(30, 4).to(dtype)
    assert reduction(x, GRAPH).dtype == dtype
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert reduction(x, GRAPH).dtype == torch.float32


SATURATED = {
    "sum": lambda x, **given: functional.sum(x, PAIR, **given),
    "lp": lambda x, **given: functional.lp(x, PAIR, 1.0, **given),
    "lp-abs": lambda x, **given: functional.lp(x, PAIR, 2.0, sign="abs", **given),
    "polynomial": lambda x, **given: functional.polynomial(x, PAIR, 1.0, form="sum", **given),
    "softmax": lambda x, **given: functional.softmax(x, PAIR, 1.0, form="sum", **given),
    "beta": lambda x, **given: functional.softmax(x, PAIR, 1.0, beta=1.0, **given),
}
PAIR = Graph.from_edge_index([[0, 1], [0, 0]], 2)


@pytest.mark.parametrize("name", SATURATED)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@every_backend
def test_results_beyond_the_range_are_its_end(backend, dtype, name):
    limit = torch.finfo(dtype).max
    x = torch.full((2, 1), limit, dtype=dtype, requires_grad=True)
    out = SATURATED[name](x, backend=backend)
    assert out[0].item() == pytest.approx(limit)
    (grad,) = torch.autograd.grad(out, x, torch.ones_like(out))
    slope = 0.5**0.5 if name == "lp-abs" else 1.0
    torch.testing.assert_close(grad, torch.full_like(x, slope))


@every_backend
def test_gradients_beyond_the_range(backend):
    """Those in float16 become infinite, by which torch.amp.GradScaler notices; others saturate."""
    for dtype, want in ((torch.float16, torch.inf), (torch.bfloat16, 3.3895313892515355e38)):
        x = torch.ones(2, 1, dtype=dtype, requires_grad=True)
        weight = torch.full((2,), 1e36, requires_grad=True)
        out = functional.softmax(x, PAIR, 1.0, form="sum", edge_weight=weight, backend=backend)
        dx, dw = torch.autograd.grad(out, (x, weight), torch.full_like(out, 6e4))
        assert dx.flatten().tolist() == [want, want]
        torch.testing.assert_close(dw, torch.full_like(dw, out.new_tensor(6e4).item()))


@every_backend
def test_compile(backend):
    def model(x, theta):
        hidden = torch.relu(x) + 1
        for form in DEFAULT_FORMS:
            hidden = form(hidden, GRAPH, theta, backend=backend) * 2
        for reduction in (functional.sum, functional.mean, functional.max):
            hidden = hidden + reduction(hidden, GRAPH, backend=backend)
        return hidden

    torch.compiler.reset()
    results = []
    for call in (model, torch.compile(model, backend="aot_eager", fullgraph=True)):
        x, theta = normal(30, 4).requires_grad_(), torch.tensor(1.5, requires_grad=True)
        out = call(x, theta)
        out.sum().backward()
        results.append((out, x.grad, theta.grad))
    for got, want in zip(*results, strict=True):
        assert torch.allclose(got, want, rtol=1e-6, atol=1e-6)


def test_compile_under_autocast():
    def model(x, linear, theta):
        out = functional.lp(x @ linear, GRAPH, theta)
        return out, functional.max(x.bfloat16(), GRAPH)

    torch.compiler.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    x, linear, theta = normal(30, 4), torch.eye(4).requires_grad_(), torch.tensor(1.5)
    for options in ({}, {"enabled": False}):
        with torch.autocast("cpu", dtype=torch.bfloat16, **options):
            found, want = compiled(x, linear, theta), model(x, linear, theta)
        for got, true in zip(found, want, strict=True):
            assert got.dtype == true.dtype
            assert torch.equal(got, true)
        grads = (torch.autograd.grad(out.sum(), linear)[0] for out in (found[0], want[0]))
        assert torch.allclose(*grads, atol=1e-6)


@every_backend
def test_parameter_of_another_dtype(backend):
    theta = torch.tensor([1.5, 2.0, 2.5, 3.0], dtype=torch.float64, requires_grad=True)
    out = functional.lp(normal(30, 4), GRAPH, theta, backend=backend)
    out.sum().backward()
    assert out.dtype == torch.float32
    assert theta.grad.dtype == torch.float64 and theta.grad.norm() > 0
