"""The learnable parameter: its shapes, its three forms, and what they refuse."""

import math

import pytest
import torch

from meanmax import LpAggregation, PolynomialAggregation, SoftmaxAggregation

from .naive import CLASSES, LOWER, NAMES, every_kind


@every_kind
@pytest.mark.parametrize("reparam", ["projected", "softplus", "sigmoid"])
@pytest.mark.parametrize("above", [1e-3, 0.5, 0.999])
def test_every_form_starts_where_told(kind, reparam, above):
    start = LOWER[kind] + above * (1.0 if kind == "lp" else 2.0)
    aggr = CLASSES[kind](start, reparam=reparam)
    value = getattr(aggr, NAMES[kind])
    assert value.shape == () and value.requires_grad
    assert value.item() == pytest.approx(start, rel=1e-6)


@every_kind
def test_projection_holds_the_baseline_and_lets_the_gradient_through(kind):
    aggr = CLASSES[kind](LOWER[kind])
    for raw in (LOWER[kind], LOWER[kind] - 0.1, -1.657211422920227, -2.1645e8):
        with torch.no_grad():
            aggr.raw.fill_(raw)
        value = getattr(aggr, NAMES[kind])
        assert value.item() == LOWER[kind]
        (grad,) = torch.autograd.grad(value, aggr.raw)
        assert float(grad) == 1.0


def test_softplus_and_sigmoid_are_their_formulas():
    aggr = LpAggregation(3.0, reparam="softplus").double()
    with torch.no_grad():
        aggr.raw.fill_(-0.7)
    assert aggr.p.item() == pytest.approx(1 + math.log1p(math.exp(-0.7)), rel=1e-12)
    aggr = SoftmaxAggregation(3.0, reparam="sigmoid", upper=5.0).double()
    with torch.no_grad():
        aggr.raw.fill_(-0.7)
    assert aggr.gamma.item() == pytest.approx(5 / (1 + math.exp(0.7)), rel=1e-12)


def test_sigmoid_reaches_up_to_two_unless_told():
    aggr = PolynomialAggregation(1.0, reparam="sigmoid")
    with torch.no_grad():
        aggr.raw.fill_(100.0)
    assert aggr.alpha.item() == 2.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p": 1.0, "reparam": "softplus"}, r"cannot start at p=1.0, the edge of its domain: start at 1.01 or use reparam='projected'"),  # noqa: E501
        ({"p": 0.5, "reparam": "softplus"}, r"cannot start at p=0.5, below 1: start at 1.01$"),
        ({"p": 1.0, "reparam": "sigmoid"}, r"cannot start at p=1.0, the edge .* start at 1.01 or"),
        ({"p": 2.0, "reparam": "sigmoid"}, r"p=2.0, not below upper=2.0: start at 1.99 or use"),
        ({"p": 9.0, "reparam": "sigmoid", "upper": 5.0}, r"not below upper=5.0: start at 4.96"),
        ({"p": 0.99}, r"reparam='projected' cannot start at p=0.99, below 1: start at 1$"),
        ({"p": math.nan}, r"'p' must be finite \(got nan\): start at 2.0"),
        ({"p": math.inf}, r"'p' must be finite \(got inf\).*meanmax.functional.max"),
        ({"p": 1e39}, r"'p' must be finite \(got 1e\+39\)"),
        ({"upper": 3.0}, r"'upper' bounds reparam='sigmoid' only \(got upper=3.0 with"),
        ({"reparam": "sigmoid", "upper": 1.0}, r"'upper' must be finite and above 1 \(got 1.0\)"),
        ({"reparam": "sigmoid", "upper": math.nan}, r"'upper' must be finite and above 1"),
        ({"reparam": "exp"}, r"'reparam' must be one of 'projected', 'softplus', 'sigmoid'"),
        ({"per": "node"}, r"'per' must be one of 'layer', 'head', 'channel' \(got 'node'\)"),
        ({"per": "head"}, r"per='head' needs 'heads'"),
        ({"per": "channel", "heads": 2}, r"'heads' has no effect with per='channel'"),
        ({"per": "channel"}, r"per='channel' needs 'channels'"),
        ({"channels": 4}, r"'channels' has no effect with per='layer' \(got channels=4\)"),
        ({"per": "head", "heads": 0}, r"'heads' must be a positive integer \(got 0\)"),
        ({"per": "head", "heads": 2.5}, r"'heads' must be a positive integer \(got 2.5\)"),
        ({"p": "two"}, r"'p' must be a number \(got 'two'\)"),
        ({"p": [2.0, 3.0]}, r"'p' must be a number \(got \[2.0, 3.0\]\)"),
        ({"p": [2.0, 3.0], "per": "head", "heads": 3}, r"'p' must be a number or 3 of them"),
        ({"p": torch.ones(1, 2), "per": "head", "heads": 2}, r"\(got shape \[1, 2\]\)"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_what_can(options, message):
    with pytest.raises(ValueError, match=message):
        LpAggregation(**options)


def test_one_value_outside_is_found_among_many():
    with pytest.raises(ValueError, match="cannot start at gamma=-0.5"):
        SoftmaxAggregation([0.0, 1.0, -0.5], per="channel", channels=3)


@pytest.mark.parametrize("start", [[1.0, 2.0, 3.0], (1, 2, 3), torch.tensor([1.0, 2.0, 3.0])])
def test_a_start_value_for_each_head(start):
    aggr = LpAggregation(start, per="head", heads=3)
    assert aggr.p.tolist() == [1.0, 2.0, 3.0]
    assert LpAggregation(4.0, per="head", heads=3).p.tolist() == [4.0, 4.0, 4.0]


def test_a_start_tensor_is_copied():
    start = torch.tensor([1.0, 2.0], requires_grad=True)
    aggr = LpAggregation(start, per="channel", channels=2)
    with torch.no_grad():
        start.fill_(9.0)
    assert aggr.p.tolist() == [1.0, 2.0] and aggr.raw.is_leaf


@pytest.mark.parametrize("reparam", ["projected", "softplus"])
def test_a_projection_that_changes_nothing_is_left_out(reparam):
    aggr = LpAggregation(3.0, reparam=reparam)
    assert aggr.domain.is_itself(aggr.raw) == (reparam == "projected")
    assert aggr._spread((4,)).item() == pytest.approx(3.0)
    with torch.no_grad():
        aggr.raw.fill_(0.5)
    assert not aggr.domain.is_itself(aggr.raw)
    assert reparam == "softplus" or aggr._spread((4,)).item() == 1.0
