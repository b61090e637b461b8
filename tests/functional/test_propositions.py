"""What the paper says of its aggregators, and where its printed forms do not keep it."""

import numpy as np
import pytest
import torch

from meanmax import Graph, functional

from ..ops.cases import every_backend, messy_edges, messy_weight, normal, star

EDGES = messy_edges()
WEIGHT = messy_weight(EDGES).double()
X = normal(30, 4).double()
MEANS = [functional.polynomial, functional.softmax]
a_mean = pytest.mark.parametrize("mean", MEANS, ids=["polynomial", "softmax"])


def dense(weight=WEIGHT):
    matrix = np.zeros((30, 30))
    np.add.at(matrix, (EDGES[1].numpy(), EDGES[0].numpy()), weight.numpy())
    return matrix


def graph(**options):
    return Graph.from_edge_index(EDGES, 30, WEIGHT, **options)


def largest():
    present = dense() > 0
    masked = np.where(present[:, :, None], X.numpy()[None], -np.inf).max(axis=1)
    return np.where(present.any(axis=1)[:, None], masked, 0.0)


def close(got, want, tol=1e-12):
    np.testing.assert_allclose(np.asarray(got), want, rtol=tol, atol=tol)


@every_backend
def test_lp_at_one_is_the_weighted_sum(backend):
    close(functional.lp(X, graph(), 1.0, backend=backend), dense() @ X.numpy())


@every_backend
def test_printed_lp_at_one_is_not_the_weighted_sum(backend):
    """Eq. 7 adds mu where the sum needs mu * A."""
    total = dense().sum(1, keepdims=True)
    printed = functional.lp(X, graph(), 1.0, shift="paper", backend=backend)
    want = np.where(total > 0, dense() @ X.numpy() + X.min().item() * (1 - total), 0.0)
    close(printed, want)
    assert np.abs(want - dense() @ X.numpy()).max() > 1
    row = graph(normalize="row")
    printed, linear = (
        functional.lp(X, row, 1.0, shift="paper", backend=backend),
        functional.sum(X, row, backend=backend),
    )
    close(printed, linear)


@a_mean
@every_backend
def test_means_at_zero_are_the_weighted_mean(mean, backend):
    total = dense().sum(1, keepdims=True)
    want = np.where(total > 0, dense() @ X.numpy() / np.where(total > 0, total, 1), 0.0)
    close(mean(X, graph(), 0.0, backend=backend), want)


@a_mean
@every_backend
def test_sum_form_at_zero_is_the_linear_aggregation(mean, backend):
    sym = graph(normalize="sym", self_loops=True)
    out = mean(X, sym, 0.0, form="sum", backend=backend)
    close(out, functional.sum(X, sym, backend="reference"))


@pytest.mark.parametrize("name", ["lp", "polynomial", "softmax"])
@every_backend
def test_limit_is_the_maximum(name, backend):
    out = getattr(functional, name)(X, graph(), 1e5, backend=backend)
    close(out, largest(), 1e-3)


@a_mean
@every_backend
def test_limit_of_the_sum_form_is_the_scaled_maximum(mean, backend):
    out = mean(X, graph(), 1e5, form="sum", backend=backend)
    close(out, dense().sum(1, keepdims=True) * largest(), 1e-3)


@a_mean
@every_backend
def test_means_are_monotone(mean, backend):
    steps = [0.0, 0.1, 0.5, 1.0, 3.0, 10.0, 50.0, 300.0]
    outs = torch.stack([mean(X, graph(), step, backend=backend) for step in steps])
    assert (outs.diff(dim=0) >= -1e-12).all()
    assert (outs[-1] - outs[0]).max() > 0.5


@every_backend
def test_lp_is_monotone_where_weights_sum_to_one(backend):
    steps = [1.0, 1.1, 1.5, 2.0, 4.0, 10.0, 50.0, 300.0]
    row = graph(normalize="row")
    outs = torch.stack([functional.lp(X, row, step, backend=backend) for step in steps])
    assert (outs.diff(dim=0) >= -1e-12).all()
    assert (outs[-1] - outs[0]).max() > 0.5


@pytest.mark.parametrize(("p", "want"), [(1.0, 1.14), (10.0, 0.98), (1e4, 1.0)])
@every_backend
def test_lp_is_not_monotone_otherwise(backend, p, want):
    x, pair = star([1.0, 0.9], weight=torch.tensor([0.6, 0.6]), extra=[0.0], dtype=torch.float64)
    assert functional.lp(x, pair, p, backend=backend).item() == pytest.approx(want, abs=5e-3)


@every_backend
def test_printed_softmax_divides_by_the_degree_twice(backend):
    """Eq. 15 with GCN's weights: (A H) / |N| at zero and A * max in the limit, not mean and max."""
    sym = Graph.from_edge_index(EDGES, 30, normalize="sym", self_loops=True)
    index, values = sym.edge_index.numpy(), sym.edge_weight.double().numpy()
    count, linear = np.zeros(30), np.zeros((30, 4))
    np.add.at(count, index[1], 1)
    np.add.at(linear, index[1], values[:, None] * X.numpy()[index[0]])
    at_zero = functional.softmax(X, sym, 0.0, form="paper", backend=backend)
    close(at_zero, linear / count[:, None])
    limit = functional.softmax(X, sym, 1e5, form="paper", backend=backend)
    want = np.zeros((30, 4))
    for node in range(30):
        near = np.flatnonzero(index[1] == node)
        for channel in range(4):
            z = X.numpy()[index[0][near], channel]
            best = near[z == z.max()]
            want[node, channel] = values[best].mean() * z.max()
    close(limit, want, 1e-6)
    assert np.abs(want).max() < np.abs(functional.max(X, sym).numpy()).max()


@every_backend
def test_printed_polynomial_is_the_weighted_one(backend):
    outs = [functional.polynomial(X, graph(), 1.7, form=form, backend=backend)
            for form in ("paper", "weighted")]  # fmt: skip
    assert torch.equal(*outs)


@every_backend
def test_absolute_values_forget_the_sign(backend):
    for rule, theta in ((functional.lp, 2.0), (functional.polynomial, 1.5)):
        outs = [rule(z, graph(), theta, sign="abs", backend=backend) for z in (X, -X, X.abs())]
        assert torch.equal(outs[0], outs[1]) and torch.equal(outs[0], outs[2])
    norm = functional.lp(X, graph(), 2.0, sign="abs", backend=backend)
    close(norm, np.sqrt(dense() @ X.numpy() ** 2))
