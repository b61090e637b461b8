"""DeeperGCN's layer with learned aggregators, and its residual blocks, beside PyG's."""

from __future__ import annotations

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from torch.nn import LayerNorm, ReLU

from meanmax import Graph, LpAggregation, SoftmaxAggregation, build_model
from meanmax.nn import GENConv
from tests.nn.graphs import NUM_NODES, awkward_edges, features

CHANNELS, OUT = 6, 5
AGGRS = {
    "softmax": ("softmax", {"learn_t": True}, "t"),
    "softmax of a start": (SoftmaxAggregation(0.3), {"t": 0.3, "learn_t": True}, "t"),
    "softmax fixed": (SoftmaxAggregation(2.5, learn=False), {"t": 2.5}, None),
    "sum": (SoftmaxAggregation(0.0, beta=1.0, learn=False), {"aggr": "add"}, None),
    "power mean": (
        LpAggregation(1.7, sign="abs"),
        {"aggr": "powermean", "p": 1.7, "learn_p": True},
        "p",
    ),
}


def edges_to_all():
    """PyG's power mean of no messages is not 0: every node gets a neighbour."""
    nodes = torch.arange(NUM_NODES)
    return torch.cat([awkward_edges(), torch.stack([nodes.roll(1), nodes])], dim=1)


def in_both_libraries(name, width, **options):
    aggr, theirs, learned = AGGRS[name]
    torch.manual_seed(0)
    conv = GENConv(width, OUT, aggr=copy.deepcopy(aggr), eps=0.02, **options)
    other = pyg.GENConv(width, OUT, eps=0.02, **theirs, **options)
    state = {key: value for key, value in conv.state_dict().items() if not key.startswith("aggr.")}
    missing = other.load_state_dict(state, strict=False)
    own = [] if learned is None else [f"aggr_module.{learned}"]
    assert missing.missing_keys == own and not missing.unexpected_keys
    return conv, other, learned


@pytest.mark.parametrize("options", [{}, {"msg_norm": True, "bias": True, "norm": "layer"}])
@pytest.mark.parametrize("width", [CHANNELS, OUT])
@pytest.mark.parametrize("name", AGGRS)
def test_is_pygs(name, width, options):
    conv, other, learned = in_both_libraries(name, width, **options)
    edges = edges_to_all()
    x, same = (features(width).requires_grad_() for _ in range(2))
    out, expected = conv(x, Graph.from_edge_index(edges, NUM_NODES)), other(same, edges)
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
    factor = torch.linspace(-1, 1, out.numel()).view_as(out)
    (out * factor).sum().backward()
    (expected * factor).sum().backward()
    torch.testing.assert_close(x.grad, same.grad, rtol=1e-4, atol=1e-5)
    found = {name: p.grad for name, p in conv.named_parameters() if p.requires_grad}
    if learned is not None:
        found[f"aggr_module.{learned}"] = found.pop("aggr.learned.raw").view(1)
    wanted = {name: p.grad for name, p in other.named_parameters() if p.requires_grad}
    assert found.keys() == wanted.keys()
    for name, grad in wanted.items():
        torch.testing.assert_close(found[name], grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", AGGRS)
def test_different_sources_and_targets(name):
    conv, other, _ = in_both_libraries(name, (CHANNELS, 4))
    edges = torch.tensor([[0, 1, 2, 9, 9], [0, 1, 3, 3, 2]])
    pair = features(CHANNELS)[:10], features(4, seed=5)[:4]
    out = conv(pair, Graph.from_edge_index(edges, (10, 4)))
    torch.testing.assert_close(out, other(pair, edges), rtol=1e-5, atol=1e-5)
    graph = Graph.from_edge_index(edges, (10, 4))
    alone = conv((pair[0], None), graph)
    torch.testing.assert_close(alone, other((pair[0], None), edges, size=(10, 4)))


def test_message_norm_needs_targets():
    conv = GENConv(CHANNELS, OUT, msg_norm=True)
    graph = Graph.from_edge_index([[0, 2], [1, 0]], (3, 2))
    with pytest.raises(ValueError, match=r"msg_norm=True needs features of the targets: pass a"):
        conv((features(CHANNELS)[:3], None), graph)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": "instance"}, "'norm' must be one of"),
        ({"num_layers": 0}, "'num_layers' must be a positive integer"),
        ({"expansion": 1.5}, "'expansion' must be a positive integer"),
        ({"aggr": "mean"}, "unknown aggregator 'mean'"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        GENConv(CHANNELS, OUT, **options)


def test_reset_gives_other_weights_and_the_start_again():
    conv = GENConv(CHANNELS, OUT, aggr="softmax", msg_norm=True, learn_msg_scale=True)
    before = {name: value.clone() for name, value in conv.state_dict().items()}
    with torch.no_grad():
        for parameter in conv.parameters():
            parameter += 0.5
    conv.reset_parameters()
    after = conv.state_dict()
    for name in ("aggr.learned.raw", "msg_norm.scale", "mlp.1.weight"):
        assert torch.equal(after[name], before[name])
    for name in ("lin_src.weight", "lin_dst.weight", "mlp.0.weight", "mlp.4.weight"):
        assert not torch.equal(after[name], before[name])


@pytest.mark.parametrize("layers", [2, 5])
@pytest.mark.parametrize(("backbone", "kind"), [("gen", pyg.GENConv), ("gcn", pyg.GCNConv)])
def test_res_plus_is_pygs_block(backbone, kind, layers):
    torch.manual_seed(0)
    model = build_model(
        backbone, None, CHANNELS, 8, 3, layers, skip="res+", norm="layer", dropout=0.0
    )
    options = {"aggr": "mean", "norm": "layer"} if kind is pyg.GENConv else {}
    widths = [CHANNELS, *[8] * (layers - 1), 3]
    convs = [kind(*widths[i : i + 2], **options) for i in range(layers)]
    for conv, layer in zip(convs, model.layers, strict=True):
        conv.load_state_dict(layer.state_dict())
    norms = [LayerNorm(8) for _ in model.norms]
    for norm, given in zip(norms, model.norms, strict=True):
        with torch.no_grad():
            given.weight.uniform_(-1, 1)
            given.bias.uniform_(-1, 1)
        norm.load_state_dict(given.state_dict())
    edges, x = awkward_edges(), features(CHANNELS)
    h = convs[0](x, edges)
    for conv, norm in zip(convs[1:-1], norms, strict=False):
        h = pyg.DeepGCNLayer(conv, norm, ReLU(), block="res+")(h, edges)
    expected = convs[-1](norms[-1](h).relu(), edges)
    torch.testing.assert_close(model(x, edges), expected, rtol=1e-4, atol=1e-5)


def test_res_plus_adds_inputs_before_norm_and_activation():
    """Ends of equal widths have the skip too, and what one layer adds stays to the end."""
    model = build_model("gcn", None, 8, 8, 8, 4, skip="res+", norm="layer", dropout=0.5)
    with torch.no_grad():
        for layer in model.layers:
            layer.lin.weight.zero_()
    x = features(8)
    assert torch.equal(model.train()(x, awkward_edges()), x)
    (first, *_) = model.hidden(x, awkward_edges())
    assert torch.equal(first, model.norms[0](x).relu())


@pytest.mark.parametrize(("skip", "least", "most"), [("res+", 0.0, 0.35), (None, 0.65, 1.0)])
def test_thirty_layers_learn_with_res_plus_alone(skip, least, most):
    torch.manual_seed(0)
    x, edges = features(CHANNELS), awkward_edges()
    y = (x[:, 0] > 0).long()
    model = build_model("gen", "softmax", CHANNELS, 16, 2, 30, skip=skip, norm="layer", dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(50):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x, edges), y)
        loss.backward()
        optimizer.step()
    assert least < float(loss.detach()) < most
