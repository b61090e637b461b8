"""Layers under PyG's own tools: heterogeneous graphs and lazy initialisation."""

from __future__ import annotations

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn

import meanmax.nn
from meanmax import Graph, SparseFeatures
from meanmax.nn import CATConv, GATConv, GCNConv, GINConv, Linear, MaskedGCNConv, SAGEConv

METADATA = (
    ["paper", "author"],
    [
        ("paper", "cites", "paper"),
        ("author", "writes", "paper"),
        ("paper", "written_by", "author"),
    ],
)
SIZES = {"paper": (7, 5), "author": (4, 5)}


def hetero_input():
    generator = torch.Generator().manual_seed(0)
    x = {name: torch.rand(size, generator=generator) for name, size in SIZES.items()}
    edges = {}
    for kind in METADATA[1]:
        bounds = (SIZES[kind[0]][0], SIZES[kind[2]][0])
        edges[kind] = torch.stack(
            [torch.randint(bound, (12,), generator=generator) for bound in bounds]
        )
    return x, edges


class Stack(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def in_both_libraries(name):
    if name == "sage":
        return SAGEConv(-1, 8), SAGEConv(-1, 3), pyg.SAGEConv(-1, 8), pyg.SAGEConv(-1, 3)
    if name == "gat":
        plain = {"add_self_loops": False}
        return (
            GATConv(5, 4, 2, **plain),
            GATConv(8, 3, **plain),
            pyg.GATConv(5, 4, 2, **plain),
            pyg.GATConv(8, 3, **plain),
        )
    return (
        GINConv(nn.Sequential(Linear(5, 8))),
        GINConv(nn.Sequential(Linear(8, 3))),
        pyg.GINConv(nn.Sequential(nn.Linear(5, 8))),
        pyg.GINConv(nn.Sequential(nn.Linear(8, 3))),
    )


@pytest.mark.parametrize("name", ["sage", "gat", "gin"])
def test_to_hetero_is_as_in_pyg(name):
    x, edges = hetero_input()
    first, second, their_first, their_second = in_both_libraries(name)
    ours = pyg.to_hetero(Stack(first, second), METADATA, aggr="sum")
    theirs = pyg.to_hetero(Stack(their_first, their_second), METADATA, aggr="sum")
    with torch.no_grad():
        ours(x, edges), theirs(x, edges)  # lazy layers take their sizes
    theirs.load_state_dict(ours.state_dict(), strict=name != "gin")
    found, expected = ours(x, edges), theirs(x, edges)
    assert found.keys() == {"paper", "author"}
    for kind, value in expected.items():
        torch.testing.assert_close(found[kind], value, rtol=1e-5, atol=1e-5)


WIDTHS = {"paper": 5, "author": 3}
PAIRS = {
    "sage": (lambda nn, channels, out: nn.SAGEConv(channels, out), SAGEConv),
    "gat": (lambda nn, channels, out: nn.GATConv(channels, out, add_self_loops=False), GATConv),
    "gat heads": (
        lambda nn, channels, out: nn.GATConv(channels, out // 2, 2, add_self_loops=False),
        GATConv,
    ),
}


def inputs_of_different_width():
    _, edges = hetero_input()
    generator = torch.Generator().manual_seed(1)
    sizes = {name: (SIZES[name][0], width) for name, width in WIDTHS.items()}
    return {name: torch.rand(size, generator=generator) for name, size in sizes.items()}, edges


def assert_same_output(ours, theirs, x, edges):
    with torch.no_grad():
        ours(x, edges), theirs(x, edges)  # lazy layers take their sizes
    theirs.load_state_dict(ours.state_dict())
    found, expected = ours(x, edges), theirs(x, edges)
    assert found.keys() == expected.keys() == {"paper", "author"}
    for kind, value in expected.items():
        torch.testing.assert_close(found[kind], value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", PAIRS)
def test_node_types_of_different_width_under_to_hetero(name):
    make, _ = PAIRS[name]
    stacks = [Stack(make(nn, (-1, -1), 8), make(nn, (-1, -1), 4)) for nn in (meanmax.nn, pyg)]
    assert_same_output(
        *(pyg.to_hetero(stack, METADATA, aggr="sum") for stack in stacks),
        *inputs_of_different_width(),
    )


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("name", PAIRS)
def test_node_types_of_different_width_in_hetero_conv(name, lazy):
    make, _ = PAIRS[name]
    ours, theirs = (
        pyg.HeteroConv(
            {
                kind: make(nn, (-1, -1) if lazy else (WIDTHS[kind[0]], WIDTHS[kind[2]]), 8)
                for kind in METADATA[1]
            }
        )
        for nn in (meanmax.nn, pyg)
    )
    assert_same_output(ours, theirs, *inputs_of_different_width())


@pytest.mark.parametrize("aggr", [None, "softmax"])
@pytest.mark.parametrize("sparse", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_different_width_may_be_sparse(name, sparse, aggr):
    x, edges = inputs_of_different_width()
    layer = PAIRS[name][1]((3, 5), 4, aggr=aggr)
    pair = (x["author"], x["paper"])
    given = tuple(
        SparseFeatures.from_dense(part) if is_sparse else part
        for part, is_sparse in zip(pair, sparse, strict=True)
    )
    index = edges[METADATA[1][1]]
    torch.testing.assert_close(layer(given, index), layer(pair, index))
    with pytest.raises(ValueError, match=r"'x\[0\]' must be \[7, 3\]"):
        layer(pair[::-1], index.flip(0))


def test_one_map_of_attention_says_how_to_get_two():
    x, edges = inputs_of_different_width()
    model = pyg.to_hetero(Stack(*(GATConv(-1, 4, add_self_loops=False) for _ in "12")), METADATA)
    with pytest.raises(ValueError, match=r"3 channels and targets 5.*in_channels=\(-1, -1\)"):
        model(x, edges)


def test_pairs_of_channels_are_checked():
    for make in (GCNConv, MaskedGCNConv, CATConv):
        with pytest.raises(ValueError, match="SAGEConv and GATConv take a pair of these"):
            make((-1, -1), 3)
    for make in (SAGEConv, GATConv):
        for wrong in ((5,), (5, 0), (5, 5, 5), (2.5, 5), 0):
            with pytest.raises(
                ValueError, match="or -1 to take it from the first input; or a pair"
            ):
                make(wrong, 3)
    with pytest.raises(ValueError, match="pool=True needs the input channels"):
        SAGEConv((-1, 5), 3, pool=True)
    assert "(5, -1), 3" in repr(SAGEConv([5, -1], 3))


@pytest.mark.parametrize("make", [GCNConv, MaskedGCNConv])
def test_layers_between_the_same_nodes(make):
    """They work on edge types within one node type and say what to use between two."""
    x, edges = hetero_input()
    kinds = (["paper"], [("paper", "cites", "paper")])
    model = pyg.to_hetero(Stack(make(5, 8), make(8, 3)), kinds)
    found = model({"paper": x["paper"]}, {METADATA[1][0]: edges[METADATA[1][0]]})
    assert found["paper"].shape == (7, 3)
    layer = make(5, 3)
    pair = (x["author"], x["paper"])
    with pytest.raises(ValueError, match="same nodes as sources and targets.*use SAGEConv"):
        layer(pair, edges[METADATA[1][1]])
    with pytest.raises(ValueError, match="add_self_loops|same nodes"):
        pyg.to_hetero(Stack(make(5, 8), make(8, 3)), METADATA)(x, edges)


LAZY = {
    "gcn": (lambda size: GCNConv(size, 3), {}),
    "gcn aggregate-first": (lambda size: GCNConv(size, 3, order="aggregate-first", aggr="lp"), {}),
    "masked gcn": (lambda size: MaskedGCNConv(size, 3), {}),
    "gat": (lambda size: GATConv(size, 3, 2), {}),
    "cat": (lambda size: CATConv(size, 3, 2), {"structure": torch.rand(7, 2)}),
    "sage": (lambda size: SAGEConv(size, 3), {}),
}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", LAZY)
def test_lazy_channels_are_those_of_the_first_input(name, sparse):
    make, extra = LAZY[name]
    x = torch.rand(7, 5, generator=torch.Generator().manual_seed(0))
    graph = Graph.from_edge_index([[0, 1, 2, 5], [1, 0, 3, 6]], 7)
    given = SparseFeatures.from_dense(x) if sparse else x
    lazy, known = make(-1).eval(), make(5).eval()
    lazy(given, graph, **extra)
    known.load_state_dict(lazy.state_dict())
    torch.testing.assert_close(lazy(given, graph, **extra), known(given, graph, **extra))
    with pytest.raises(ValueError, match=r"'x' (has 4 channels.* built for 5|must be \[7, 5\])"):
        lazy(x[:, :4], graph, **extra)
    later = make(-1).eval()  # weights may come before the first input
    later.load_state_dict(known.state_dict())
    torch.testing.assert_close(later(given, graph, **extra), known(given, graph, **extra))


@pytest.mark.parametrize("name", [*LAZY, "gin"])
def test_edge_index_is_a_keyword_as_in_pyg(name):
    make, extra = LAZY.get(name, (lambda size: GINConv(nn.Sequential(Linear(size, 3))), {}))
    x = torch.rand(7, 5, generator=torch.Generator().manual_seed(0))
    edges, weight = torch.tensor([[0, 1, 2, 5], [1, 0, 3, 6]]), torch.rand(4)
    layer = make(5).eval()
    expected = layer(x, edges, weight, **extra)
    given = {"edge_index": edges, "edge_weight": weight, **extra}
    assert torch.equal(layer(x, **given), expected)
    given = {"edge_index": Graph.from_edge_index(edges, 7, weight), **extra}
    torch.testing.assert_close(layer(x=x, **given), expected)


@pytest.mark.parametrize("make", [GCNConv, MaskedGCNConv])
def test_lazy_layers_are_copied_saved_and_reset_before_their_first_input(make):
    layer = make(-1, 3)
    assert isinstance(layer.state_dict()["lin.weight"], nn.UninitializedParameter)
    twin = copy.deepcopy(layer)
    twin.reset_parameters()
    twin.load_state_dict(layer.state_dict())
    assert twin(torch.rand(2, 6), torch.tensor([[0], [1]])).shape == (2, 3)
    assert twin.lin.weight.shape == (3, 6) and layer.lin.is_lazy
    assert next(iter(twin.parameters())).requires_grad


def test_the_own_aggregation_has_one_name():
    torch.manual_seed(0)
    x, edges = torch.rand(7, 5), torch.tensor([[0, 1, 2], [1, 0, 3]])
    plain = GCNConv(5, 3)
    for aggr in ("linear", "none", None):
        layer = GCNConv(5, 3, aggr=aggr)
        layer.load_state_dict(plain.state_dict())
        assert torch.equal(layer(x, edges), plain(x, edges))
    assert repr(GCNConv(5, 3, aggr="polynomial").aggr) == repr(GCNConv(5, 3, aggr="poly").aggr)
    with pytest.raises(ValueError, match="unknown aggregator 'mean'.*'linear', 'lp', 'poly'"):
        GCNConv(5, 3, aggr="mean")


def test_lazy_pooling_is_refused_as_in_pyg():
    with pytest.raises(ValueError, match="pool=True needs the input channels"):
        SAGEConv(-1, 3, pool=True)
    for wrong in (0, -2, True, 2.5):
        with pytest.raises(
            ValueError, match="'in_channels' must be a positive integer, or -1 to take"
        ):
            GCNConv(wrong, 3)
