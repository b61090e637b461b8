import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from meanmax import Graph
from meanmax.graph import build
from meanmax.graph.build import (
    expand,
    group_messages,
    group_sorted,
    index_dtype,
    pointer,
    to_csc,
    to_csr,
)


@st.composite
def edges(draw):
    num_src, num_dst = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    pairs = st.tuples(st.integers(0, num_src - 1), st.integers(0, num_dst - 1))
    drawn = np.array(draw(st.lists(pairs, max_size=20)), np.int64).reshape(-1, 2)
    return num_src, num_dst, drawn[:, 0], drawn[:, 1]


@pytest.mark.parametrize("on_cpu", [True, False])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_grouping_equals_numpy(on_cpu, dtype, monkeypatch):
    monkeypatch.setattr(build, "_on_cpu", lambda index: on_cpu)

    @given(edges())
    @settings(max_examples=100, deadline=None)
    def check(drawn):
        num_src, num_dst, src, dst = drawn
        order = np.argsort(dst, kind="stable")
        rowptr = np.searchsorted(dst[order], np.arange(num_dst + 1))
        csr = to_csr(torch.tensor(src, dtype=dtype), torch.tensor(dst, dtype=dtype), num_dst)
        perm = torch.arange(len(src)) if csr.perm is None else csr.perm
        assert csr.rowptr.tolist() == rowptr.tolist()
        assert csr.col.tolist() == src[order].tolist()
        assert perm.tolist() == order.tolist()

        back = np.argsort(src[order], kind="stable")
        csc = to_csc(csr.rowptr, csr.col, num_src)
        colptr = np.searchsorted(src[order][back], np.arange(num_src + 1))
        assert csc.colptr.tolist() == colptr.tolist()
        assert csc.row.tolist() == dst[order][back].tolist()
        assert csc.csc_to_csr.tolist() == back.tolist()
        assert {t.dtype for t in (csr.rowptr, csr.col, *csc)} == {dtype}
        assert csr.perm is None or csr.perm.dtype == dtype

    check()


def test_sorted_edges_are_not_permuted():
    src = torch.tensor([2, 0, 1], dtype=torch.int32)
    csr = to_csr(src, torch.tensor([0, 0, 2], dtype=torch.int32), 4)
    assert csr.perm is None
    assert csr.rowptr.tolist() == [0, 2, 2, 3, 3]
    assert csr.col is src


def test_pointer_and_expand():
    assert pointer(torch.tensor([3, 1, 3]), 5).tolist() == [0, 0, 1, 1, 3, 3]
    assert expand(torch.tensor([0, 0, 1, 1, 3, 3])).tolist() == [1, 3, 3]


def test_index_dtype_is_narrow_where_counts_fit():
    assert index_dtype(2**31 - 1, 5) == torch.int32
    assert index_dtype(5, 2**31) == torch.int64


NAMES = ("rowptr", "col", "perm", "colptr", "row", "csc_to_csr", "src_ptr", "dst_ptr", "edge_index")


def assert_same(graph, other):
    for name in NAMES:
        one, two = getattr(graph, name), getattr(other, name)
        assert (one is None) == (two is None), name
        assert one is None or (torch.equal(one, two) and one.dtype == two.dtype), name


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
def test_without_numba_the_graph_is_the_same(ordered, dtype, monkeypatch):
    edges = torch.randint(20, (2, 60), generator=torch.Generator().manual_seed(0)).to(dtype)
    if ordered:
        edges = edges[:, edges[1].argsort()]
    batch = torch.arange(20) // 10
    edges[0] = edges[0] % 10 + edges[1] // 10 * 10
    given = [{}, {"batch": batch}, {"self_loops": True, "normalize": "sym"}]
    graphs = [Graph.from_edge_index(edges, 20, **options) for options in given]
    for graph in graphs:
        assert graph.colptr[-1] == graph.num_edges
    monkeypatch.setattr(build, "counting_sort", lambda: None)
    for graph, options in zip(graphs, given, strict=True):
        assert_same(graph, Graph.from_edge_index(edges, 20, **options))


@pytest.mark.parametrize("ordered", [True, False])
def test_groups_of_messages_are_the_graph_from_each_to_its_group(ordered):
    index = torch.randint(7, (40,), generator=torch.Generator().manual_seed(1))
    if ordered:
        index = index.sort().values
    expected = Graph.from_edge_index(torch.stack([torch.arange(40), index]), (40, 9))
    assert_same(Graph(group_messages(index, 9)), expected)
    if ordered:
        assert_same(Graph(group_sorted(pointer(index, 9), 40)), expected)


def test_no_group_is_made_of_what_is_none():
    assert group_messages(torch.tensor([0, 3]), 3) is None
    assert group_messages(torch.tensor([-1, 0]), 3) is None
