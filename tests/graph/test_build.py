import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from meanmax.graph import build
from meanmax.graph.build import expand, index_dtype, pointer, to_csc, to_csr


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
