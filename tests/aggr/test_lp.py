"""The Lp norm as a module: its options, its ends, and where PyG's power mean breaks."""

import pytest
import torch
from torch_geometric.nn.aggr import PowerMeanAggregation

from meanmax import LpAggregation

from .naive import assert_close, groups, naive, normal


@pytest.mark.parametrize("shift", ["consistent", "paper"])
@pytest.mark.parametrize("sign", ["shift", "abs"])
@pytest.mark.parametrize("p", [1.0, 1.3, 4.0])
def test_every_form(shift, sign, p):
    x, index, weight = normal(20, 3), groups(20, 5), normal(20, seed=1).abs()
    out = LpAggregation(p, shift=shift, sign=sign)(x, index, dim_size=5, edge_weight=weight)
    assert_close(out, naive("lp", x, index, 5, p, weight, shift=shift, sign=sign))


def test_from_sum_to_max():
    x, index = normal(20, 3) - 5.0, groups(20, 5)
    top = torch.stack([x[index == group].amax(0) for group in range(4)])
    total = torch.stack([x[index == group].sum(0) for group in range(4)])
    assert_close(LpAggregation(1.0)(x, index), total)
    assert_close(LpAggregation(1e5)(x, index), top, 1e-4)


def test_where_the_power_mean_of_pyg_breaks():
    x, index = torch.tensor([[-3.0], [-1.0], [2.0], [5.0]]), torch.tensor([0, 0, 1, 1])
    theirs = PowerMeanAggregation(p=20.0)(x, index)
    assert theirs[0] > 0 and theirs[1] < 2  # above all of the group, below all of the group
    weight = torch.full((4,), 0.5)
    ours = LpAggregation(20.0)(x, index, edge_weight=weight)
    assert_close(ours, naive("lp", x, index, 2, 20.0, weight))
    assert -3 < ours[0] < -1 and 2 < ours[1] < 5


def test_the_parameter_learns_to_be_the_maximum():
    x, index = normal(40, 3), torch.arange(40) // 4
    weight, aggr = torch.full((40,), 0.25), LpAggregation(2.0)
    top = x.view(10, 4, 3).amax(1)
    optimizer = torch.optim.Adam(aggr.parameters(), lr=0.5)
    for _ in range(60):
        optimizer.zero_grad()
        (aggr(x, index, edge_weight=weight) - top).square().mean().backward()
        optimizer.step()
    assert aggr.p.item() > 10


@pytest.mark.parametrize(
    ("option", "allowed"), [("shift", "'consistent', 'paper'"), ("sign", "'shift', 'abs'")]
)
def test_unknown_options_list_the_known(option, allowed):
    with pytest.raises(ValueError, match=f"'{option}' must be one of {allowed} .got 'none'"):
        LpAggregation(**{option: "none"})
