"""Right results under torch.compile, autocast, half precision, and other backends."""

import pytest
import torch
from torch_geometric.nn import SAGEConv

from meanmax import Graph, use_backend

from .naive import CLASSES, assert_close, every_kind, groups, naive, normal


@pytest.fixture
def fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@every_kind
def test_compiled_aggregator(kind, fresh_compiler):
    x, index = normal(20, 3).requires_grad_(), groups(20, 5)
    graph = Graph.from_edge_index(torch.stack([torch.arange(20), index]), (20, 5))
    aggr = CLASSES[kind](1.5)
    compiled = torch.compile(aggr, backend="aot_eager", fullgraph=True)
    for out in (compiled(x, index, dim_size=5), compiled(x, graph)):
        want = naive(kind, x, index, 5, aggr.raw)
        assert_close(out, want)
        got = torch.autograd.grad(out.square().sum(), (x, aggr.raw))
        for one, true in zip(got, torch.autograd.grad(want.square().sum(), (x, aggr.raw)),
                             strict=True):  # fmt: skip
            assert_close(one, true, 1e-4)


def test_compiled_forms(fresh_compiler):
    """Every form, sign and reparametrisation; per layer, head and channel; with edge dropout."""
    lp, polynomial, softmax = (CLASSES[kind] for kind in ("lp", "polynomial", "softmax"))
    aggregators = torch.nn.ModuleList(
        [
            lp(1.5, shift="paper", per="head", heads=2),
            lp(1.5, sign="abs", reparam="softplus"),
            polynomial(1.5, form="sum", per="channel", channels=3),
            polynomial(1.5, sign="abs", reparam="sigmoid"),
            softmax([1.0, 2.0], form="sum", per="head", heads=2, edge_dropout=0.5),
            softmax(1.5, form="paper", per="channel", channels=6),
        ]
    ).double()
    x, index = normal(20, 2, 3).double().requires_grad_(), groups(20, 5)
    weight = normal(20).abs().double().requires_grad_()
    edges = torch.stack([torch.arange(20), index])
    graph = Graph.from_edge_index(edges, (20, 5), weight.detach())

    def outputs(x, graph, index, weight):
        by_graph = [aggr(x, graph) for aggr in aggregators]
        by_index = [aggr(x, index, dim_size=5, dim=0, edge_weight=weight) for aggr in aggregators]
        return torch.stack(by_graph + by_index)

    results = []
    compiled = torch.compile(outputs, backend="aot_eager", fullgraph=True)
    wanted = (x, weight, *aggregators.parameters())
    for call in (outputs, compiled):
        torch.manual_seed(0)
        out = call(x, graph, index, weight)
        results.append((out, *torch.autograd.grad(out.square().sum(), wanted)))
    for got, want in zip(*results, strict=True):
        assert_close(got, want, 1e-9)


def test_compiled_batch_of_messages(fresh_compiler):
    aggr, index = CLASSES["lp"](1.5), groups(20, 5)
    compiled = torch.compile(aggr, backend="aot_eager", fullgraph=True)
    for batch in (2, 3, 4):
        x = normal(batch, 20, 3)
        assert_close(compiled(x, index, dim_size=5), aggr(x, index, dim_size=5), 1e-6)
    ptr = torch.tensor([0, 4, 4, 20])
    assert_close(compiled(x, ptr=ptr), aggr(x, ptr=ptr), 1e-6)


@every_kind
def test_compiled_layer(kind, fresh_compiler):
    torch.manual_seed(0)
    conv, x = SAGEConv(3, 2, aggr=CLASSES[kind](1.5)), normal(10, 3)
    src, dst = groups(30, 10, seed=1), groups(30, 10, seed=2)
    compiled = torch.compile(conv, backend="aot_eager", fullgraph=True)
    out = compiled(x, torch.stack([src, dst]))
    want = conv.lin_l(naive(kind, x[src], dst, 10, 1.5).float()) + conv.lin_r(x)
    assert_close(out, want)
    out.sum().backward()
    assert float(conv.aggr_module.raw.grad.abs()) > 0


@every_kind
def test_autocast_computes_in_float32(kind):
    aggr, index = CLASSES[kind](1.5), groups(20, 5)
    x = normal(20, 3).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = aggr(x, index, dim_size=5)
    assert out.dtype == torch.float32
    assert_close(out, naive(kind, x, index, 5, 1.5))


@every_kind
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_the_result_has_the_dtype_of_the_messages(kind, dtype):
    aggr, index = CLASSES[kind](1.5).to(dtype), groups(20, 5)
    x = normal(20, 3).to(dtype)
    out = aggr(x, index, dim_size=5)
    assert out.dtype == aggr.value.dtype == dtype
    assert_close(out, naive(kind, x, index, 5, 1.5), 1e-2 if dtype.itemsize == 2 else 1e-12)


@every_kind
@pytest.mark.parametrize("backend", ["numba", "torch", "reference"])
def test_every_backend(kind, backend):
    x, index = normal(2, 20, 3), groups(20, 5)
    with use_backend(backend):
        out = CLASSES[kind](1.5)(x, index, dim_size=5)
    for got, each in zip(out, x, strict=True):
        assert_close(got, naive(kind, each, index, 5, 1.5))
