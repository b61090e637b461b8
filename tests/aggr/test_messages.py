"""PyG's call: messages by index or ptr, along any dimension, empty groups and empty inputs."""

import pytest
import torch
from torch_geometric import Index
from torch_geometric.nn.aggr import SumAggregation

from meanmax import LpAggregation, SoftmaxAggregation

from .naive import CLASSES, assert_close, every_kind, groups, naive, normal

ZEROS = torch.zeros(3, dtype=torch.long)


@every_kind
@pytest.mark.parametrize("order", ["unsorted", "sorted", "ptr", "both"])
def test_values_by_index_and_ptr(kind, order):
    x, index = normal(25, 4), groups(25, 6)
    if order != "unsorted":
        index = index.sort().values
    ptr = torch.searchsorted(index, torch.arange(7))
    call = {"ptr": ptr} if order == "ptr" else {"index": index, "dim_size": 6}
    call |= {"ptr": ptr} if order == "both" else {}
    out = CLASSES[kind](2.5)(x, **call)
    assert_close(out, naive(kind, x, index, 6, 2.5))
    assert torch.equal(out[5], torch.zeros(4))


@every_kind
@pytest.mark.parametrize(
    ("shape", "dim"),
    [((9,), 0), ((9,), -1), ((9, 4), 0), ((9, 4), -2), ((9, 2, 3), 0), ((9, 2, 3), -3),
     ((9, 2, 3, 2), 0)],
)  # fmt: skip
def test_features_of_any_shape(kind, shape, dim):
    x, index = normal(*shape), groups(9, 4)
    out = CLASSES[kind](1.5)(x, index, dim_size=4, dim=dim)
    assert_close(out, naive(kind, x, index, 4, 1.5))


@every_kind
@pytest.mark.parametrize(
    ("shape", "dim"), [((3, 9, 4), -2), ((3, 9, 4), 1), ((2, 3, 9, 4), 2), ((5, 9), -1)]
)
def test_leading_dimensions_are_independent_inputs(kind, shape, dim):
    x, index, weight = normal(*shape), groups(9, 4), normal(9, seed=5).abs()
    out = CLASSES[kind](1.5)(x, index, dim_size=4, dim=dim, edge_weight=weight)
    alone = x.reshape(-1, 9, *x.shape[dim:][1:])
    want = torch.stack([naive(kind, each, index, 4, 1.5, weight) for each in alone])
    assert_close(out, want.reshape(out.shape))
    assert out.shape == SumAggregation()(x, index, dim_size=4, dim=dim).shape


@every_kind
@pytest.mark.parametrize("per", ["layer", "head", "channel", "head and channel"])
def test_gradients_of_messages_weight_and_parameter(kind, per):
    counts = {"head": ("head", 2), "channel": ("channel", 3), "head and channel": ("channel", 6)}
    name, count = counts.get(per, ("layer", None))
    start = 1.5 if count is None else torch.linspace(1.2, 3.0, count)
    sized = {} if count is None else {f"{name}s": count}
    aggr = CLASSES[kind](start, per=name, **sized).double()
    index = groups(20, 5)
    x = normal(20, 2, 3, dtype=torch.float64).requires_grad_()
    weight = normal(20, 2, seed=1, dtype=torch.float64).abs().requires_grad_()
    out = aggr(x, index, dim_size=5, dim=0, edge_weight=weight)
    shape = {"head": (2, 1), "channel": (3,), "head and channel": (2, 3)}.get(per, ())
    want = naive(kind, x, index, 5, aggr.raw.view(shape), weight)
    assert_close(out, want, 1e-10)
    upstream = normal(5, 2, 3, seed=2, dtype=torch.float64)
    inputs = (x, weight, aggr.raw)
    truth = torch.autograd.grad(want, inputs, upstream)
    for got, true in zip(torch.autograd.grad(out, inputs, upstream), truth, strict=True):
        assert_close(got, true, 1e-8)


def test_parameter_per_head_with_more_feature_dimensions():
    x, index = normal(9, 2, 3, 4), groups(9, 4)
    start = torch.tensor([1.0, 2.0, 5.0])
    out = LpAggregation(start, per="head", heads=3)(x, index, dim_size=4, dim=0)
    assert_close(out, naive("lp", x, index, 4, start.view(3, 1)))
    every = torch.linspace(1.0, 4.0, 24)
    out = LpAggregation(every, per="channel", channels=24)(x, index, dim_size=4, dim=0)
    assert_close(out, naive("lp", x, index, 4, every.view(2, 3, 4)))


@every_kind
@pytest.mark.parametrize(
    ("shape", "dim"), [((0, 3), 0), ((0,), 0), ((4, 0), 0), ((0, 4, 3), 1), ((2, 0, 3), 1)]
)
@pytest.mark.parametrize("size", [0, 3])
def test_empty_inputs_give_zeros_with_a_gradient(kind, shape, dim, size):
    x = torch.ones(shape, requires_grad=True)
    if shape[dim] and not size:
        size = 1
    aggr = CLASSES[kind]()
    out = aggr(x, torch.zeros(shape[dim], dtype=torch.long), dim_size=size, dim=dim)
    assert out.shape == (*shape[:dim], size, *shape[dim + 1 :]) and not out.any()
    out.sum().backward()
    assert x.grad.shape == x.shape and not x.grad.any()


@every_kind
def test_no_index_is_one_group_and_the_size_is_the_largest_index(kind):
    x = normal(5, 2)
    one = torch.zeros(5, dtype=torch.long)
    assert_close(CLASSES[kind](2.0)(x), naive(kind, x, one, 1, 2.0))
    assert CLASSES[kind]()(x, torch.tensor([0, 3, 1, 1, 0])).shape == (4, 2)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_indices_of_any_integer_type(dtype):
    x, index = normal(9, 2), groups(9, 4)
    want = naive("softmax", x, index, 4, 1.0)
    assert_close(SoftmaxAggregation()(x, index.to(dtype), dim_size=4), want)
    assert_close(SoftmaxAggregation()(x, Index(index), dim_size=4), want)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"index": torch.tensor([0, 5, 1]), "dim_size": 3}, r"invalid 'dim_size' \(got '3' but expected >= '6'\)"),  # noqa: E501
        ({"ptr": torch.tensor([0, 3]), "dim_size": 2}, r"invalid 'dim_size' \(got '2' but expected '1'"),  # noqa: E501
        ({"ptr": torch.tensor([0, 2])}, r"'ptr|rowptr' must run from 0 to 3"),
        ({"index": torch.tensor([0, 1])}, r"group of each of 3 messages \(got \[2\]\)"),
        ({"index": torch.zeros(3, 1, dtype=torch.long)}, r"messages \(got \[3, 1\]\)"),
        ({"index": torch.tensor([0, -1, 0])}, "must not be negative"),
        ({"index": torch.tensor([0.0, 1.0, 0.0])}, "'index' must hold integers"),
        ({"index": ZEROS, "dim": 2}, "invalid dimension '2'"),
        ({"index": ZEROS, "edge_weight": torch.ones(2)}, "'edge_weight' must be"),
        ({"index": ZEROS, "edge_weight": -torch.ones(3)}, "non-negative"),
        ({"index": torch.zeros(2, 3, dtype=torch.long)}, r"Graph or the group.*from_edge_index"),
    ],
)  # fmt: skip
def test_bad_calls_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        LpAggregation()(torch.ones(3, 2), **call)


def test_forward_alone_needs_groups():
    with pytest.raises(ValueError, match="pass 'index' or 'ptr'"):
        LpAggregation().forward(torch.ones(3, 2))


def test_weights_of_zero_leave_a_group_empty():
    x, index = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([0, 0, 1])
    for kind, cls in CLASSES.items():
        out = cls()(x, index, edge_weight=torch.tensor([0.0, 0.0, 1.0]))
        assert out.flatten().tolist() == [0.0, pytest.approx(3.0)], kind
