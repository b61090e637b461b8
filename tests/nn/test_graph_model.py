"""Models that give each graph of a batch an output."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.nn import global_add_pool, global_mean_pool

from meanmax import Graph, LpAggregation, build_model
from meanmax.nn import Readout, graph_model

BACKBONES = ("gcn", "masked_gcn", "gat", "sage", "gin", "gen", "mlp")


def batch(sizes=(4, 1, 6), seed=0):
    draw = torch.Generator().manual_seed(seed)
    edges = [torch.randint(0, n, (2, 3 * n), generator=draw) for n in sizes]
    graph = Graph.batch([Graph.from_edge_index(e, n) for e, n in zip(edges, sizes, strict=True)])
    return graph, torch.randn(sum(sizes), 5, generator=draw)


def graph_ids(graph):
    return torch.arange(graph.num_graphs).repeat_interleave(graph.dst_ptr.diff())


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("jump", [None, "cat"])
def test_a_graphs_output_does_not_depend_on_the_others(backbone, jump):
    graph, x = batch()
    aggr = None if backbone == "mlp" else "lp"
    model = build_model(backbone, aggr, 5, 8, 3, layers=2, task="graph", jump=jump).eval()
    out = model(x, graph)
    assert out.shape == (3, 3)
    alone = model(x[5:], graph.select(torch.tensor([2])))
    torch.testing.assert_close(out[2:], alone, rtol=1e-4, atol=1e-5)
    out.square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("most", [1, 3, 7])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_large_collections_are_computed_in_parts(backbone, most, monkeypatch):
    graph, x = batch((4, 1, 6, 2, 2))
    aggr = None if backbone == "mlp" else "softmax"
    options = {"layers": 2, "norm": "batch", "jump": "cat"}
    model = build_model(backbone, aggr, 5, 8, 3, task="graph", **options).eval()
    with torch.no_grad():
        whole, hidden = model(x, graph), model.embed(x, graph)
        monkeypatch.setattr(graph_model, "AT_ONCE", most)
        sizes = []
        model.encoder.layers[0].register_forward_hook(lambda m, args, out: sizes.append(len(out)))
        torch.testing.assert_close(model(x, graph), whole, rtol=1e-4, atol=1e-5)
        assert sizes == ([5, 6, 4] if most == 7 else [4, 1, 6, 2, 2])
        torch.testing.assert_close(model.embed(x, graph), hidden, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("readout", "pool"), [("mean", global_mean_pool), ("sum", global_add_pool)]
)
def test_the_baseline_reads_out_as_pyg_does(readout, pool):
    graph, x = batch()
    model = build_model("sage", None, 5, 8, 3, task="graph", readout=readout).eval()
    nodes = model.encoder.outputs(x, graph)[-1]
    read = pool(nodes, graph_ids(graph))
    inner = model.first(read).relu()
    torch.testing.assert_close(model(x, graph), model.last(inner), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model.embed(x, graph), inner, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("readout", ["mean", "sum"])
@pytest.mark.parametrize("aggr", ["lp", "poly", "softmax", "spread"])
def test_a_learned_readout_begins_at_the_linear_one(aggr, readout):
    graph, x = batch()
    ends = {"lp": 1.0, "poly": 0.0, "softmax": 0.0, "spread": 0.0}
    options = {"aggr_options": {"start": ends[aggr], "learn": False}, "nonlinear": "readout"}
    model = build_model("sage", aggr, 5, 8, 3, task="graph", readout=readout, **options)
    nodes = torch.randn(graph.num_nodes, 8)
    wanted = Readout(readout)(nodes, graph)
    torch.testing.assert_close(model.readout(nodes, graph), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("nonlinear", "names"),
    [
        ("first", {"layers.0.gamma"}),
        ("hidden", {"layers.0.gamma", "layers.1.gamma"}),
        ("all", {"layers.0.gamma", "layers.1.gamma", "readout.gamma"}),
        ("readout", {"readout.gamma"}),
    ],
)
def test_nonlinear_says_where_the_aggregator_stands(nonlinear, names):
    graph, x = batch()
    model = build_model("sage", "softmax", 5, 8, 3, task="graph", nonlinear=nonlinear)
    assert set(model.learned()) == names
    places = {name.removesuffix(".gamma") for name in names}
    # The linear aggregation of the other layers is a mean, with a maxness of 0.
    found = model.maxness(x, graph)
    assert places <= set(found)
    assert len(model.aggregator_parameters()) == len(names)


@pytest.mark.parametrize("backbone", ["gcn", "masked_gcn", "sage", "gin", "gen"])
@pytest.mark.parametrize("skip", [None, "linear"])
def test_the_features_of_nodes_are_not_dropped(backbone, skip):
    graph, x = batch()
    torch.manual_seed(0)
    sizes = {"in_channels": 5, "hidden": 32, "out_channels": 3, "layers": 2, "dropout": 0.5}
    model = build_model(backbone, None, **sizes, task="graph", skip=skip)
    first = model.encoder.outputs(x, graph)[0]  # in training
    assert torch.equal(first, model.encoder.outputs(x, graph)[0])
    assert not torch.equal(model(x, graph), model(x, graph))
    nodes = build_model(backbone, None, **sizes, skip=skip)
    assert not torch.equal(nodes.outputs(x, graph)[0], nodes.outputs(x, graph)[0])


@pytest.mark.parametrize("aggr", ["lp", "softmax"])
def test_a_given_beta_is_that_of_the_readout_too(aggr):
    options = {"beta": 0.5, "learn_beta": True}
    model = build_model("sage", aggr, 5, 8, 3, task="graph", aggr_options=options)
    assert model.learned()["readout.beta"] == model.learned()["layers.0.beta"] == 0.5


def test_other_readouts_are_taken_as_they_are():
    graph, x = batch()
    several = build_model("gin", "softmax", 5, 8, 3, task="graph", readout=["mean", "lp"])
    assert several.readout.out_channels(8) == 16 and several(x, graph).shape == (3, 3)
    listed = build_model("gin", "softmax", 5, 8, 3, task="graph", readout="mean, lp")
    assert listed.readout.names == several.readout.names == ["mean", "lp"]
    own = Readout(LpAggregation(3.0, learn=False))
    model = build_model("gin", None, 5, 8, 3, task="graph", readout=own)
    assert model.readout is not own and model.learned()["readout.p"] == 3.0


def test_a_named_readout_has_the_options_of_its_aggregator():
    options = {"learn": False, "start": 0.5, "signed": True, "per": "channel"}
    given = {"task": "graph", "aggr_options": options}
    for readout in ("softmax", ["softmax"], "mean,softmax,lp"):
        model = build_model("sage", "softmax", 5, 8, 3, **given, readout=readout)
        own = model.readout.get_submodule(str(model.readout.names.index("softmax")))
        assert own.signed and not own.learn and own.value.tolist() == [0.5] * 8
    learned = dict(model.readout.learned())
    assert float(learned["2.p"]) == 2.0  # of another aggregator: its defaults
    hidden = build_model("sage", "softmax", 5, 8, 3, **given, readout="softmax", nonlinear="hidden")
    assert hidden.readout.get_submodule("0").signed


def test_a_model_of_sets_aggregates_in_the_readout_alone():
    graph, x = batch()
    model = build_model("mlp", "softmax", 5, 8, 3, task="graph")
    assert set(model.learned()) == {"readout.gamma"}
    assert set(build_model("mlp", None, 5, 8, 3, task="graph").learned()) == set()
    alone = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), batch=graph_ids(graph))
    torch.testing.assert_close(model.eval()(x, graph), model(x, alone))
    with pytest.raises(ValueError, match="no aggregator but in the readout"):
        build_model("mlp", "softmax", 5, 8, 3, task="graph", nonlinear="hidden")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "graph", "nonlinear": "readout", "readout": "mean,max"}, "has no effect with"),
        ({"task": "graph", "nonlinear": "readout", "readout": Readout("max")}, "has no effect"),
        ({"backbone": "cat", "task": "graph"}, "use 'gat'"),
        ({"task": "graph", "readout": "median"}, "unknown readout 'median'"),
        ({"task": "graph", "jump": "max"}, "'jump' must be"),
        ({"readout": "sum"}, "is for task='graph'"),
        (
            {"task": "graph", "readout": "sum", "aggr_options": {"beta": 0.5}, "backbone": "sage"},
            "beta with readout='mean'",
        ),
        ({"jump": "cat"}, "is for task='graph'"),
        ({"nonlinear": "readout"}, "is for task='graph'"),
        ({"task": "edge"}, "'task' must be"),
    ],
)
def test_wrong_options_are_refused(options, message):
    options = {"backbone": "gcn", **options}
    with pytest.raises(ValueError, match=message):
        build_model(options.pop("backbone"), "softmax", 5, 8, 3, **options)
