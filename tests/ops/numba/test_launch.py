"""Kernels on threads: PyTorch's, or a pool of Python threads where those cannot be used."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from numba.core.codegen import JITCPUCodegen

from meanmax import kernel_cache
from meanmax.ops.numba import launch
from meanmax.ops.numba.launch import Kernel, kernel

SIZE = launch.SMALL_WORK
BLOCKS = np.arange(64)
IN_FRESH_PROCESS = """
import numba, torch, meanmax
torch.set_num_threads(2)
graph = meanmax.Graph.from_edge_index(torch.randint(3000, (2, 40000)), 3000)
x = torch.randn(3000, 64, requires_grad=True)
meanmax.functional.softmax(x, graph, 2.0).sum().backward()
try:
    print(numba.threading_layer())
except ValueError:
    print("none")
"""
FORKED = """
import os, torch, meanmax
torch.set_num_threads(2)
graph = meanmax.Graph.from_edge_index(torch.randint(3000, (2, 40000)), 3000)
x = torch.randn(3000, 64)
want = meanmax.functional.softmax(x, graph, 2.0)
child = os.fork()
if child == 0:
    code = 1
    try:
        got = meanmax.functional.softmax(x, graph, 2.0)
        code = 0 if (got.numpy() == want.numpy()).all() else 2  # PyTorch's own threads are gone
    finally:
        os._exit(code)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert torch.equal(meanmax.functional.softmax(x, graph, 2.0), want)
"""


@kernel()
def add_number(b, blocks, x, out):
    share = x.shape[0] // blocks.shape[0]
    for i in range(b * share, (b + 1) * share):
        out[i] += x[i] + blocks[b]


@kernel()
def too_much_memory(b, blocks, x):
    if b == 3:
        room = np.empty(1 << 58)
        x[0] = room[0]


def test_only_the_optimised_code_of_a_kernel_is_loaded(monkeypatch):
    """Unoptimised helpers would be called in the process that compiles: three times as slow."""
    loaded = []
    add_module = JITCPUCodegen._add_module
    monkeypatch.setenv(kernel_cache.VARIABLE, os.devnull)  # nothing is loaded from disk
    monkeypatch.setattr(
        JITCPUCodegen,
        "_add_module",
        lambda codegen, module: loaded.append(str(module)) or add_module(codegen, module),
    )

    @launch.reordered_subroutine
    def helper(x, i):
        return x[i] + 1.0

    @kernel()
    def with_helper(b, blocks, x):
        x[b] = helper(x, b)

    x = np.zeros(4)
    with_helper(np.arange(4), x)
    assert x.tolist() == [1.0] * 4
    assert len([module for module in loaded if "helper" in module]) == 1


@pytest.fixture(params=["openmp", "pool", "one thread"])
def threads(request, monkeypatch):
    """The ways to run a kernel; each is asked for by PyTorch's number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 if request.param == "one thread" else 3)
    if request.param == "openmp" and launch._openmp is None:
        pytest.skip("PyTorch has no OpenMP runtime with GOMP_parallel here")
    if request.param == "pool":
        monkeypatch.setattr(launch, "_openmp", None)
    yield request.param
    torch.set_num_threads(before)


def run_once():
    x, out = np.arange(SIZE, dtype=np.float64), np.zeros(SIZE)
    add_number(BLOCKS, x, out)
    return out


def test_every_block_runs_once(threads):
    assert np.array_equal(run_once(), np.arange(SIZE) + np.repeat(BLOCKS, SIZE // len(BLOCKS)))


def test_calls_at_the_same_time(threads):
    want = run_once()
    with ThreadPoolExecutor(4) as pool:
        for got in pool.map(lambda _: run_once(), range(40)):
            assert np.array_equal(got, want)


def test_a_failing_block_is_reported(threads):
    with pytest.raises(MemoryError, match="not enough memory for the kernel 'too_much_memory'"):
        too_much_memory(BLOCKS, np.zeros(SIZE))


def test_no_blocks():
    x = np.zeros(SIZE)
    add_number(BLOCKS[:0], x, x)
    assert not x.any()


def test_compiles_where_the_clock_has_no_number(monkeypatch):
    """As on Windows, where kernels run on one thread or on the pool."""
    monkeypatch.delattr(launch.time, "CLOCK_MONOTONIC")
    monkeypatch.setattr(launch, "_openmp", None)
    monkeypatch.setattr(kernel_cache, "folders", lambda: iter(()))  # compile, whatever is stored
    x = np.zeros(4)
    kernel()(lambda b, blocks, x: x.fill(b + 7))(BLOCKS[:1], x)
    assert (x == 7).all()


def test_repr_names_the_function():
    assert repr(Kernel(lambda b, blocks: None)) == "Kernel(lambda)"
    assert repr(add_number) == "Kernel(add_number)"


def run_script(script):
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_numba_starts_no_threads():
    assert run_script(IN_FRESH_PROCESS).strip() == "none"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_several_threads_after_a_fork():
    run_script(FORKED)
