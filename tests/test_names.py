"""The names that need no PyTorch are those of the registries."""

import pytest

from meanmax import names
from meanmax.nn import BACKBONES, PYG_BASELINES
from meanmax.nn.conv import CLASSES


def test_they_name_what_there_is():
    assert names.BACKBONES == tuple(BACKBONES)
    assert names.AGGREGATORS == (*CLASSES, "max")
    assert names.PYG_BASELINES == tuple(PYG_BASELINES)


def test_aliases_are_stored_under_one_name():
    assert names.aggregator_name("linear") == names.aggregator_name(None) == "none"
    assert names.aggregator_name("polynomial") == names.aggregator_name("poly") == "poly"
    for wrong in ("mean", 3, "Linear"):
        with pytest.raises(ValueError, match="unknown aggregator .*'linear', 'lp', 'poly'"):
            names.aggregator_name(wrong)
