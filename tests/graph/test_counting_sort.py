import numpy as np
import pytest

from meanmax.graph import counting_sort


def drawn(seed, size, groups, dtype):
    return np.random.default_rng(seed).integers(0, groups, size).astype(dtype)


@pytest.mark.parametrize("size", [0, 1, 50])
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_edges_are_grouped_as_a_stable_sort_does(size, ordered, dtype):
    src, dst = drawn(0, size, 9, dtype), drawn(1, size, 7, dtype)
    if ordered:
        dst.sort()
    rowptr, col, perm = np.empty(8, np.int32), *np.empty((2, size), np.int32)
    found = counting_sort.group_edges(src, dst, 9, 7, rowptr, col, perm)
    order = np.argsort(dst, kind="stable")
    assert found == int(size > 1 and not ordered)
    assert rowptr.tolist() == np.searchsorted(dst[order], np.arange(8)).tolist()
    assert col.tolist() == src[order].tolist()
    assert not found or perm.tolist() == order.tolist()

    colptr, row, back = np.empty(10, np.int32), *np.empty((2, size), np.int32)
    counting_sort.transpose(rowptr, col, colptr, row, back)
    by_source = np.argsort(col, kind="stable")
    assert colptr.tolist() == np.searchsorted(col[by_source], np.arange(10)).tolist()
    assert back.tolist() == by_source.tolist()
    assert row.tolist() == dst[order][by_source].tolist()


@pytest.mark.parametrize("size", [0, 1, 50])
@pytest.mark.parametrize("ordered", [True, False])
def test_messages_are_grouped_as_a_stable_sort_does(size, ordered):
    group = drawn(2, size, 6, np.int64)
    if ordered:
        group.sort()
    rowptr, (perm, inverse, row) = np.empty(7, np.int32), np.empty((3, size), np.int32)
    found = counting_sort.group_messages(group, 6, rowptr, perm, inverse, row)
    order = np.argsort(group, kind="stable")
    assert found == int(size > 1 and not ordered)
    assert rowptr.tolist() == np.searchsorted(group[order], np.arange(7)).tolist()
    assert row.tolist() == group.tolist()
    assert not found or perm.tolist() == order.tolist()
    assert not found or inverse[order].tolist() == list(range(size))


@pytest.mark.parametrize(
    "bad", [[[0, -1], [0, 0]], [[0, 3], [0, 0]], [[0, 0], [-1, 0]], [[0, 0], [0, 2]]]
)
def test_what_is_no_node_is_noticed(bad):
    src, dst = np.array(bad)
    rowptr, col, perm = np.zeros(3, np.int32), *np.zeros((2, 2), np.int32)
    assert counting_sort.group_edges(src, dst, 3, 2, rowptr, col, perm) == -1
    if bad[0] == [0, 0]:
        assert counting_sort.group_messages(dst, 2, rowptr, col, perm, perm) == -1


def test_edges_between_graphs_are_noticed():
    rowptr, ptr = np.array([0, 2, 3, 4], np.int32), np.array([0, 2, 2, 3])
    assert counting_sort.stays_within(rowptr, np.array([0, 1, 1, 2], np.int32), ptr, ptr)
    assert not counting_sort.stays_within(rowptr, np.array([0, 2, 1, 2], np.int32), ptr, ptr)
    assert not counting_sort.stays_within(rowptr, np.array([0, 1, 1, 1], np.int32), ptr, ptr)
