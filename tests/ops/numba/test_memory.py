"""Memory is used again as soon as nothing refers to it, and never before."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from meanmax.ops.numba import memory

SHAPE = (300, 100)


@pytest.fixture(autouse=True)
def fresh():
    memory.release()
    yield
    memory.release()


def place(array):
    return array.__array_interface__["data"][0]


def test_memory_that_is_free_is_used_again():
    first = memory.empty(SHAPE, np.float32)
    where = place(first)
    del first
    again = memory.empty(SHAPE, np.float32)
    assert place(again) == where and again.shape == SHAPE and again.dtype == np.float32


@pytest.mark.parametrize(
    "hold", [lambda array: array[3:5], torch.from_numpy, lambda array: torch.from_numpy(array)[2:]]
)
def test_memory_in_use_is_left_alone(hold):
    array = memory.empty(SHAPE, np.float32)
    array[...] = 7
    held = hold(array)
    del array
    memory.empty(SHAPE, np.float32)[...] = 0
    assert bool((held == 7).all())


def test_a_much_larger_buffer_is_not_used():
    where = place(memory.empty((3000, 100), np.float32))
    assert place(memory.empty(SHAPE, np.float32)) != where


def test_small_arrays_are_not_kept():
    memory.empty((3, 4), np.float64)
    assert not memory._buffers.kept


def test_a_thread_keeps_a_bounded_amount(monkeypatch):
    monkeypatch.setattr(memory, "LARGEST_TOTAL", 3 * 120_000)
    held = [memory.empty(SHAPE, np.float32) for _ in range(5)]
    assert sum(buffer.size for buffer in memory._buffers.kept) <= 3 * 120_000
    assert len({place(array) for array in held}) == 5
    assert memory.empty((1000, 1000), np.float64).shape == (1000, 1000)


def test_threads_do_not_share_memory():
    own = place(memory.empty(SHAPE, np.float32))
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(lambda: memory.empty(SHAPE, np.float32)).result()
    assert place(other) != own
