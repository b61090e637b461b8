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
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_aggregator(kind, backend, fresh_compiler):
    x, index = normal(20, 3).requires_grad_(), groups(20, 5)
    graph = Graph.from_edge_index(torch.stack([torch.arange(20), index]), (20, 5))
    aggr = CLASSES[kind](1.5)
    compiled = torch.compile(aggr, backend=backend)
    for out in (compiled(x, index, dim_size=5), compiled(x, graph)):
        want = naive(kind, x, index, 5, aggr.raw)
        assert_close(out, want)
        got = torch.autograd.grad(out.square().sum(), (x, aggr.raw))
        for one, true in zip(got, torch.autograd.grad(want.square().sum(), (x, aggr.raw)),
                             strict=True):  # fmt: skip
            assert_close(one, true, 1e-4)


@every_kind
# PyTorch reads .grad of what crosses a graph break, and warns about it itself.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_compiled_layer(kind, fresh_compiler):
    torch.manual_seed(0)
    conv, x = SAGEConv(3, 2, aggr=CLASSES[kind](1.5)), normal(10, 3)
    src, dst = groups(30, 10, seed=1), groups(30, 10, seed=2)
    compiled = torch.compile(conv, backend="aot_eager")
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
