"""The formulas of the paper, one group after the other, in float64."""

import pytest
import torch

import meanmax

CLASSES = {
    "lp": meanmax.LpAggregation,
    "polynomial": meanmax.PolynomialAggregation,
    "softmax": meanmax.SoftmaxAggregation,
}
NAMES = {"lp": "p", "polynomial": "alpha", "softmax": "gamma"}
LOWER = {"lp": 1.0, "polynomial": 0.0, "softmax": 0.0}
every_kind = pytest.mark.parametrize("kind", CLASSES)


def normal(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def groups(num_messages, num_groups, seed=0):
    """Random groups, the last one empty."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(num_groups - 1, (num_messages,), generator=generator)


def naive(kind, x, index, size, theta, weight=None, **options):
    """Aggregates messages x, [messages, *features], with weights [messages] or [messages, heads].

    Differentiable, so that autograd gives the truth of the gradients as well.
    """
    x, theta = x.double(), torch.as_tensor(theta).double()
    a = torch.ones(len(x)) if weight is None else weight
    a = a.double().reshape(*a.shape, *[1] * (x.dim() - a.dim()))
    mu = x.min() if options.get("sign", "shift") == "shift" and kind != "softmax" else 0.0
    rows = []
    for group in range(size):
        members = [i for i, own in enumerate(index.tolist()) if own == group]
        z, w = x[members], a[members]
        row = _FORMULAS[kind](z, w, theta, mu, **options) if members else torch.zeros_like(x[0])
        rows.append(row)
    return torch.stack(rows)


def _lp(z, w, p, mu, shift="consistent", sign="shift"):
    y = z.abs() if sign == "abs" else z - mu
    added = mu * w.sum(0) ** (1 / p) if shift == "consistent" else mu
    return (w * y**p).sum(0) ** (1 / p) + added


def _polynomial(z, w, alpha, mu, form="weighted", sign="shift"):
    y = z.abs() if sign == "abs" else z - mu
    above, below = (w * y ** (alpha + 1)).sum(0), (w * y**alpha).sum(0)
    mean = torch.where(below > 0, above / torch.where(below > 0, below, 1.0), 0.0) + mu
    return w.sum(0) * mean if form == "sum" else mean


def _softmax(z, w, gamma, mu, form="weighted"):
    tilt = (gamma * z).exp()
    below = tilt.sum(0) if form == "paper" else (w * tilt).sum(0)
    mean = (w * tilt * z).sum(0) / below
    return w.sum(0) * mean if form == "sum" else mean


_FORMULAS = {"lp": _lp, "polynomial": _polynomial, "softmax": _softmax}


def assert_close(got, want, tol=1e-5):
    assert got.shape == want.shape
    scale = max(1.0, float(want.detach().abs().max()) if want.numel() else 0.0)
    torch.testing.assert_close(got.double(), want.double(), rtol=0.0, atol=tol * scale)
