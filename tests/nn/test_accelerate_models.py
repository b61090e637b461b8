"""Whole models, own layers, copies and files, and the memory of graphs."""

from __future__ import annotations

import copy
import gc
import io
import pickle

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import MessagePassing

import meanmax
from meanmax.graph.memory import MEMORY
from meanmax.nn import GCNConv, accelerated
from tests.nn.accelerated import CHANNELS, assert_same, example
from tests.nn.graphs import NUM_NODES, awkward_edges, edge_weights, features
from tests.nn.test_pyg_contract import METADATA, Stack, hetero_input

MODELS = {
    "gcn": lambda **options: pyg.GCN(CHANNELS, 8, 3, 4, **options),
    "gat": lambda **options: pyg.GAT(CHANNELS, 8, 3, 4, heads=2, **options),
    "sage": lambda **options: pyg.GraphSAGE(CHANNELS, 8, 3, 4, **options),
    "gin": lambda **options: pyg.GIN(CHANNELS, 8, 3, 4, **options),
}


class Own(MessagePassing):
    """Sends its features as they are."""

    def __init__(self, aggr="mean"):
        super().__init__(aggr=aggr)
        self.lin = nn.Linear(CHANNELS, 4)

    def forward(self, x, edge_index):
        return self.lin(x) + self.propagate(edge_index, x=self.lin(x).relu())


class WithMessage(Own):
    def message(self, x_j):
        return 2 * x_j


class WithUpdate(Own):
    def update(self, inputs):
        return inputs.tanh()


class Derived(pyg.GCNConv):
    def forward(self, x, edge_index):
        return super().forward(x.relu(), edge_index)


class Renamed(pyg.SAGEConv):
    pass


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("options", [{}, {"jk": "cat", "norm": "batch"}, {"jk": "lstm"}])
def test_basic_models(name, options):
    assert_same(MODELS[name](**options), *example())


def test_sequential_and_jumping_knowledge():
    steps = [
        (pyg.GCNConv(CHANNELS, 8), "x, edge_index -> x1"),
        nn.ReLU(),
        (pyg.SAGEConv(8, 8), "x1, edge_index -> x2"),
        (lambda one, two: [one, two], "x1, x2 -> xs"),
        (pyg.JumpingKnowledge("max", 8, 2), "xs -> x"),
        (pyg.GATConv(8, 3), "x, edge_index -> x"),
    ]
    assert_same(pyg.Sequential("x, edge_index", steps), *example())


@pytest.mark.parametrize("aggr", ["add", "mean", "max"])
def test_own_layer_with_the_inherited_message(aggr):
    fast = assert_same(Own(aggr), *example())
    assert isinstance(fast, Own) and accelerated(fast)[0].by == "FastOwn"


@pytest.mark.parametrize("layer", [Derived(CHANNELS, 4), Renamed(CHANNELS, 4)])
def test_subclass_of_a_layer_of_pyg(layer):
    assert_same(layer, *example())


@pytest.mark.parametrize(
    ("kind", "reason"), [(WithMessage, "a message of its own"), (WithUpdate, "its own update")]
)
def test_own_layer_that_is_left(kind, reason, capsys):
    model = nn.ModuleDict({"own": kind(), "gcn": pyg.GCNConv(CHANNELS, 4)})
    meanmax.accelerate(model, verbose=True)
    left, replaced = capsys.readouterr().out.splitlines()
    assert left.startswith("own") and "left: " in left and reason in left
    assert replaced.split() == ["gcn", "GCNConv", "replaced", "by", "FastGCNConv"]
    assert type(model["own"]) is kind
    assert [row.by for row in accelerated(model)] == [None, "FastGCNConv"]


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (pyg.SAGEConv(4, 4, aggr="lstm"), "LSTMAggregation"),
        (pyg.GCNConv(4, 4, aggr="max"), "messages that carry weights"),
        (pyg.GCNConv(4, 4, flow="target_to_source"), "flow"),
        (pyg.GENConv(4, 4, aggr="softmax_sg"), "semi_grad"),
    ],
)
def test_layers_that_are_left(layer, reason):
    kind, model = type(layer), nn.ModuleList([layer, pyg.GCNConv(4, 4)])
    layer = meanmax.accelerate(model)[0]
    assert type(layer) is kind and reason in accelerated(model)[0].reason


def test_what_is_no_model_or_has_no_layer():
    with pytest.raises(TypeError, match=r"'model' must be a torch.nn.Module \(got str\)"):
        meanmax.accelerate("gcn")
    with pytest.raises(TypeError, match="meanmax.restore"):
        meanmax.restore(None)
    with pytest.warns(UserWarning, match="it has no layer of PyTorch Geometric"):
        meanmax.accelerate(nn.Linear(2, 2))
    with pytest.warns(UserWarning, match="nothing"):
        meanmax.accelerate(GCNConv(2, 2))  # ours: nothing to gain


def test_accelerating_twice_and_restoring():
    model = MODELS["gcn"]()
    keys, parameters = list(model.state_dict()), list(model.parameters())
    kinds = [type(module) for module in model.modules()]
    assert meanmax.accelerate(meanmax.accelerate(model)) is model
    assert list(model.state_dict()) == keys
    assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
    assert [type(module) for module in meanmax.restore(model).modules()] == kinds
    assert not any("_switched" in module.__dict__ for module in model.modules())
    meanmax.restore(model)


@pytest.mark.parametrize("name", MODELS)
def test_files_and_copies(name):
    (x, edges), plain = example(), MODELS[name]()
    fast = meanmax.accelerate(copy.deepcopy(plain))
    with torch.no_grad():
        for parameter in fast.parameters():
            parameter.add_(0.1)
    file = io.BytesIO()
    torch.save(fast.state_dict(), file)
    file.seek(0)
    plain.load_state_dict(torch.load(file))
    expected = plain(x, edges)
    for model in (fast, copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        torch.testing.assert_close(model(x, edges), expected, rtol=1e-5, atol=1e-5)
        assert all(row.by for row in accelerated(model))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_of_own_layers(duplicate):
    (x, edges), fast = example(), meanmax.accelerate(Own())
    twin = duplicate(fast)
    assert type(twin) is type(fast)
    torch.testing.assert_close(twin(x, edges), fast(x, edges))
    assert type(meanmax.restore(twin)) is Own


def test_an_optimizer_made_before_goes_on():
    (x, edges), y = example(), torch.arange(NUM_NODES) % 4
    losses = []
    for faster in (False, True):
        torch.manual_seed(0)
        model = MODELS["sage"]()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        for step in range(12):
            if faster and step == 4:
                meanmax.accelerate(model)
            optimizer.zero_grad()
            loss = cross_entropy(model(x, edges), y)
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4) and losses[1] < 1.0


@pytest.mark.parametrize("name", ["gcn", "gat", "sage"])
def test_edges_and_weights_changed_in_place_are_noticed(name):
    (x, edges), plain = example(), MODELS[name]().eval()
    fast = meanmax.accelerate(copy.deepcopy(plain))
    weight = (edge_weights(edges),) if name == "gcn" else ()
    for _ in range(3):
        torch.testing.assert_close(fast(x, edges, *weight), plain(x, edges, *weight))
        edges[:, :40] = edges[:, :40].flip(0)
        if weight:
            weight[0][3:9] *= 2
    edges.data = edges.flip(0)
    torch.testing.assert_close(fast(x, edges, *weight), plain(x, edges, *weight))


def test_graphs_are_built_once_and_forgotten_with_their_edges():
    model = meanmax.accelerate(MODELS["gcn"]())
    gc.collect()
    before, x = len(MEMORY), features(CHANNELS)
    kept = awkward_edges()
    for seed in range(20):  # weights come and go, edges stay; both come and go
        model(x, kept, edge_weights(kept, seed)).sum().backward()
        model(x, awkward_edges(seed)).sum().backward()
        assert len(MEMORY) <= before + 6
    graphs = MEMORY.of(kept)
    assert len(graphs["weights"]) <= 1
    model(x, kept)
    known = dict(MEMORY.of(kept))
    model(x, kept)
    assert MEMORY.of(kept) == known
    del kept, graphs, known
    gc.collect()
    assert len(MEMORY) == before


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", ["sage", "gat", "graph"])
def test_to_hetero(name, when):
    plain = {"add_self_loops": False} if name == "gat" else {}
    kind = {"sage": pyg.SAGEConv, "gat": pyg.GATConv, "graph": pyg.GraphConv}[name]
    stack = Stack(kind((-1, -1), 8, **plain), kind((-1, -1), 3, **plain))
    x, edges = hetero_input()
    expected = pyg.to_hetero(stack, METADATA)
    expected(x, edges)
    given = meanmax.accelerate(copy.deepcopy(stack)) if when == "before" else stack
    model = pyg.to_hetero(given, METADATA)
    model = meanmax.accelerate(model) if when == "after" else model
    model(x, edges)
    model.load_state_dict(expected.state_dict())
    assert all(row.by for row in accelerated(model)) and accelerated(model)
    for found, out in zip(model(x, edges).values(), expected(x, edges).values(), strict=True):
        torch.testing.assert_close(found, out, rtol=1e-5, atol=1e-5)


def graphs_of_three_sizes() -> list[Data]:
    return [
        Data(torch.randn(size, CHANNELS), torch.randint(0, size, (2, 3 * size)))
        for size in (5, 9, 12, 7)
    ]


def test_mini_batches_of_graphs():
    plain = MODELS["gin"](norm="batch")
    fast = meanmax.accelerate(copy.deepcopy(plain))
    for batch in DataLoader(graphs_of_three_sizes(), batch_size=2):
        assert_same(plain, batch.x, batch.edge_index, fast=fast)


def test_heterogeneous_convolutions():
    x, edges = hetero_input()
    plain = pyg.HeteroConv({kind: pyg.SAGEConv((5, 5), 4) for kind in METADATA[1]})
    fast = meanmax.accelerate(copy.deepcopy(plain))
    assert [row.by for row in accelerated(fast)] == ["FastSAGEConv"] * 3
    for kind, out in plain(x, edges).items():
        torch.testing.assert_close(fast(x, edges)[kind], out)


@pytest.mark.parametrize("name", ["gcn", "gat", "sage", "gin"])
def test_compiled_code_is_pygs(name):
    torch.compiler.reset()
    plain = MODELS[name]()
    fast = meanmax.accelerate(copy.deepcopy(plain))
    compiled = torch.compile(fast, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(*example()), plain(*example()), rtol=1e-5, atol=1e-5)


def test_script_compiles_pygs_layers():
    (x, edges), layer = example(), meanmax.accelerate(pyg.SAGEConv(CHANNELS, 4))
    scripted = torch.jit.script(layer)
    torch.testing.assert_close(scripted(x, edges), layer(x, edges), rtol=1e-5, atol=1e-5)
    assert accelerated(layer)[0].by == "FastSAGEConv"
    with pytest.raises(ValueError, match="meanmax.restore"):
        torch.jit.script(meanmax.accelerate(layer, aggr="softmax"))
