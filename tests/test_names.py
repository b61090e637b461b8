"""The names that need no PyTorch are those of the registries."""

import inspect

import pytest

from meanmax import names
from meanmax.aggr import AGGREGATIONS
from meanmax.nn import BACKBONES, PYG_BASELINES


def test_they_name_what_there_is():
    assert names.BACKBONES == tuple(BACKBONES)
    assert tuple(names.LEARNED) == tuple(AGGREGATIONS)
    assert names.PYG_BASELINES == tuple(PYG_BASELINES)
    without = [name for name, one in BACKBONES.items() if "aggr" not in one.takes]
    assert names.WITHOUT_AGGREGATOR == tuple(without)


@pytest.mark.parametrize("name", names.LEARNED)
def test_each_aggregator_takes_its_start_and_then_the_options_of_its_formula(name):
    start, *options = inspect.signature(AGGREGATIONS[name]).parameters.values()
    assert start.kind is start.POSITIONAL_OR_KEYWORD
    assert {each.name for each in options} == {*names.LEARNED[name], "options"}


def test_aliases_are_stored_under_one_name():
    assert names.aggregator_name("linear") == names.aggregator_name(None) == "none"
    assert names.aggregator_name("polynomial") == names.aggregator_name("poly") == "poly"
    for wrong in (3, "Linear"):
        with pytest.raises(ValueError, match="unknown aggregator .*'linear', 'lp', 'poly'"):
            names.aggregator_name(wrong)


@pytest.mark.parametrize("name", ["mean", "sum", "add"])
def test_who_asks_for_pygs_names_learns_which_layer_has_them(name):
    hint = "'linear' is the layer's own aggregation: the mean in SAGEConv, the sum in GINConv"
    with pytest.raises(ValueError, match=f"unknown aggregator '{name}'.*{hint}"):
        names.aggregator_name(name)
