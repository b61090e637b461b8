"""The softmax mean as a module: its options, its ends, and PyG's own as a second truth."""

import pytest
import torch
import torch_geometric

from meanmax import SoftmaxAggregation

from .naive import assert_close, groups, naive, normal


@pytest.mark.parametrize("form", ["weighted", "sum", "paper"])
@pytest.mark.parametrize("gamma", [0.0, 0.7, 3.0])
def test_every_form(form, gamma):
    x, index, weight = normal(20, 3), groups(20, 5), normal(20, seed=1).abs()
    aggr = SoftmaxAggregation(gamma, form=form)
    want = naive("softmax", x, index, 5, gamma, weight, form=form)
    assert_close(aggr(x, index, dim_size=5, edge_weight=weight), want)


def test_without_weights_it_is_the_softmax_of_pyg():
    x, index = 30 * normal(20, 3), groups(20, 5)
    theirs = torch_geometric.nn.aggr.SoftmaxAggregation(t=2.0, learn=True).double()
    ours = SoftmaxAggregation(2.0)
    want = theirs(x.double(), index, dim_size=5)
    got = ours(x, index, dim_size=5)
    assert_close(got, want)
    (want_grad,) = torch.autograd.grad(want.sum(), theirs.t)
    (got_grad,) = torch.autograd.grad(got.sum(), ours.raw)
    assert_close(got_grad, want_grad.view(()), 1e-4)


def test_from_mean_to_max():
    x, index = normal(20, 3) - 5.0, groups(20, 5)
    top = torch.stack([x[index == group].amax(0) for group in range(4)])
    mean = torch.stack([x[index == group].mean(0) for group in range(4)])
    assert_close(SoftmaxAggregation(0.0)(x, index), mean)
    assert_close(SoftmaxAggregation(1e5)(x, index), top, 1e-4)


def test_unknown_options_list_the_known():
    allowed = "'weighted', 'sum', 'paper'"
    with pytest.raises(ValueError, match=f"'form' must be one of {allowed} .got 'none'"):
        SoftmaxAggregation(form="none")
