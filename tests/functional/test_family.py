"""Towards the minimum (``signed``), and between mean and sum (``beta``)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from meanmax import (
    Graph,
    LpAggregation,
    PolynomialAggregation,
    SoftmaxAggregation,
    build_model,
    functional,
)
from meanmax.nn import GATConv, SAGEConv

NAMES = ("lp", "polynomial", "softmax")
every = pytest.mark.parametrize("name", NAMES)
every_class = pytest.mark.parametrize(
    "kind", [LpAggregation, PolynomialAggregation, SoftmaxAggregation]
)
generator = torch.Generator().manual_seed(0)
EDGES = torch.randint(0, 9, (2, 40), generator=generator)
GRAPH = Graph.from_edge_index(EDGES, 10)  # node 9 has no neighbour
X = torch.randn(10, 3, generator=generator, dtype=torch.float64)
WEIGHT = torch.rand(40, generator=generator, dtype=torch.float64) + 0.1
BACKENDS = pytest.mark.parametrize("backend", ["numba", "torch", "reference"])


def by_hand(name, x, edges, weight, theta, beta):
    """One channel after the other, from the definition, in numpy."""
    x, (source, target), weight = x.numpy(), edges.numpy(), weight.numpy()
    out = np.zeros_like(x)
    for channel, t in enumerate(np.broadcast_to(theta, x.shape[1])):
        side = -1.0 if t < 0 else 1.0
        z = side * x[:, channel]
        y = z - (side * x).min()
        for node in range(len(x)):
            a, own = weight[target == node], source[target == node]
            if not len(a):
                continue
            total = a.sum()
            if name == "lp":
                p, mu = 1 + abs(t), (side * x).min()
                mean = ((a * y[own] ** p).sum() / total) ** (1 / p) + mu
                power = 1 / p if beta is None else beta
            elif name == "polynomial":
                tilt = a * y[own] ** abs(t)
                mean = (tilt * z[own]).sum() / tilt.sum()
                power = 0.0 if beta is None else beta
            else:
                tilt = a * np.exp(abs(t) * (z[own] - z[own].max()))
                mean = (tilt * z[own]).sum() / tilt.sum()
                power = 0.0 if beta is None else beta
            out[node, channel] = side * mean * total**power
    return torch.tensor(out)


@every
@BACKENDS
@pytest.mark.parametrize("beta", [None, 0.0, 0.4, 1.0])
@pytest.mark.parametrize("theta", [-1.7, 0.6, [-2.0, 0.5, 1.5], [-2.0, -0.5, -1.5]])
def test_values_are_those_of_the_definition(name, backend, theta, beta):
    given = torch.tensor(theta, dtype=torch.float64)
    out = getattr(functional, name)(
        X, GRAPH, given, edge_weight=WEIGHT, signed=True, beta=beta, backend=backend
    )
    torch.testing.assert_close(out, by_hand(name, X, EDGES, WEIGHT, theta, beta))


@every
def test_positive_values_are_the_usual_aggregators(name):
    lowest = 1.0 if name == "lp" else 0.0
    function = getattr(functional, name)
    signed = function(X, GRAPH, 1.5, signed=True)
    assert torch.equal(signed, function(X, GRAPH, lowest + 1.5))


@every
def test_it_goes_from_the_minimum_to_the_maximum(name):
    low, high = (
        getattr(functional, name)(X, GRAPH, theta, signed=True, beta=0.0)[:9]
        for theta in (-3000.0, 3000.0)
    )
    torch.testing.assert_close(high, functional.max(X, GRAPH)[:9], atol=0.01, rtol=0)
    torch.testing.assert_close(low, -functional.max(-X, GRAPH)[:9], atol=0.01, rtol=0)


@pytest.mark.parametrize("name", ["polynomial", "softmax"])
def test_beta_leads_from_the_weighted_form_to_the_sum(name):
    function, given = getattr(functional, name), (X, GRAPH, 1.5)
    for beta, form in ((0.0, "weighted"), (1.0, "sum")):
        scaled = function(*given, edge_weight=WEIGHT, beta=beta)
        torch.testing.assert_close(scaled, function(*given, edge_weight=WEIGHT, form=form))
    assert (function(*given, beta=0.5)[9] == 0).all(), "no neighbour"


def test_lp_with_beta_is_mean_and_sum_at_its_linear_end():
    for beta, linear in ((0.0, functional.mean), (1.0, functional.sum)):
        torch.testing.assert_close(functional.lp(X, GRAPH, 1.0, beta=beta), linear(X, GRAPH))
    one = functional.lp(X, GRAPH, 2.5, beta=0.4)
    torch.testing.assert_close(one, functional.lp(X, GRAPH, 2.5))  # 1/p is the default


EXTREMES = {  # sizes of the features and the weights of two graphs
    "small weights": (1.0, [1e-24, 1e-39]),
    "large weights": (1.0, [1e20, 1e37]),
    "large features": (1e25, [1.0, 1e-20]),
    "features beside a larger graph": (1e-30, [1.0, 1e-12]),
}


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("options", [{"signed": True}, {"beta": -0.5}, {"beta": 1.5}], ids=str)
@BACKENDS
@every
def test_sizes_at_the_ends_of_float32(name, backend, options, extreme):
    """What fits float32 has its digits, what does not is its largest number."""
    size, weights = EXTREMES[extreme]
    batch = Graph.batch([GRAPH, GRAPH])
    x = torch.cat([X, size * X]).float()
    weight = torch.cat([WEIGHT * weights[0], WEIGHT * weights[1]]).float()
    theta = torch.tensor([2.0, -1.5, 0.5] if "signed" in options else [2.0, 1.5, 3.0])
    if name != "softmax":
        theta = theta + (1.0 if name == "lp" and "beta" in options else 0.0)
    elif size > 1:
        theta = theta / size
    beta = options.get("beta")

    def run(dtype, backend):
        leaves = {"x": x, "theta": theta, "weight": weight}
        if beta is not None:
            leaves["beta"] = torch.tensor(beta)
        leaves = {key: value.detach().to(dtype).requires_grad_() for key, value in leaves.items()}
        given = {"signed": True} if beta is None else {"beta": leaves["beta"]}
        out = getattr(functional, name)(
            leaves["x"], batch, leaves["theta"], edge_weight=leaves["weight"], backend=backend,
            **given,
        )  # fmt: skip
        grads = torch.autograd.grad(out.sum(), list(leaves.values()))
        return {"out": out.detach(), **dict(zip(leaves, grads, strict=True))}

    want = run(torch.float64, "reference")
    for key, value in run(torch.float32, backend).items():
        assert torch.isfinite(value).all(), key
        expected = want[key].clamp(-3.4e38, 3.4e38)
        parts = (...,)
        if key in ("out", "x", "weight"):  # each graph has its own size
            half = len(value) // 2
            parts = (slice(half), slice(half, None))
        for part in parts:
            if (expected[part].abs() < 1e38).all():
                error = (value[part].double() - expected[part]).norm()
                least = 1e-5 * x[:10].abs().max() if key == "theta" else 1e-37
                assert error <= 1e-3 * expected[part].norm() + least, key


@pytest.mark.parametrize("name", ["lp", "polynomial"])
@BACKENDS
def test_the_gradient_of_mu_saturates(backend, name):
    found = []
    for dtype in (torch.float32, torch.float64):
        mu = torch.tensor(-9.0, dtype=dtype, requires_grad=True)
        weight = torch.full((40,), 1e25, dtype=dtype)
        given = {"edge_weight": weight, "beta": 2.0, "mu": mu, "backend": backend}
        out = getattr(functional, name)(X.to(dtype), GRAPH, 2.0, **given)
        found += torch.autograd.grad(out.sum(), mu)
    assert found[1].abs() > 1e40
    assert found[0] == found[1].sign() * torch.finfo(torch.float32).max


@every
@pytest.mark.parametrize("theta", [-1.3, 0.7, [-1.3, 0.7, -0.2]])
def test_gradients(name, theta):
    function = getattr(functional, name)

    def run(x, theta, weight, beta):
        return function(x, GRAPH, theta, edge_weight=weight, signed=True, beta=beta)

    values = X, torch.tensor(theta, dtype=torch.float64), WEIGHT, torch.tensor(0.3).double()
    assert torch.autograd.gradcheck(run, [value.clone().requires_grad_() for value in values])


@every
def test_the_derivative_at_zero_is_the_mean_of_both_sides(name):
    function = getattr(functional, name)

    def slope(theta):
        theta = torch.tensor(theta, dtype=torch.float64, requires_grad=True)
        out = function(X, GRAPH, theta, edge_weight=WEIGHT, signed=True)
        (found,) = torch.autograd.grad((out * X).sum(), theta)
        return out.detach(), found.item()

    middle, found = slope(0.0)
    torch.testing.assert_close(middle, function(X, GRAPH, 0.0, signed=True, edge_weight=WEIGHT))
    lowest = torch.tensor(1.0 if name == "lp" else 0.0, dtype=torch.float64, requires_grad=True)
    sides = []
    for side in (1, -1):
        out = function(side * X, GRAPH, lowest, edge_weight=WEIGHT)
        # the derivative of -f(-x, -theta) by theta is that of f(-x, t) by t
        (own,) = torch.autograd.grad((out * X).sum(), lowest)
        sides.append(own.item())
    assert found == pytest.approx(sum(sides) / 2)


@every
def test_graphs_of_a_batch_do_not_see_each_other(name):
    batch = Graph.batch([GRAPH, GRAPH])
    other = torch.cat([X, 100 * X])
    theta = torch.tensor([-1.0, 2.0, -3.0], dtype=torch.float64)
    function = getattr(functional, name)
    both = function(other, batch, theta, signed=True, beta=0.5)
    torch.testing.assert_close(both[:10], function(X, GRAPH, theta, signed=True, beta=0.5))


def test_heads():
    x = torch.randn(10, 2, 3, generator=generator, dtype=torch.float64)
    theta = torch.tensor([-1.0, 2.0], dtype=torch.float64)
    weight = torch.rand(40, 2, generator=generator, dtype=torch.float64)
    for name in NAMES:
        function = getattr(functional, name)
        out = function(x, GRAPH, theta, edge_weight=weight, signed=True, beta=0.5)
        if name == "softmax":  # without mu, heads are independent
            for head in range(2):
                own = function(
                    x[:, head],
                    GRAPH,
                    theta[head],
                    edge_weight=weight[:, head],
                    signed=True,
                    beta=0.5,
                )
                torch.testing.assert_close(out[:, head], own)
        assert out.shape == x.shape and torch.isfinite(out).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@every
def test_half_precision(name, dtype):
    x, function = X.to(dtype), getattr(functional, name)
    theta = torch.tensor([-1.0, 2.0, -0.5])
    out = function(x, GRAPH, theta, signed=True, beta=0.5)
    assert out.dtype == dtype
    wide = function(x.float(), GRAPH, theta, signed=True, beta=0.5)
    torch.testing.assert_close(out.float(), wide, rtol=0.02, atol=0.02)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("softmax", {"form": "sum", "beta": 1.0}, "'beta' takes the place of 'form'"),
        ("polynomial", {"form": "sum", "beta": 0.0}, "'beta' takes the place of 'form'"),
        ("softmax", {"form": "paper", "signed": True}, "form='paper' has neither"),
        ("lp", {"shift": "paper", "beta": 0.5}, "shift='paper' has neither"),
        ("lp", {"sign": "abs", "signed": True}, "sign='abs' has no minimum"),
        ("polynomial", {"mu": -9.0, "signed": True}, "'mu' has no meaning with signed=True"),
        ("softmax", {"beta": float("nan")}, "'beta' must be finite"),
        ("softmax", {"beta": "much"}, "'beta' must be a real number"),
    ],
)
def test_contradictions_are_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        getattr(functional, name)(X, GRAPH, 1.5, **options)


@every_class
def test_modules_hold_both_parameters(kind):
    aggr = kind(-0.5, signed=True, beta=0.25, learn_beta=True)
    assert "theta=-0.5" in repr(aggr) and "signed=True, beta=0.25, learn_beta=True" in repr(aggr)
    assert set(aggr.state_dict()) == {"raw", "beta"}
    index = torch.tensor([0, 0, 1, 1, 1, 2, 2, 0, 1, 2])
    out = aggr(X.float(), index)
    edges = torch.stack([torch.arange(10), index])
    assert torch.allclose(
        out.detach().double(), by_hand(aggr.spec.kind, X, edges, torch.ones(10), -0.5, 0.25)[:3],
        atol=1e-5,
    )  # fmt: skip
    out.square().sum().backward()
    assert aggr.raw.grad.abs() > 0 and aggr.beta.grad.abs() > 0
    with torch.no_grad():
        aggr.beta.fill_(3.0)
    aggr.reset_parameters()
    assert aggr.beta.item() == 0.25
    assert set(kind().state_dict()) == {"raw"} and "beta" not in repr(kind())
    fixed = kind(beta=1.0)
    assert [name for name, _ in fixed.named_parameters()] == ["raw"]
    assert set(fixed.state_dict()) == {"raw", "beta"}


def test_maxness_is_negative_towards_the_minimum():
    aggr = SoftmaxAggregation([-60.0, 0.0, 60.0], per="channel", channels=3, signed=True)
    low, middle, high = aggr.maxness(X, GRAPH).tolist()
    assert -1 <= low < -0.9 and abs(middle) < 1e-9 and 0.9 < high <= 1


def test_bad_options_of_modules():
    with pytest.raises(ValueError, match="learn_beta=True needs a start value"):
        SoftmaxAggregation(learn_beta=True)
    with pytest.raises(ValueError, match="'beta' must be a finite number"):
        LpAggregation(beta=float("inf"))
    with pytest.raises(ValueError, match="keeps the parameter on one side"):
        SoftmaxAggregation(1.0, signed=True, reparam="softplus")
    with pytest.raises(ValueError, match="attention weights sum to 1"):
        GATConv(3, 4, aggr=SoftmaxAggregation(beta=0.5))
    with pytest.raises(ValueError, match="must be at least|cannot start at"):
        SoftmaxAggregation(-1.0)


def test_sage_counts_neighbours_with_beta():
    x = X.float()
    total = SAGEConv(3, 3, aggr=SoftmaxAggregation(0.0, beta=1.0), root_weight=False, bias=False)
    out = total(x, EDGES)
    expected = functional.sum(x, GRAPH) @ total.lin_l.weight.t()
    torch.testing.assert_close(out, expected)


def test_models_tell_what_they_learned():
    aggr = SoftmaxAggregation(-0.5, signed=True, beta=0.5, learn_beta=True)
    model = build_model("gcn", aggr, 3, 4, 2)
    assert set(model.learned()) >= {"layers.0.theta", "layers.0.beta"}
    assert len(model.aggregator_parameters()) >= 2


def test_compiled_code_gives_the_same():
    @torch.compile(fullgraph=True, backend="aot_eager")
    def run(x, theta, beta):
        return functional.softmax(x, GRAPH, theta, signed=True, beta=beta)

    theta, beta = torch.tensor([-1.0, 0.5, 2.0]), torch.tensor(0.5)
    x = X.float()
    plain = functional.softmax(x, GRAPH, theta, signed=True, beta=beta)
    torch.testing.assert_close(run(x, theta, beta), plain)
