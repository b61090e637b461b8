from __future__ import annotations

import pytest
import scipy.sparse
import torch

from meanmax import SparseFeatures
from meanmax.nn import Linear
from meanmax.nn.linear import dropout

DENSE = torch.tensor([[0.0, 2.0, 0.0, -1.0], [0.0, 0.0, 0.0, 0.0], [3.0, 0.0, 0.0, 4.0]])


def test_every_source_gives_the_same():
    sources = [
        SparseFeatures.from_dense(DENSE),
        SparseFeatures.from_scipy(scipy.sparse.coo_array(DENSE.numpy())),
        SparseFeatures.from_scipy(scipy.sparse.csc_matrix(DENSE.numpy())),
        SparseFeatures.from_torch(DENSE.to_sparse()),
    ]
    for x in sources:
        assert torch.equal(x.to_dense(), DENSE)
        assert x.value.tolist() == [2.0, -1.0, 3.0, 4.0]
        assert (tuple(x.shape), x.size(1)) == ((3, 4), 4)
        assert (x.to_scipy().toarray() == DENSE.numpy()).all()


def test_duplicates_are_summed_and_zeros_dropped():
    matrix = scipy.sparse.coo_array(([1.0, 2.0, 0.0], ([0, 0, 1], [1, 1, 0])), (2, 2))
    x = SparseFeatures.from_scipy(matrix)
    assert x.value.tolist() == [3.0]


def test_the_source_is_not_changed():
    matrix = scipy.sparse.csr_array(([1.0, 0.0], [1, 0], [0, 1, 2]), (2, 2))
    SparseFeatures.from_scipy(matrix)
    assert matrix.nnz == 2


@pytest.mark.parametrize("bias", [False, True])
def test_linear_map_and_its_gradients(bias):
    torch.manual_seed(0)
    linear = Linear(4, 5, bias=bias).double()
    value = SparseFeatures.from_dense(DENSE, torch.float64).value.requires_grad_()
    x = SparseFeatures.from_dense(DENSE, torch.float64).with_value(value)
    out, expected = linear(x), linear(x.to_dense())
    torch.testing.assert_close(out, expected)
    wanted = [value, *linear.parameters()]
    ours, theirs = (torch.autograd.grad(o.square().sum(), wanted) for o in (out, expected))
    for got, true in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got, true)


def test_dropout_acts_on_stored_values():
    x = SparseFeatures.from_dense(torch.ones(100, 100))
    torch.manual_seed(0)
    out = dropout(x, 0.5, True)
    assert set(out.value.unique().tolist()) == {0.0, 2.0}
    assert out.graph is x.graph
    assert dropout(x, 0.5, False) is x


def test_other_dtype_and_repr():
    x = SparseFeatures.from_dense(DENSE)
    assert x.to(torch.float64).to_dense().dtype == torch.float64
    assert x.to("cpu") is x
    assert repr(x) == "SparseFeatures(num_nodes=3, num_features=4, stored=4)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SparseFeatures.from_dense([1.0, 2.0]), r"\[num_nodes, num_features\]"),
        (lambda: SparseFeatures.from_dense([[float("nan")]]), "must be finite"),
        (lambda: SparseFeatures.from_scipy(DENSE), "scipy sparse matrix"),
        (lambda: SparseFeatures.from_torch(DENSE), "two-dimensional sparse tensor"),
        (
            lambda: SparseFeatures.from_dense(DENSE).with_value(torch.ones(3)),
            "each of 4 stored entries",
        ),
        (
            lambda: SparseFeatures.from_dense(DENSE).with_value(torch.ones(4, dtype=torch.int64)),
            "floating-point",
        ),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
