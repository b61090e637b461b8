"""The names that need no PyTorch are those of the registries."""

from meanmax import names
from meanmax.nn import BACKBONES, PYG_BASELINES
from meanmax.nn.conv import AGGREGATORS


def test_they_name_what_there_is():
    assert names.BACKBONES == tuple(BACKBONES)
    assert names.AGGREGATORS == tuple(AGGREGATORS)
    assert names.PYG_BASELINES == tuple(PYG_BASELINES)
