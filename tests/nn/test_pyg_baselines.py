"""Models of PyTorch Geometric's layers: the same as composed by hand, and with our interface."""

from __future__ import annotations

import inspect

import pytest
import torch
import torch_geometric.nn as pyg
from torch.nn import Linear, ModuleList, ReLU, Sequential
from torch.nn.functional import cross_entropy, elu, relu
from torch_geometric.nn.aggr import PowerMeanAggregation, SoftmaxAggregation

from meanmax import Graph, build_model
from meanmax.data import load
from meanmax.nn import PYG_BASELINES, NodeModel, PyGBaseline, Trainable, build_pyg_baseline
from tests.nn.graphs import NUM_NODES, awkward_edges, edge_weights, features

CHANNELS, HIDDEN, CLASSES = 6, 16, 4
LEARNED = {"pyg-softmax": ("t", SoftmaxAggregation), "pyg-powermean": ("p", PowerMeanAggregation)}
ALL = [(b, p) for b in ("gcn", "gat", "sage", "gin", "gen") for p in LEARNED] + [("gcn", "pna")]


@pytest.fixture
def graph():
    return Graph.from_edge_index(awkward_edges(), NUM_NODES)


def pyg_baseline(backbone, baseline, graph, **options):
    torch.manual_seed(0)
    return build_pyg_baseline(backbone, baseline, CHANNELS, HIDDEN, CLASSES, graph=graph, **options)


def by_hand(backbone, baseline):
    """The layers as a user of PyG writes them, with PyG's own normalisation and self-loops."""

    def mlp(channels, out):
        return Sequential(Linear(channels, HIDDEN), ReLU(), Linear(HIDDEN, out))

    if baseline == "pna":
        degrees = torch.bincount(torch.bincount(awkward_edges()[1], minlength=NUM_NODES))
        kinds = ["mean", "min", "max", "std"], ["identity", "amplification", "attenuation"]
        sizes = (CHANNELS, HIDDEN), (HIDDEN, CLASSES)
        return ModuleList([pyg.PNAConv(*size, *kinds, degrees) for size in sizes])
    aggr = LEARNED[baseline][1](learn=True)
    layers = {
        "gcn": lambda: (pyg.GCNConv(CHANNELS, HIDDEN, aggr=aggr), pyg.GCNConv(HIDDEN, CLASSES)),
        "gat": lambda: (
            pyg.GATConv(CHANNELS, HIDDEN // 8, 8, aggr=aggr),
            pyg.GATConv(HIDDEN, CLASSES, 1, concat=False),
        ),
        "sage": lambda: (
            pyg.SAGEConv(CHANNELS, HIDDEN, aggr=aggr),
            pyg.SAGEConv(HIDDEN, CLASSES),
        ),
        "gin": lambda: (
            pyg.GINConv(mlp(CHANNELS, HIDDEN), train_eps=True, aggr=aggr),
            pyg.GINConv(mlp(HIDDEN, CLASSES), train_eps=True),
        ),
        "gen": lambda: (
            pyg.GENConv(CHANNELS, HIDDEN, aggr=aggr, norm=None),
            pyg.GENConv(HIDDEN, CLASSES, aggr="mean", norm=None),
        ),
    }
    return ModuleList(layers[backbone]())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("backbone", "baseline"), ALL)
def test_is_what_pyg_composes(backbone, baseline, weighted):
    edges, x = awkward_edges(), features(CHANNELS)
    weight = edge_weights(edges) if weighted else None
    graph = Graph.from_edge_index(edges, NUM_NODES, weight)
    model = pyg_baseline(backbone, baseline, graph).eval()
    with torch.no_grad():
        for parameter in model.aggregator_parameters():
            parameter.fill_(1.7)
    first, last = hand = by_hand(backbone, baseline)
    hand.load_state_dict(model.layers.state_dict())
    assert dict(hand.named_parameters()).keys() == dict(model.layers.named_parameters()).keys()
    extra = (weight,) if backbone == "gcn" and baseline != "pna" else ()
    activation = elu if backbone == "gat" else relu
    hidden = activation(first(x, edges, *extra))
    expected = last(hidden, edges, *extra)
    for _ in range(2):  # the second call runs on what the first has remembered
        torch.testing.assert_close(model(x, graph), expected)
    torch.testing.assert_close(model.hidden(x, graph), [hidden])
    torch.testing.assert_close(model.train().embed(x, graph), hidden)
    assert model.training
    assert not model.embed(x, graph).requires_grad


@pytest.fixture(scope="module")
def digits():
    data = load("digits")
    return data.x, data.graph(), data.y


@pytest.mark.parametrize(("backbone", "baseline"), ALL)
def test_learns_on_digits(backbone, baseline, digits):
    x, graph, y = digits
    torch.manual_seed(0)
    model = build_pyg_baseline(backbone, baseline, x.size(1), 32, 10, dropout=0.2, graph=graph)
    start = model.learned()
    groups = [{"params": model.other_parameters()}, {"params": model.aggregator_parameters()}]
    optimizer = torch.optim.Adam(groups, lr=0.01)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = cross_entropy(model(x, graph), y)
        loss.backward()
        grads = [float(parameter.grad) for parameter in model.aggregator_parameters()]
        assert all(grad != 0 and grad == grad for grad in grads)
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.9 * losses[0]
    assert all(model.learned()[name] != value for name, value in start.items())


@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize(("backbone", "baseline"), ALL)
def test_the_first_layer_alone_learns_its_aggregation(backbone, baseline, layers, graph):
    model = pyg_baseline(backbone, baseline, graph, layers=layers)
    names = [f"layers.0.{LEARNED[baseline][0]}"] if baseline in LEARNED else []
    assert model.learned() == {name: torch.tensor(1.0) for name in names}
    assert len(model.aggregator_parameters()) == len(names)
    own = {id(p) for p in (*model.aggregator_parameters(), *model.other_parameters())}
    assert own == {id(p) for p in model.parameters()}
    assert model(features(CHANNELS), graph).shape == (NUM_NODES, CLASSES)
    shapes = [h.shape for h in model.hidden(features(CHANNELS), graph)]
    assert shapes == [(NUM_NODES, HIDDEN)] * (layers - 1)
    kinds = [type(layer.aggr_module) for layer in model.layers]
    assert baseline == "pna" or kinds.count(LEARNED[baseline][1]) == 1


@pytest.mark.parametrize(("backbone", "baseline"), ALL)
def test_stays_finite_without_neighbours_and_with_large_features(backbone, baseline, graph):
    model = pyg_baseline(backbone, baseline, graph, dropout=0.0)
    lonely = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), NUM_NODES)
    for other, scale in ((lonely, 1.0), (graph, 100.0), (graph, 0.0)):
        model.zero_grad()
        out = model(scale * features(CHANNELS), other)
        out.square().mean().backward()
        assert torch.isfinite(out).all()
        assert all(torch.isfinite(p.grad).all() for p in model.parameters())


def test_pna_scales_by_the_degrees_of_the_whole_batch():
    star = Graph.from_edge_index([[1, 2, 3], [0, 0, 0]], 4)  # degrees 3, 0, 0, 0
    pair = Graph.from_edge_index([[0, 1], [1, 0]], 2)  # degrees 1, 1
    model = pyg_baseline("cat", "pna", Graph.batch([star, pair]), heads=5)
    expected = (torch.tensor(4.0).log() + 2 * torch.tensor(2.0).log()) / 6
    for layer in model.layers:
        assert isinstance(layer, pyg.PNAConv)
        torch.testing.assert_close(layer.aggr_module.avg_deg_log, expected.view(1))


def test_dropout_stands_before_every_layer(graph):
    x = features(CHANNELS)
    model = pyg_baseline("sage", "pyg-softmax", graph, dropout=0.5)
    seen = []
    for layer in model.layers:
        layer.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    hidden = model.hidden(x, graph)
    for before, after in zip((x, *hidden), seen, strict=True):
        kept = after != 0
        assert 0 < int(kept.sum()) < int((before != 0).sum())
        torch.testing.assert_close(after[kept], 2 * before[kept])
    assert pyg_baseline("gat", "pyg-softmax", graph, dropout=0.3).layers[0].dropout == 0.3


@pytest.mark.parametrize(("backbone", "baseline"), ALL)
def test_reset_goes_back_to_the_start(backbone, baseline, graph):
    model = pyg_baseline(backbone, baseline, graph)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7.0)
    model.reset_parameters()
    assert all(value == 1.0 for value in model.learned().values())
    assert not any((parameter == 7.0).any() for parameter in model.parameters())


def test_training_takes_ours_and_theirs(graph):
    model = pyg_baseline("gcn", "pna", graph)
    assert isinstance(model, Trainable) and isinstance(model, PyGBaseline)
    assert isinstance(build_model("gcn", "lp", CHANNELS, HIDDEN, CLASSES), Trainable)
    for name in ("forward", "hidden", "embed", "maxness", "learned", "extra_loss"):
        ours, theirs = (inspect.signature(getattr(kind, name)) for kind in (NodeModel, PyGBaseline))
        assert ours == theirs
    x = features(CHANNELS)
    assert model.maxness(x, graph) == {} and model.extra_loss(graph) is None
    assert torch.equal(model.eval()(x, awkward_edges()), model(x, graph))


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("gcn", "pyg-max"), {}, "unknown baseline 'pyg-max'.*'pyg-softmax', 'pyg-powermean'"),
        (("cheb", "pna"), {}, "unknown backbone 'cheb'.*'gcn'"),
        (("masked_gcn", "pyg-softmax"), {}, "PyG has no layer.*use one of 'gcn', 'gat'.*'pna'"),
        (("cat", "pyg-powermean"), {}, "PyG has no layer for backbone 'cat'"),
        (("gcn", "pyg-softmax"), {"heads": 4}, "'gcn' has no heads.*heads=4"),
        (("gat", "pyg-softmax"), {"heads": 3}, "multiple of 'heads'.*hidden=16, heads=3"),
        (("gcn", "pna"), {"layers": 0}, "'layers' must be a positive integer"),
        (("gcn", "pna"), {"dropout": 1.0}, r"'dropout' must be in \[0, 1\)"),
    ],
)
def test_wrong_arguments(arguments, options, message, graph):
    with pytest.raises(ValueError, match=message):
        pyg_baseline(*arguments, graph, **options)


def test_wrong_inputs(graph):
    assert PYG_BASELINES == ("pyg-softmax", "pyg-powermean", "pna")
    with pytest.raises(ValueError, match=r"must be a meanmax.Graph \(got Tensor\)"):
        pyg_baseline("gcn", "pna", awkward_edges())
    with pytest.raises(ValueError, match="the graph has no edges"):
        pyg_baseline("gcn", "pna", Graph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 3))
    model, x = pyg_baseline("gcn", "pyg-softmax", graph), features(CHANNELS)
    with pytest.raises(ValueError, match="'structure' is for backbone 'cat'"):
        model(x, graph, structure=x)
    with pytest.raises(ValueError, match=r"\[40, 6\].*got \[40, 5\]"):
        model(x[:, :5], graph)
