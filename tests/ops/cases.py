"""The forms of the aggregators, graphs to run them on, and how results are compared."""

from dataclasses import dataclass
from itertools import product
from types import SimpleNamespace

import pytest
import torch

from meanmax import Graph, functional

BACKENDS = ["numba", "torch"]
EVERY_BACKEND = [*BACKENDS, "reference"]
DTYPES = [torch.float32, torch.float64]
ORDINARY = {torch.float32: 1e-5, torch.float64: 1e-10}
LOWER = {"lp": 1.0, "polynomial": 0.0, "softmax": 0.0}


@dataclass(frozen=True)
class Formula:
    """One aggregator with its options."""

    kind: str
    options: tuple[tuple[str, str], ...]

    def __call__(self, x, graph, theta, **arguments):
        function = getattr(functional, self.kind)
        return function(x, graph, theta, **dict(self.options), **arguments)

    def __str__(self):
        return "-".join([self.kind, *(value for _, value in self.options)])

    @property
    def takes_mu(self):
        return dict(self.options).get("sign") == "shift"


def _forms(kind, **options):
    return [
        Formula(kind, tuple(zip(options, values, strict=True)))
        for values in product(*options.values())
    ]


FORM_NAMES = ("weighted", "sum", "paper")
FORMS = [
    *_forms("lp", shift=("consistent", "paper"), sign=("shift", "abs")),
    *_forms("polynomial", form=FORM_NAMES, sign=("shift", "abs")),
    *_forms("softmax", form=FORM_NAMES),
]
DEFAULT_FORMS = [
    Formula("lp", (("shift", "consistent"), ("sign", "shift"))),
    Formula("polynomial", (("form", "weighted"), ("sign", "shift"))),
    Formula("softmax", (("form", "weighted"),)),
]

every_form = pytest.mark.parametrize("form", FORMS, ids=str)
default_form = pytest.mark.parametrize("form", DEFAULT_FORMS, ids=str)
form_with_mu = pytest.mark.parametrize("form", [f for f in FORMS if f.takes_mu], ids=str)
fast_backend = pytest.mark.parametrize("backend", BACKENDS)
every_backend = pytest.mark.parametrize("backend", EVERY_BACKEND)
both_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])


def generator(seed):
    return torch.Generator().manual_seed(seed)


def messy_edges(num_nodes=30, num_edges=120, seed=0):
    """A directed graph with multi-edges and self-loops; the last three nodes are isolated."""
    edges = torch.randint(num_nodes - 3, (2, num_edges), generator=generator(seed))
    edges[:, 0] = 1
    edges[:, 1] = edges[:, 2]
    return edges


def messy_weight(edges, heads=(), seed=1):
    """Weights of order one; every seventh is zero, and so are all that enter node 0."""
    weight = 0.2 + torch.rand(edges.size(1), *heads, generator=generator(seed))
    weight[::7] = 0
    weight[edges[1] == 0] = 0
    return weight


def normal(*shape, seed=2, scale=1.0):
    """Float32 numbers, so that both dtypes see the same ones."""
    return scale * torch.randn(shape, generator=generator(seed))


def run(form, x, graph, theta, backend, *, edge_weight=None, mu=None, upstream=None):
    """The output and all gradients, in float64."""
    x = x.detach().clone().requires_grad_()
    theta = torch.as_tensor(theta).to(x.dtype).clone().requires_grad_()
    arguments = {}
    for name, value in (("edge_weight", edge_weight), ("mu", mu)):
        if value is not None:
            arguments[name] = torch.as_tensor(value).to(x.dtype).clone().requires_grad_()
    out = form(x, graph, theta, backend=backend, **arguments)
    assert out.dtype == x.dtype
    out.backward((normal(*out.shape, seed=3) if upstream is None else upstream).to(out.dtype))
    leaves = {"x": x, "theta": theta, **arguments}
    grads = {name: leaf.grad.double() for name, leaf in leaves.items()}
    return SimpleNamespace(out=out.detach().double(), grads=grads)


def assert_agree(got, want, x, tol, least_theta=0.0):
    """Outputs by the spread of the features, gradients by their norm, or by a least one."""
    assert_outputs_agree(got.out, want.out, x, tol)
    assert got.grads.keys() == want.grads.keys()
    # The origin's gradient is what the features' leave over, often a difference of equals. That
    # of weights is one too; where it vanishes, the reference has 1e-16 of the features left.
    least = {
        "mu": want.grads["x"].norm(),
        "edge_weight": 1e-10 * x.abs().max(),
        "theta": least_theta,
    }
    for name, expected in want.grads.items():
        assert_norm_close(got.grads[name], expected, tol, name, least.get(name, 0.0))


def assert_outputs_agree(got, want, x, tol):
    spread = (x.max().double() - x.min().double()).item()
    error = (got - want).abs() / want.abs().clamp(min=max(spread, 1e-300))
    assert error.max() <= tol, f"output is off by {error.max():.1e}"


def assert_norm_close(got, want, tol, name, least=0.0):
    assert got.shape == want.shape
    assert torch.isfinite(got).all(), f"gradient of {name} is not finite"
    error, size = (got - want).norm(), max(want.norm(), least)
    assert error <= tol * size + 1e-37, f"gradient of {name} is off by {error / size:.1e} of {size}"


def star(values, weight=None, extra=(), dtype=torch.float32):
    """Neighbours with the given values around one target, and unrelated nodes beside them.

    Sources and targets are different nodes, so that the target has no feature of its own.
    """
    column = torch.tensor([*values, *extra], dtype=dtype).unsqueeze(1)
    edges = torch.stack([torch.arange(len(values)), torch.zeros(len(values), dtype=torch.long)])
    return column, Graph.from_edge_index(edges, (len(column), 1), weight)
