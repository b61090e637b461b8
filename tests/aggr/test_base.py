"""The state of an aggregator, its two ways of being called, and its hooks."""

import copy
import io

import pytest
import torch

from meanmax import Graph, LpAggregation, PolynomialAggregation, SoftmaxAggregation

from .naive import CLASSES, NAMES, assert_close, every_kind, groups, naive, normal


@every_kind
@pytest.mark.parametrize("learn", [True, False])
def test_the_state_holds_the_parameter_either_way(kind, learn):
    aggr = CLASSES[kind](1.5, learn=learn, reparam="softplus")
    assert list(aggr.state_dict()) == ["raw"]
    assert len(list(aggr.parameters())) == int(learn)
    with torch.no_grad():
        aggr.raw.add_(1.0)
    file = io.BytesIO()
    torch.save(aggr.state_dict(), file)
    file.seek(0)
    other = CLASSES[kind](1.1, learn=not learn, reparam="softplus")
    other.load_state_dict(torch.load(file, weights_only=True), strict=True)
    assert other.value.item() == aggr.value.item() > 1.6


@every_kind
def test_copies_are_independent_and_pickles_complete(kind):
    aggr = CLASSES[kind]([1.5, 2.5], per="head", heads=2, learn=False)
    twin = copy.deepcopy(aggr)
    file = io.BytesIO()
    torch.save(aggr, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    aggr.raw.fill_(7.0)
    assert twin.value.tolist() == loaded.value.tolist() == [1.5, 2.5]
    assert repr(twin) == repr(loaded) != repr(aggr)


@every_kind
def test_reset_restores_the_start_value_at_any_precision(kind):
    aggr = CLASSES[kind]([1.3, 1.7], per="channel", channels=2, reparam="sigmoid").double()
    with torch.no_grad():
        aggr.raw.zero_()
    aggr.reset_parameters()
    assert aggr.value.dtype == torch.float64
    assert aggr.value.tolist() == pytest.approx([1.3, 1.7], rel=1e-12)


@pytest.mark.parametrize(
    ("aggr", "expected"),
    [
        (LpAggregation(2.3141), "LpAggregation(p=2.314, learn=True, per='layer', reparam='projected', shift='consistent', sign='shift')"),  # noqa: E501
        (LpAggregation(1.5, reparam="sigmoid", shift="paper", sign="abs"), "LpAggregation(p=1.5, learn=True, per='layer', reparam='sigmoid', upper=2.0, shift='paper', sign='abs')"),  # noqa: E501
        (PolynomialAggregation([0, 3, 1], per="head", heads=3, learn=False), "PolynomialAggregation(alpha=0.0…3.0 (n=3), learn=False, per='head', reparam='projected', form='weighted', sign='shift')"),  # noqa: E501
        (SoftmaxAggregation(per="channel", channels=64, form="sum", reparam="softplus"), "SoftmaxAggregation(gamma=1.0 (n=64), learn=True, per='channel', reparam='softplus', form='sum')"),  # noqa: E501
    ],
)  # fmt: skip
def test_repr_shows_what_changes_the_result(aggr, expected):
    assert repr(aggr) == expected


@every_kind
def test_a_graph_in_place_of_index_aggregates_nodes(kind):
    src, dst = groups(40, 12, seed=1), groups(40, 9, seed=2)
    weight = normal(40, seed=3).abs()
    graph = Graph.from_edge_index(torch.stack([src, dst]), (12, 9), weight)
    x = normal(12, 3)
    aggr = CLASSES[kind](1.7)
    got = aggr(x, graph)
    if kind != "softmax":  # one node more than is sent: its minimum counts for the graph
        x[11] = x[src].min()
    assert_close(aggr(x, graph), naive(kind, x[src], dst, 9, 1.7, weight))
    assert_close(aggr(x, graph, edge_weight=weight[:1].expand(40)), aggr(x, graph.with_weight(
        weight[:1].expand(40))))  # fmt: skip
    assert got.shape == (9, 3) and not torch.equal(got, aggr(x, graph.with_weight(None)))


@every_kind
def test_aggregate_is_the_call_with_a_graph_without_hooks(kind):
    graph = Graph.from_edge_index(torch.stack([groups(40, 9), groups(40, 9, seed=2)]), 9)
    x, weight = normal(9, 3), normal(40, seed=3).abs()
    aggr = CLASSES[kind](1.7)
    want = [aggr(x, graph), aggr(x, graph, edge_weight=weight)]
    aggr.register_forward_hook(lambda module, args, out: out + 100)
    assert torch.equal(aggr.aggregate(x, graph), want[0])
    assert torch.equal(aggr.aggregate(x, graph, weight), want[1])
    assert not torch.equal(*want)
    torch.manual_seed(0)
    dropped = CLASSES[kind](1.7, edge_dropout=0.5).aggregate(x, graph)
    assert not torch.equal(dropped, want[0])


@every_kind
def test_messages_and_graph_agree_with_gradients(kind):
    index, weight = groups(30, 7), normal(30, 2, seed=1).abs()
    graph = Graph.from_edge_index(torch.stack([torch.arange(30), index]), (30, 7))
    results = []
    for group in (index, graph):
        aggr = CLASSES[kind]([1.2, 3.0], per="head", heads=2)
        x, w = normal(30, 2, 3).requires_grad_(), weight.clone().requires_grad_()
        call = {"dim": 0} | ({} if group is graph else {"dim_size": 7})
        out = aggr(x, group, edge_weight=w, **call)
        grads = torch.autograd.grad(out.square().sum(), (x, w, aggr.raw))
        results.append((out, *grads))
    for by_index, by_graph in zip(*results, strict=True):
        assert torch.equal(by_index, by_graph) and by_index.abs().sum() > 0


@every_kind
def test_hooks_fire_on_both_paths_and_may_replace_the_output(kind):
    aggr, seen = CLASSES[kind](), []
    aggr.register_forward_pre_hook(lambda module, args: seen.append("before"))
    aggr.register_forward_hook(lambda module, args, out: seen.append("after") or out + 100)
    x, index = torch.ones(3, 1), torch.tensor([0, 0, 1])
    graph = Graph.from_edge_index(torch.stack([torch.arange(3), index]), (3, 2))
    assert float(aggr(x, graph).detach().min()) > 100
    assert float(aggr(x, index).detach().min()) > 100
    assert seen == ["before", "after"] * 2


def test_a_hook_may_ask_for_maxness():
    aggr, seen = SoftmaxAggregation(50.0), []
    aggr.register_forward_hook(lambda module, args, out: seen.append(module.maxness(*args[:2])))
    graph = Graph.from_edge_index([[0, 1], [0, 0]])
    aggr(torch.tensor([[0.0], [1.0]]), graph)
    assert float(seen[0]) == pytest.approx(1.0)


@pytest.mark.parametrize("argument", [{"dim_size": 2}, {"dim": 1}, {"ptr": torch.tensor([0, 2])}])
def test_a_graph_leaves_nothing_else_to_say(argument):
    graph = Graph.from_edge_index([[0, 1], [0, 0]])
    with pytest.raises(ValueError, match="leave out 'ptr', 'dim_size' and 'dim'"):
        LpAggregation()(torch.ones(2, 1), graph, **argument)


@every_kind
def test_parameters_that_do_not_fit_the_features(kind):
    x, index = torch.ones(4, 3, 5), torch.tensor([0, 0, 1, 1])
    with pytest.raises(ValueError, match=r"heads=2 needs features of shape \[..., 2, channels\]"):
        CLASSES[kind](per="head", heads=2)(x, index, dim=0)
    with pytest.raises(ValueError, match=r"heads=3 needs .* \(got \[5\]\)"):
        CLASSES[kind](per="head", heads=3)(x, torch.zeros(3, dtype=torch.long))
    with pytest.raises(ValueError, match=r"channels=4 needs .* \(got \[3, 5\]\)"):
        CLASSES[kind](per="channel", channels=4)(x, index, dim=0)


@every_kind
def test_a_lost_parameter_is_an_error_not_a_result(kind):
    aggr = CLASSES[kind]()
    with torch.no_grad():
        aggr.raw.fill_(torch.nan)
    with pytest.raises(ValueError, match=f"'{NAMES[kind]}' must be finite"):
        aggr(torch.ones(2, 1), torch.tensor([0, 0]))


@pytest.mark.parametrize("kind", [SoftmaxAggregation, PolynomialAggregation])
def test_the_former_name_of_the_form_is_explained(kind):
    with pytest.raises(
        TypeError, match=f"{kind.__name__} has no option 'normalize'.*called 'form'"
    ):
        kind(normalize="sum")


def test_an_unknown_option_is_told_by_the_aggregator_that_was_called():
    with pytest.raises(TypeError, match="LpAggregation has no option 'normalize'.*p, shift, .*per"):
        LpAggregation(normalize="sum")
    with pytest.raises(TypeError, match="SoftmaxAggregation has no option 'speed'.*gamma, form, l"):
        SoftmaxAggregation(speed=2)
