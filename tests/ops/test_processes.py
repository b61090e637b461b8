"""Threads, forks and repetition: the same numbers every time, bit for bit."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest
import torch

from meanmax import Graph

from .cases import DEFAULT_FORMS, DTYPES, fast_backend, messy_edges, normal, run

EDGES = messy_edges(2000, 20000)
FORKED = """
import os, torch, meanmax
graph = meanmax.Graph.from_edge_index(torch.randint(50, (2, 400)), 50)
x, theta = torch.randn(50, 4), 2.0
want = [f(x, graph, theta) for f in
        (meanmax.functional.lp, meanmax.functional.polynomial, meanmax.functional.softmax)]
child = os.fork()
if child == 0:
    code = 1
    try:
        leaf = x.clone().requires_grad_()
        got = meanmax.functional.softmax(leaf, graph, theta)
        got.sum().backward()
        same = torch.allclose(got, want[2], atol=1e-6)
        code = 0 if same and bool(torch.isfinite(leaf.grad).all()) else 2
    finally:
        os._exit(code)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert torch.equal(meanmax.functional.lp(x, graph, theta), want[0])
"""


def everything(backend):
    """Outputs and gradients of all default forms, fast rows and exact ones."""
    graph = Graph.from_edge_index(EDGES, 2000)  # anew, as a graph keeps how its work is cut
    results = []
    for form in DEFAULT_FORMS:
        for theta, scale, dtype in product((2.0, 60.0), (1.0, 3.0), DTYPES):
            x, weight = scale * normal(2000, 8).to(dtype), torch.ones(graph.num_edges)
            got = run(form, x, graph, theta, backend, edge_weight=weight)
            results += [got.out, *got.grads.values()]
    return results


def assert_same(first, second):
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@fast_backend
def test_repeats_bit_for_bit(backend):
    assert_same(everything(backend), everything(backend))


def test_number_of_threads_does_not_matter():
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(everything("numba"))
    finally:
        torch.set_num_threads(before)
    assert_same(results[0], results[1])
    assert_same(results[0], results[2])


@fast_backend
def test_calls_from_several_threads(backend):
    want = everything(backend)
    with ThreadPoolExecutor(3) as pool:
        for got in pool.map(lambda _: everything(backend), range(3)):
            assert_same(got, want)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_forked_child_of_a_process_that_has_computed():
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", FORKED], env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
