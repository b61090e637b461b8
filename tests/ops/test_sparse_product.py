"""Products with sparse rows equal dense ones, with dropout done on the way or before."""

from __future__ import annotations

import pytest
import scipy.sparse
import torch

import meanmax
from meanmax.graph import SparseFeatures
from meanmax.nn.linear import dropout
from meanmax.ops import Drop, sparse_product
from meanmax.ops.numba import dropout as compiled


def features(rows=400, columns=24, density=0.9, dtype=torch.float64, seed=0) -> SparseFeatures:
    matrix = scipy.sparse.random_array((rows, columns), density=density, rng=seed)
    return SparseFeatures.from_scipy(matrix, dtype)


def dropped(x: SparseFeatures, rate: float, seed: int = 3) -> SparseFeatures:
    return SparseFeatures(x.graph, x.stored, Drop(rate, seed))


@pytest.mark.parametrize("channels", [1, 3, 8, 16, 64])
@pytest.mark.parametrize("rate", [0.0, 0.3, 0.9])
@pytest.mark.parametrize(("columns", "density"), [(24, 0.9), (900, 0.05)], ids=["tall", "wide"])
def test_equals_the_dense_product(columns, density, rate, channels):
    x = features(columns=columns, density=density)
    assert compiled.is_tall(x.graph, channels) == (columns == 24)
    value = x.stored.clone().requires_grad_()
    matrix = torch.randn(columns, channels, dtype=torch.float64, requires_grad=True)
    grad = torch.randn(400, channels, dtype=torch.float64)

    def outcome(out):
        return (out, *torch.autograd.grad(out, (matrix, value), grad))

    given = SparseFeatures(x.graph, value, Drop(rate, 3))
    found = outcome(sparse_product(given, matrix))
    dense = SparseFeatures(x.graph, Drop(rate, 3)(value)).to_dense()
    for mine, wanted in zip(found, outcome(dense @ matrix), strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-12, atol=1e-12)


def test_rows_across_blocks_of_the_mask():
    x = features(rows=40, columns=1100, density=1.0)  # 44,000 entries, in two blocks of 32,768
    value = torch.ones_like(x.stored)
    given = dropped(SparseFeatures(x.graph, value), 0.5)
    found = compiled.product(torch.eye(1100, dtype=torch.float64), value, given.graph, 0.5, seed=3)
    assert torch.equal(found, given.to_dense())


def test_gradients_are_those_of_differences():
    x = features(rows=40, columns=20, density=1.0)
    assert compiled.is_tall(x.graph, 3)
    matrix = torch.randn(20, 3, dtype=torch.float64, requires_grad=True)
    value = x.stored.clone().requires_grad_()

    def product(matrix, value):
        return sparse_product(SparseFeatures(x.graph, value, Drop(0.4, 5)), matrix)

    assert torch.autograd.gradcheck(product, (matrix, value))


def test_second_derivatives_are_refused():
    x = features()
    matrix = torch.randn(24, 3, dtype=torch.float64, requires_grad=True)
    out = sparse_product(dropped(x, 0.5), matrix).square().sum()
    (grad,) = torch.autograd.grad(out, matrix, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        grad.sum().backward()


def test_the_number_of_threads_changes_nothing():
    x = dropped(features(rows=4000, columns=20, dtype=torch.float32), 0.5)
    matrix = torch.randn(20, 16, requires_grad=True)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            out = sparse_product(x, matrix)
            found.append((out, *torch.autograd.grad(out.square().sum(), matrix)))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))


def test_what_does_not_pay_goes_the_other_way():
    few = features(rows=400, columns=24, density=0.3)  # seven entries a row
    assert not compiled.is_tall(few.graph, 8)
    assert not compiled.is_tall(features().graph, 1 << 15)  # sums beyond the cache


def test_values_keep_their_gradient_after_a_look_without_one():
    x = features()
    given = SparseFeatures(x.graph, x.stored.clone().requires_grad_(), Drop(0.5, 1))
    with torch.no_grad():
        assert not given.value.requires_grad
    assert given.to_dense().requires_grad


def test_empty_rows_and_no_entries():
    x = SparseFeatures.from_dense([[0.0, 0.0], [0.0, 0.0], [1.0, 2.0]])
    matrix = torch.tensor([[1.0], [10.0]], requires_grad=True)
    found = compiled.product(matrix, x.stored, x.graph, 0.0, 0)
    assert found.view(-1).tolist() == [0.0, 0.0, 21.0]
    none = SparseFeatures.from_dense(torch.zeros(3, 2))
    assert sparse_product(none, matrix).view(-1).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_dropout_of_sparse_features_repeats_and_scales(backend):
    x = features()
    with meanmax.use_backend(backend):
        torch.manual_seed(1)
        once = dropout(x, 0.5, True)
        torch.manual_seed(1)
        again = dropout(x, 0.5, True)
        assert torch.equal(once.value, again.value)
        stays = once.value != 0
        assert 0.4 < stays.double().mean() < 0.6
        torch.testing.assert_close(once.value[stays], 2 * x.value[stays])
        twice = dropout(once, 0.5, True)
        assert bool((twice.value[~stays] == 0).all())
        assert dropout(x, 0.5, False) is x
