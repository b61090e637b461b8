"""The polynomial mean as a module: its options and its ends."""

import pytest
import torch

from meanmax import PolynomialAggregation

from .naive import assert_close, groups, naive, normal


@pytest.mark.parametrize("form", ["weighted", "sum", "paper"])
@pytest.mark.parametrize("sign", ["shift", "abs"])
@pytest.mark.parametrize("alpha", [0.0, 0.7, 3.0])
def test_every_form(form, sign, alpha):
    x, index, weight = normal(20, 3), groups(20, 5), normal(20, seed=1).abs()
    aggr = PolynomialAggregation(alpha, form=form, sign=sign)
    want = naive("polynomial", x, index, 5, alpha, weight, form=form, sign=sign)
    assert_close(aggr(x, index, dim_size=5, edge_weight=weight), want)


def test_from_mean_to_max():
    x, index = normal(20, 3) - 5.0, groups(20, 5)
    top = torch.stack([x[index == group].amax(0) for group in range(4)])
    mean = torch.stack([x[index == group].mean(0) for group in range(4)])
    assert_close(PolynomialAggregation(0.0)(x, index), mean)
    assert_close(PolynomialAggregation(1e5)(x, index), top, 1e-4)


def test_a_group_at_the_minimum_stays_there():
    x, index = torch.tensor([[-2.0], [-2.0], [1.0]]), torch.tensor([0, 0, 1])
    assert PolynomialAggregation(2.0)(x, index).flatten().tolist() == [-2.0, 1.0]


@pytest.mark.parametrize(
    ("option", "allowed"),
    [("form", "'weighted', 'sum', 'paper'"), ("sign", "'shift', 'abs'")],
)
def test_unknown_options_list_the_known(option, allowed):
    with pytest.raises(ValueError, match=f"'{option}' must be one of {allowed} .got 'none'"):
        PolynomialAggregation(**{option: "none"})
