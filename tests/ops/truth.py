"""The aggregators straight from their formulas, number by number with sixty digits.

Nothing is rescaled and nothing is shared with the library: exponents of mpmath's numbers do not
overflow. Derivatives are central differences, exact to far more digits than float64 has.
"""

import mpmath
import numpy as np

mpmath.mp.dps = 60
STEP = mpmath.mpf(10) ** -20


def truth(form, x, edges, theta, weight, mu=None):
    """The aggregate of every node.

    Args:
        form: The form.
        x: Features, [nodes][channels].
        edges: Pairs (source, target).
        theta: The parameter of every channel.
        weight: The weight of every edge.
        mu: The origin; the minimum if None.
    """
    options = dict(form.options)
    if form.kind != "softmax":
        if options["sign"] == "abs":
            x, mu = [[abs(value) for value in row] for row in x], mpmath.mpf(0)
        elif mu is None:
            mu = min(value for row in x for value in row)
    rule = {"lp": _lp, "polynomial": _polynomial, "softmax": _softmax}[form.kind]
    out = []
    for node in range(len(x)):
        near = [(a, x[u]) for (u, v), a in zip(edges, weight, strict=True) if v == node]
        total = sum(a for a, _ in near)
        out.append([
            rule([(a, z[k]) for a, z in near], theta[k], total, mu, options)
            if total > 0 else mpmath.mpf(0)
            for k in range(len(theta))
        ])  # fmt: skip
    return out


def _lp(near, p, total, mu, options):
    norm = sum(a * (z - mu) ** p for a, z in near) ** (1 / p)
    return norm + (mu if options["shift"] == "paper" else mu * total ** (1 / p))


def _polynomial(near, alpha, total, mu, options):
    above = sum(a * (z - mu) ** (alpha + 1) for a, z in near)
    below = sum(a * (z - mu) ** alpha for a, z in near)
    mean = (above / below if below > 0 else 0) + mu
    return total * mean if options["form"] == "sum" else mean


def _softmax(near, gamma, total, mu, options):
    printed = options["form"] == "paper"
    above = sum(a * z * mpmath.exp(gamma * z) for a, z in near)
    mean = above / sum((1 if printed else a) * mpmath.exp(gamma * z) for a, z in near)
    return total * mean if options["form"] == "sum" else mean


def as_numbers(values):
    """The entries of an array as mpmath's numbers, nested alike."""
    if np.ndim(values) == 0:
        return mpmath.mpf(float(values))
    return [as_numbers(value) for value in values]


def as_array(values):
    return np.array([[float(value) for value in row] for row in values])


def differences(function, values):
    """The derivative of a function of a nested list by each of its entries."""
    grad = np.zeros(np.shape(values))
    for index in np.ndindex(grad.shape):
        ends = []
        for step in (STEP, -STEP):
            moved = np.array(values, dtype=object)
            moved[index] = moved[index] + step
            ends.append(function(moved.tolist()))
        grad[index] = float((ends[0] - ends[1]) / (2 * STEP))
    return grad
