"""A saved parameter is loaded into the aggregator that it belongs to, and into no other."""

import io

import pytest
import torch

from meanmax import LpAggregation, PolynomialAggregation, SoftmaxAggregation
from meanmax.aggr import SpreadAggregation
from meanmax.nn import GCNConv

OTHERS = {
    "kind": (LpAggregation(2.0), SoftmaxAggregation(), "p of lp .*gamma of softmax"),
    "formula": (PolynomialAggregation(2.0), SoftmaxAggregation(), "alpha of polynomial"),
    "sides": (LpAggregation(2.0), LpAggregation(signed=True), "p of lp .*theta of lp"),
    "reparam": (
        SoftmaxAggregation(2.0, reparam="softplus"),
        SoftmaxAggregation(),
        ".*reparam='softplus'.*reparam='projected'",
    ),
    "upper": (
        SoftmaxAggregation(1.0, reparam="sigmoid", upper=4.0),
        SoftmaxAggregation(1.0, reparam="sigmoid"),
        ".*upper=4.0.*upper=2.0",
    ),
}


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("case", OTHERS)
@pytest.mark.parametrize("strict", [True, False])
def test_another_parameter_is_refused_and_changes_nothing(case, strict):
    saved, other, message = OTHERS[case]
    before = other.raw.detach().clone()
    for state in (saved.state_dict(), through_a_file(saved.state_dict())):
        with pytest.raises(RuntimeError, match=f"'raw' is the {message}"):
            other.load_state_dict(state, strict=strict)
    assert torch.equal(other.raw, before)


def test_the_error_names_the_layer():
    saved, other = GCNConv(3, 2, aggr="lp"), GCNConv(3, 2, aggr="softmax")
    with pytest.raises(RuntimeError, match=r"'[\w.]+\.raw' is the p of lp"):
        other.load_state_dict(through_a_file(saved.state_dict()))


def test_the_same_formula_under_another_name_is_loaded():
    spread = SpreadAggregation(channels=3)
    twin = SoftmaxAggregation(0.0, per="channel", channels=3, signed=True, form="sum")
    twin.load_state_dict(spread.state_dict())
    assert twin.gamma.tolist() == [-4.0, 0.0, 4.0]


def test_states_without_the_mark_are_loaded():
    saved = LpAggregation(3.0).state_dict()
    old = dict(saved)  # as earlier versions wrote it
    other = LpAggregation(2.0)
    assert set(old) == {"raw"}
    other.load_state_dict(old, strict=True)
    assert other.p.item() == 3.0
