"""The warning of a mean in a layer that sums normalised messages."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

import pytest
import torch
from torch_geometric import nn as pyg
from torch_geometric.nn import MessagePassing

import meanmax
from meanmax import LpAggregation, PolynomialAggregation, SoftmaxAggregation, SpreadAggregation
from meanmax.aggr import placement


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    monkeypatch.setattr(placement, "_warned", set())


@pytest.mark.parametrize("aggr", [SoftmaxAggregation, PolynomialAggregation])
@pytest.mark.parametrize("layer", [pyg.GCNConv, pyg.GATConv, pyg.TransformerConv, pyg.TAGConv])
def test_warns_once_for_each_class_of_layer(layer, aggr):
    wanted = rf"{aggr.__name__}.*{layer.__name__} sums.*form='sum'.*meanmax.accelerate"
    with pytest.warns(UserWarning, match=wanted) as caught:
        layer(4, 3, aggr=aggr())
    assert caught[0].filename == __file__  # not a line of PyTorch
    layer(4, 3, aggr=aggr())  # a second warning would be an error


def test_warns_inside_a_list_and_of_a_subclass():
    class Own(pyg.GCNConv):
        pass

    with pytest.warns(UserWarning, match="GCNConv"):
        Own(4, 3, aggr=["mean", SpreadAggregation(channels=3)])


@pytest.mark.parametrize(
    "aggr",
    [
        SoftmaxAggregation(form="sum"),
        PolynomialAggregation(form="sum"),
        SoftmaxAggregation(beta=1.0),
        LpAggregation(),
        "softmax",
    ],
)
def test_what_fits_does_not_warn(aggr):
    pyg.GCNConv(4, 3, aggr=aggr)


@pytest.mark.parametrize("layer", [pyg.SAGEConv, pyg.GENConv, pyg.GraphConv])
def test_layers_of_another_kind_do_not_warn(layer):
    layer(4, 3, aggr=SoftmaxAggregation())
    pyg.GINConv(torch.nn.Linear(4, 3), aggr=SoftmaxAggregation())


def test_accelerate_warns_of_a_model_that_came_without_registration():
    layer = pyg.GCNConv(4, 3)
    layer._modules["aggr_module"] = SoftmaxAggregation()  # as unpickling does
    with pytest.warns(UserWarning, match="GCNConv sums"):
        meanmax.accelerate(torch.nn.ModuleList([layer, pyg.GCNConv(4, 3)]))


@pytest.mark.parametrize("kind", placement.WEIGHTED_SUMS)
def test_listed_layers_sum_what_they_weigh(kind):
    assert issubclass(kind, MessagePassing)
    assert re.search("alpha|norm|weight|attention", inspect.getsource(kind.message))
    made = inspect.getsource(kind.__init__)
    assert re.search(r"""setdefault\(["']aggr["'], ["']add["']\)""", made) or "aggr" not in made


def test_importing_installs_no_hook():
    code = (
        "import meanmax, meanmax.nn, torch.nn.modules.module as m;"
        "assert not m._global_module_registration_hooks;"
        "meanmax.LpAggregation(); meanmax.LpAggregation();"
        "assert len(m._global_module_registration_hooks) == 1"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
