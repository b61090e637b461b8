"""The operations of compiled code: opcheck of each, and what becomes of graphs in them."""

import gc

import pytest
import torch

from meanmax import Graph, functional
from meanmax.aggr.base import TiltedAggregation
from meanmax.graph.handles import keep, lookup, num_kept
from meanmax.graph.views import RowsGraph
from meanmax.nn import GATConv, GCNConv
from meanmax.ops.library import TracedGraph, traced
from meanmax.ops.spec import AggregationSpec

from .cases import messy_edges, normal

EDGES = messy_edges()
GRAPH = Graph.from_edge_index(EDGES, 30, torch.rand(EDGES.size(1), generator=torch.manual_seed(0)))
BARE = GRAPH.with_weight(None)
LOOPED = traced(GRAPH).prepared(None, "replace")
MOST = LOOPED.num_edges


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def parts(graph):
    return graph.handle, None, graph.steps, graph.num_edges


def result(*size, needs, dtype=torch.float32):
    return size, dtype, torch.device("cpu"), needs


def learned(*size):
    return normal(*size).requires_grad_()


def alone(count):
    return [True] + [False] * (count - 1)


KEY = torch.full((3,), -1)
TILTED = ("lp", "weighted", "consistent", "shift", None, None)
PLAIN, PREPARED = parts(traced(GRAPH)), parts(LOOPED)
ARGUMENTS = {
    "attended": lambda: (learned(30, 2), learned(30, 2), *PREPARED, 0.2,
                         *result(MOST, 2, needs=[True, True, *[False] * 5])),
    "csr_weight": lambda: (*PREPARED, *result(MOST, needs=[False] * 4)),
    "edge_weight": lambda: (*PLAIN, *result(PLAIN[3], needs=[False] * 4)),
    "fitted": lambda: (*PLAIN, 3, 0, *result(30, 3, needs=[False] * 6)),
    "from_edge_index": lambda: (EDGES, 30, 30),
    "group_graph": lambda: (EDGES[1], None, EDGES.size(1), 30, torch.device("cpu")),
    "matching_key": lambda: (KEY, *PLAIN, 30, 3,
                             *result(3, needs=[False] * 7, dtype=torch.int64)),
    "nodes_to_graphs": lambda: (torch.tensor([0, 2, 2, 5]), 5),
    "extended": lambda: (learned(30, 4), *PLAIN, torch.tensor(-1.5, requires_grad=True), None,
                         "lp", "weighted", "consistent", "shift", True,
                         torch.tensor(0.5, requires_grad=True), None, None,
                         *result(30, 4, needs=[True, *[False] * 4, True, *[False] * 6, True,
                                               *[False] * 2])),
    "pull_back": lambda: pull_back_arguments(),
    "reduce": lambda: (learned(30, 4), *PLAIN, None, None, "mean",
                       *result(30, 4, needs=alone(8))),
    "repeated": lambda: (GRAPH.handle, 2),
    "reweighted": lambda: (torch.rand(MOST, 2, requires_grad=True), *PREPARED, None,
                           *result(MOST, 2, needs=alone(6))),
    "seeded_dropout": lambda: (learned(30, 4), torch.tensor(7), 0.5,
                               *result(30, 4, needs=alone(3))),
    "stored_product": lambda: (learned(PLAIN[3]), *parts(traced(BARE)),
                               learned(4, 30),
                               *result(30, 4, needs=[True, *[False] * 4, True])),
    "stored_spread": lambda: (normal(PLAIN[3]), *PLAIN, *PLAIN, torch.ones(30, 1),
                              *result(PLAIN[3], needs=[False] * 10)),
    "structural_attention": lambda: (learned(30, 3), *PREPARED,
                                     *result(MOST, 1, needs=alone(5))),
    "summed_weights": lambda: (*PREPARED, *result(30, 1, needs=[False] * 4)),
    "tilted": lambda: (learned(30, 4), *PLAIN, torch.tensor(1.5, requires_grad=True), None,
                       *TILTED, *result(30, 4, needs=[True, *[False] * 4, True, *[False] * 7])),
}  # fmt: skip


def pull_back_arguments():
    x = normal(30, 4)
    tilted = torch.ops.meanmax.tilted.default
    needs = [True, *[False] * 12]
    theta = torch.tensor(1.5)
    out, tape = tilted(x, *PLAIN, theta, None, *TILTED, *result(30, 4, needs=needs))
    return tape, normal(30, 4), out, [x, PLAIN[0], theta], [True, False, False]


@pytest.mark.parametrize("name", ARGUMENTS)
def test_opcheck(name):
    torch.library.opcheck(getattr(torch.ops.meanmax, name).default, ARGUMENTS[name]())


def test_every_operation_is_checked():
    names = torch._C._dispatch_get_all_op_names()
    assert sorted(name.split("::")[1] for name in names if name.startswith("meanmax::")) == sorted(
        ARGUMENTS
    )


def test_a_handle_keeps_its_object_as_long_as_its_memory():
    before = num_kept()
    handle = keep(["value"])
    alias = handle.detach()
    del handle
    assert lookup(alias) == lookup(alias.clone()) == ["value"]
    copy = alias.clone()
    del alias
    assert num_kept() == before
    with pytest.raises(RuntimeError, match="kept a copy of a meanmax handle"):
        lookup(copy)


def test_a_graph_is_freed_with_its_handle_alive():
    graph = Graph.from_edge_index([[0], [1]])
    handle = graph.handle
    assert lookup(handle) is graph
    del graph
    gc.collect()
    with pytest.raises(RuntimeError, match="handle"):
        lookup(handle)


def test_changing_graphs_neither_leak_nor_compile_again():
    conv, before = GATConv(3, 2, aggr="lp", dropout=0.5), num_kept()
    graphs = []  # a graph for each compilation

    def backend(module, _):
        graphs.append(module)
        return module.forward

    compiled = torch.compile(conv, backend=backend, fullgraph=True)
    for nodes in range(8, 14):
        edges = torch.randint(nodes, (2, 3 * nodes), generator=torch.manual_seed(nodes))
        compiled(normal(nodes, 3), edges).sum().backward()
        compiled(normal(nodes, 3), edges)  # and no backward pass
    gc.collect()
    assert num_kept() == before
    assert len(graphs) <= 2  # one for the first size, one for all others


def test_without_gradients_nothing_is_kept():
    conv, before = GCNConv(3, 2, aggr="lp"), num_kept()
    compiled = torch.compile(conv, backend="aot_eager", fullgraph=True)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            out = compiled(normal(30, 3), EDGES)
            assert torch.equal(out, conv(normal(30, 3), EDGES))
            assert num_kept() == before
    out = compiled(normal(30, 3), EDGES)
    assert num_kept() > before
    del out
    gc.collect()
    assert num_kept() == before


def test_checks_run_with_the_operation():
    compiled = torch.compile(functional.lp, backend="aot_eager", fullgraph=True)
    x = normal(30, 4)
    compiled(x, GRAPH, torch.tensor(2.0))
    with pytest.raises(ValueError, match="'p' must be finite and at least 1"):
        compiled(x, GRAPH, torch.tensor(0.5))
    x[3, 1] = torch.nan
    with pytest.raises(ValueError, match="'x' must be finite"):
        compiled(x, GRAPH, torch.tensor(2.0))


class BreakingAggregation(TiltedAggregation):
    """An aggregator that compiled code cannot trace as a whole."""

    def __init__(self):
        super().__init__(AggregationSpec("lp"), 2.0)

    def _options(self):
        return {}

    def _formula(self, x, graph, theta, weight):
        torch._dynamo.graph_break()
        return functional.lp(x, graph, theta, edge_weight=weight) + _count(graph)


@torch.compiler.disable
def _count(graph):
    return graph.rowptr.numel()


# PyTorch looks at the gradients of tensors that it hands over at a graph break.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_a_graph_crosses_a_break():
    conv = GATConv(3, 2, aggr=BreakingAggregation())
    out = torch.compile(conv, backend="aot_eager")(normal(30, 3), EDGES)
    assert torch.allclose(out, conv(normal(30, 3), EDGES), atol=1e-6)


def test_views_are_left_to_eager_code():
    nodes = torch.arange(30)
    view = RowsGraph(Graph.from_edge_index(EDGES, 30), nodes, nodes[:10])
    assert traced(view) is None
    out = torch.compile(functional.lp, backend="aot_eager")(normal(30, 3), view, 2.0)
    assert torch.equal(out, functional.lp(normal(30, 3), view, 2.0))


def test_compiled_code_does_not_know_the_edges():
    def rows(graph):
        return graph.prepared().rowptr

    assert isinstance(traced(GRAPH), TracedGraph)
    assert torch.equal(rows(traced(GRAPH)), GRAPH.rowptr)
    with pytest.raises(Exception, match="compiled code does not know the 'rowptr'"):
        torch.compile(lambda: rows(LOOPED), backend="eager", fullgraph=True)()
