from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric import nn as pyg

from meanmax import Graph, LpAggregation, PolynomialAggregation, SoftmaxAggregation
from meanmax.nn import Readout, readout
from meanmax.ops import use_backend

SIZES = [3, 1, 0, 5, 2]  # one graph has no node
BATCH = torch.arange(5).repeat_interleave(torch.tensor(SIZES))
LEARNED = ["lp", "poly", "softmax"]


def features(channels=3, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(len(BATCH), channels, generator=generator, dtype=dtype)


def shuffled(x):
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    return x[order], BATCH[order]


def by_hand(name, z, theta, weight=None):
    """One graph in numpy, channel by channel; its own minimum is mu."""
    a = np.ones(len(z)) if weight is None else weight
    if len(z) == 0 or a.sum() == 0:
        return np.zeros(z.shape[1])
    mu, a = z.min(), a[:, None]
    y = z - mu
    if name == "softmax":
        tilt = a * np.exp(theta * z)
        return (tilt * z).sum(0) / tilt.sum(0)
    if name == "poly":
        below = (a * y**theta).sum(0)
        return (a * y ** (theta + 1)).sum(0) / np.where(below > 0, below, 1) + mu
    return (a * y**theta).sum(0) ** (1 / theta) + mu * a.sum() ** (1 / theta)


@pytest.mark.parametrize("backend", ["numba", "torch", "reference"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", LEARNED)
def test_every_graph_is_summarised_on_its_own(name, weighted, backend):
    x, weight = features(), features(seed=2)[:, 0].abs() if weighted else None
    module = Readout(name, start=1.75).double()
    with use_backend(backend):
        out = module(x, BATCH, weight=weight)
    for graph in range(5):
        own = BATCH == graph
        a = None if weight is None else weight[own].numpy()
        wanted = by_hand(name, x[own].numpy(), 1.75, a)
        np.testing.assert_allclose(out[graph].detach().numpy(), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "pool"),
    [
        ("mean", pyg.global_mean_pool),
        ("sum", pyg.global_add_pool),
        ("max", pyg.global_max_pool),
    ],
)
def test_fixed_ones_are_those_of_pyg(name, pool):
    x = features(dtype=torch.float32)
    for given, batch in ((x, BATCH), shuffled(x)):
        torch.testing.assert_close(readout(given, batch, 5, aggr=name), pool(given, batch, 5))
    torch.testing.assert_close(readout(x, aggr=name), pool(x, None))


def test_softmax_is_that_of_pyg():
    x = features(dtype=torch.float32)
    ours = Readout("softmax", start=0.7)(x, BATCH)
    torch.testing.assert_close(ours, pyg.SoftmaxAggregation(t=0.7)(x, BATCH))


@pytest.mark.parametrize("name", [*LEARNED, "spread", "mean", "sum", "max", "min"])
def test_any_order_of_nodes_gives_the_same(name):
    x = features()
    module = Readout(name, channels=3).double()
    mixed, batch = shuffled(x)
    torch.testing.assert_close(module(mixed, batch), module(x, BATCH))
    ptr = torch.tensor([0, *np.cumsum(SIZES)])
    torch.testing.assert_close(module(x, ptr=ptr), module(x, BATCH))
    graph = Graph.batch([Graph.from_edge_index([[], []], size) for size in SIZES])
    torch.testing.assert_close(module(x, graph), module(x, BATCH))


@pytest.mark.parametrize("name", [*LEARNED, "spread"])
def test_a_graph_does_not_depend_on_others_in_the_batch(name):
    x = features()
    module = Readout(name, channels=3).double()
    alone = module(x[:3])
    far = x.clone()
    far[3:] = 100 * far[3:] - 1000
    torch.testing.assert_close(module(far, BATCH)[:1], alone)


@pytest.mark.parametrize("options", [{}, {"per": "channel"}, {"signed": True}, {"beta": 0.4}])
@pytest.mark.parametrize("name", LEARNED)
def test_gradients(name, options):
    module = Readout(name, channels=3, start=1.3, **options).double()
    weight = features(seed=2)[:, 0].abs() + 0.5

    def run(x, weight, raw):
        return torch.func.functional_call(module, {"0.raw": raw}, (x, BATCH), {"weight": weight})

    raw = module.get_parameter("0.raw").detach().clone()
    inputs = (features(), weight, raw)
    assert torch.autograd.gradcheck(run, [each.requires_grad_() for each in inputs])


def test_several_stand_side_by_side():
    x = features()
    parts = ["mean", SoftmaxAggregation(2.0), "max", LpAggregation(3.0)]
    module = Readout(parts).double()
    out = module(x, BATCH)
    assert out.shape == (5, 12) == (5, module.out_channels(3))
    for place, one in enumerate(parts):
        torch.testing.assert_close(
            out[:, 3 * place : 3 * place + 3], readout(x, BATCH, aggr=one), msg=str(one)
        )
    assert {name: float(value) for name, value in module.learned().items()} == {
        "1.gamma": 2.0,
        "3.p": 3.0,
    }
    assert "mean" in repr(module) and "SoftmaxAggregation(gamma=2.0" in repr(module)


def test_one_aggregator_may_stand_twice():
    one, x = SoftmaxAggregation(2.0), features(dtype=torch.float32)
    module = Readout([one, one])
    assert torch.equal(module(x, BATCH), Readout(one)(x, BATCH).repeat(1, 2))
    assert repr(module).count("SoftmaxAggregation(gamma=2.0") == 2 == len(module.learned())
    assert torch.equal(Readout("add")(x, BATCH), Readout("sum")(x, BATCH))


def test_spread_takes_the_options_of_the_family():
    x = features(dtype=torch.float32)
    sums = Readout("spread", channels=3, beta=1.0, signed=True)(x, BATCH)
    torch.testing.assert_close(sums, Readout("spread", channels=3, form="sum")(x, BATCH))
    assert not torch.equal(sums, Readout("spread", channels=3)(x, BATCH))


def test_limits():
    x = features(dtype=torch.float32)
    for name, start in (("softmax", 0.0), ("poly", 0.0)):
        torch.testing.assert_close(Readout(name, start=start)(x, BATCH), readout(x, BATCH))
        torch.testing.assert_close(
            Readout(name, start=1e5)(x, BATCH), readout(x, BATCH, aggr="max"), atol=1e-3, rtol=0
        )
    torch.testing.assert_close(
        Readout("lp", start=1.0)(x, BATCH), readout(x, BATCH, aggr="sum"), atol=1e-5, rtol=1e-5
    )
    low = Readout("softmax", start=-1e5, signed=True)(x, BATCH)
    torch.testing.assert_close(low, readout(x, BATCH, aggr="min"), atol=1e-3, rtol=0)


def test_spread_reaches_from_the_minimum_to_the_maximum():
    x = features(dtype=torch.float32)[:, :1].expand(-1, 5).contiguous()
    module = Readout("spread", channels=5, start=1e4)
    out = module(x, BATCH).detach()
    for channel, name in ((0, "min"), (2, "mean"), (4, "max")):
        wanted = readout(x, BATCH, aggr=name)[:, channel]
        torch.testing.assert_close(out[:, channel], wanted, atol=1e-2, rtol=0)
    assert torch.equal(module.learned()["theta"], torch.linspace(-1e4, 1e4, 5))
    found = module.maxness(x, BATCH)["0"]
    assert found[0] < -0.95 and abs(float(found[2])) < 1e-5 and found[4] > 0.95


def test_it_stands_in_a_pyg_model():
    x, edges = features(4, torch.float32), torch.tensor([[0, 1, 4], [1, 0, 5]])
    model = pyg.Sequential(
        "x, edge_index, batch",
        [(pyg.GCNConv(4, 8), "x, edge_index -> x"), (Readout("lp"), "x, batch -> x")],
    )
    assert model(x, edges, BATCH).shape == (5, 8)
    deep = pyg.DeepSetsAggregation(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
    assert deep(x, BATCH).shape == (5, 2)
    several = pyg.MultiAggregation([Readout("softmax"), "mean"])
    assert several(x, BATCH).shape == (5, 8)


def test_empty_and_single():
    assert Readout("lp")(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)).shape == (0, 3)
    out = Readout("lp")(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long), dim_size=2)
    assert torch.equal(out, torch.zeros(2, 3))
    x = features(dtype=torch.float32)[:1]
    for name in (*LEARNED, "mean", "sum", "max", "min"):
        torch.testing.assert_close(Readout(name)(x), x, msg=name)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Readout("median"), "unknown readout 'median'"),
        (lambda: Readout([]), "at least one aggregator"),
        (lambda: Readout(pyg.MeanAggregation()), r"unknown readout MeanAggregation\(\)"),
        (lambda: Readout("spread", channels=2, signed=False), "leave out signed=False"),
        (
            lambda: Readout("mean")(features(), ptr=torch.tensor([0, 4, 11]), dim_size=5),
            "'ptr' is of 2 graphs .got dim_size=5.",
        ),
        (lambda: Readout("mean", start=2.0), "no effect"),
        (lambda: Readout("spread"), "pass channels="),
        (lambda: Readout("softmax", per="channel"), "pass channels="),
        (lambda: readout(features(), BATCH, aggr="softmax"), "make a module once"),
        (lambda: Readout("mean")(features(), BATCH[:-1]), "graph of each of 11 nodes"),
        (lambda: Readout("mean")(features(), BATCH, dim_size=2), "from 0 on below 2"),
        (lambda: Readout("mean")(features(), BATCH - 1), "from 0 on"),
        (lambda: Readout("mean")(features()[None], BATCH), "must be .num_nodes, channels."),
        (
            lambda: Readout("mean")(features()[:, 0], BATCH),
            r"shape \[11\], dim=-2.: pass x\[:, None",
        ),
        (lambda: Readout("mean")(features(), BATCH, weight=torch.ones(3)), "for each of 11"),
        (lambda: Readout("mean")(features(), Graph.from_edge_index([[0], [1]])), "11 nodes"),
    ],
)
def test_errors(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_the_minimum_of_each_graph_shares_its_gradient_among_ties():
    graph = Graph.batch([Graph.from_edge_index([[], []], size) for size in SIZES])
    x = features()
    x[3:4] = 0.25
    x[4, 0] = x[4, 2] = x[6, 1] = -9.0
    x.requires_grad_()
    found = graph.minimum(x)
    parts = [part.amin() if len(part) else x.sum() * 0 for part in x.split(SIZES)]
    assert torch.equal(found, torch.stack(parts))
    factor = torch.arange(1.0, 6.0, dtype=torch.float64)
    (ours,) = torch.autograd.grad((found * factor).sum(), x)
    (wanted,) = torch.autograd.grad((torch.stack(parts) * factor).sum(), x)
    torch.testing.assert_close(ours, wanted)


def test_it_is_saved_with_its_parameter(tmp_path):
    module = Readout([PolynomialAggregation(2.5), "max"])
    torch.save(module.state_dict(), tmp_path / "readout.pt")
    other = Readout(["poly", "max"])
    other.load_state_dict(torch.load(tmp_path / "readout.pt", weights_only=True))
    assert float(other.learned()["0.alpha"]) == 2.5
    other.reset_parameters()
    assert float(other.learned()["0.alpha"]) == 1.0
