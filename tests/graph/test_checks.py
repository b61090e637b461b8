import numpy as np
import pytest
import torch

from meanmax.graph import Graph

EDGES = torch.tensor([[0, 1, 2], [1, 2, 0]])


def build(*args, **options):
    return lambda: Graph.from_edge_index(*args, **options)


ERRORS = {
    "a vector": (build(EDGES[0]), r"shape \[2, num_edges\] \(got \[3\]\)"),
    "transposed": (build(EDGES.t()), r"got \[3, 2\]\); pass edge_index.t\(\)"),
    "floating": (build(EDGES.float()), "must hold integers .got torch.float32"),
    "boolean": (build(EDGES > 0), "must hold integers .got torch.bool"),
    "floating array": (build(np.ones((2, 3))), "must hold integers .got float64"),
    "sparse": (build(torch.eye(2).to_sparse()), "dense tensor of indices .got torch.sparse_coo"),
    "negative": (
        build(EDGES - 1),
        r"'edge_index': source indices must not be negative \(got -1\)",
    ),
    "negative target": (
        build([[0], [-2]], 3),
        r"'edge_index': target indices must not be negative \(got -2\)",
    ),
    "too large": (
        build(EDGES, 2),
        "'edge_index': source index 2 is too large for 2 source nodes",
    ),
    "too large target": (
        build(EDGES, (3, 2)),
        "'edge_index': target index 2 is too large for 2 target nodes",
    ),
    "negative size": (build(EDGES, -1), r"non-negative integer or a pair .* \(got -1\)"),
    "fractional size": (build(EDGES, 3.5), r"\(got 3.5\)"),
    "three sizes": (build(EDGES, (3, 3, 3)), r"\(got \(3, 3, 3\)\)"),
    "few weights": (
        build(EDGES, edge_weight=torch.ones(2)),
        r"\[3\] or \[3, heads\].*\(got \[2\]\)",
    ),
    "cubic weights": (build(EDGES, edge_weight=torch.ones(3, 1, 1)), r"\(got \[3, 1, 1\]\)"),
    "negative weight": (build(EDGES, edge_weight=[1.0, -2.0, 0.0]), r"negative \(got -2\)"),
    "NaN weight": (build(EDGES, edge_weight=[1.0, float("nan"), 0.0]), r"finite \(got NaN\)"),
    "infinite weight": (build(EDGES, edge_weight=[1.0, float("inf"), 0.0]), r"finite \(got inf\)"),
    "complex weight": (
        build(EDGES, edge_weight=torch.ones(3) + 1j),
        "real numbers .got torch.complex64",
    ),
    "weight elsewhere": (
        build(EDGES, edge_weight=torch.ones(3, device="meta")),
        "device cpu .got meta",
    ),
    "unknown normalize": (build(EDGES, normalize="both"), "None, 'sym' or 'row' .got 'both'"),
    "unknown self_loops": (build(EDGES, self_loops="keep"), "'add' or 'replace' .got 'keep'"),
    "rectangular sym": (build(EDGES, (3, 4), normalize="sym"), "got 3 source and 4 target.*'row'"),
    "rectangular loops": (build(EDGES, (3, 4), self_loops=True), "self_loops=True needs source"),
    "far index": (build([[0, 2**40], [1, 0]]), "'edge_index' asks for 1,099,511,627,777 nodes"),
    "far size": (build(EDGES, 2**70), "'num_nodes' asks for 1,180,591,.* of this machine's memory"),
    "far sources": (lambda: Graph.from_csr([0, 1], [0], num_src=2**40), "'num_nodes' asks for 1,0"),
    "far batch": (build(EDGES, batch=torch.tensor([0, 0, 2**40])), "'batch' asks for .* graphs"),
    "beyond 63 bits": (
        build(np.array([[0, 2**63 + 1], [1, 0]], np.uint64)),
        r"'edge_index' holds 9223372036854775809, and indices are at most 2\*\*63 - 1",
    ),
    "unsorted batch": (build(EDGES, batch=torch.tensor([0, 1, 0])), "'batch' must be sorted"),
    "negative batch": (build(EDGES, batch=torch.tensor([-1, 0, 0])), r"negative .* \(got -1\)"),
    "short batch": (build(EDGES, 3, batch=torch.zeros(2).long()), r"3 nodes \(got shape \[2\]\)"),
    "floating batch": (build(EDGES, batch=torch.zeros(3)), "'batch' must hold integers"),
    "three batches": (build(EDGES, batch=(EDGES[0],) * 3), "got a tuple of 3"),
    "across graphs": (
        build(EDGES, batch=torch.tensor([0, 0, 1])),
        "got edge 1 -> 2 from graph 0 to graph 1",
    ),
    "rowptr start": (lambda: Graph.from_csr([1, 3], [0, 0, 0]), "from 0 to 3 .got 1 to 3"),
    "rowptr end": (lambda: Graph.from_csr([0, 2], [0, 0, 0]), "from 0 to 3 .got 0 to 2"),
    "rowptr falls": (lambda: Graph.from_csr([0, 3, 1, 3], [0, 0, 0]), "must not decrease"),
    "rowptr empty": (lambda: Graph.from_csr([], []), "non-empty vector"),
    "col matrix": (lambda: Graph.from_csr([0, 2], [[0, 0]]), r"'col' must be a vector .*\[1, 2\]"),
    "col too large": (
        lambda: Graph.from_csr([0, 1], [3]),
        "'col': source index 3 is too large for 1 source",
    ),
    "few values": (
        lambda: Graph.from_edge_index(EDGES).to_graph_order(torch.ones(2)),
        r"each of 3 edges \(got shape \[2\]\)",
    ),
    "other weights": (
        lambda: Graph.from_edge_index(EDGES).with_weight(-torch.ones(3)),
        r"negative \(got -1\)",
    ),
    "num_nodes of two sizes": (
        lambda: Graph.from_edge_index(EDGES, (3, 4)).num_nodes,
        "from 3 source to 4 target nodes has no single 'num_nodes'",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_say_what_was_got(case):
    call, message = ERRORS[case]
    with pytest.raises(ValueError, match=message):
        call()


def test_constructor_points_to_the_methods():
    with pytest.raises(TypeError, match=r"Graph.from_edge_index.*\(got Tensor\)"):
        Graph(EDGES)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint32])
def test_any_integer_type_is_an_index(dtype):
    assert torch.equal(Graph.from_edge_index(EDGES.to(dtype)).edge_index, EDGES)


def test_arrays_and_lists_are_edges():
    array = EDGES.numpy().astype(">u4")
    array.setflags(write=False)
    for given in (array, EDGES.numpy()[:, ::-1][:, ::-1], EDGES.tolist()):
        assert torch.equal(Graph.from_edge_index(given).edge_index, EDGES)


def test_arrays_and_lists_are_weights():
    array = np.array([0.5, 0.0, 2.0])
    array.setflags(write=False)
    weight = Graph.from_edge_index(EDGES, edge_weight=array).edge_weight
    assert weight.dtype == torch.float64
    assert weight.tolist() == array.tolist()
    assert Graph.from_edge_index(EDGES, edge_weight=array.tolist()).weight.dtype == torch.float32


@pytest.mark.parametrize("weight", [torch.tensor([1, 0, 1]), torch.tensor([True, False, True])])
def test_integer_weights_become_floating(weight):
    graph = Graph.from_edge_index(EDGES, edge_weight=weight)
    assert graph.edge_weight.dtype == torch.get_default_dtype()
    assert graph.edge_weight.tolist() == [1.0, 0.0, 1.0]


def test_a_given_index_may_change_later():
    edges = torch.tensor([[1, 0], [0, 1]], dtype=torch.int32)
    graph = Graph.from_edge_index(edges)
    edges.zero_()
    assert graph.edge_index.tolist() == [[1, 0], [0, 1]]
