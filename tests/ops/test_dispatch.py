"""Which backend computes."""

import os
import subprocess
import sys

import pytest
import torch

import meanmax
from meanmax import Graph, functional
from meanmax.ops import dispatch
from meanmax.ops.numba import backend as numba_backend
from meanmax.ops.torch import backend as torch_backend

from .cases import messy_edges, normal

GRAPH = Graph.from_edge_index(messy_edges(), 30)
WITHOUT_NUMBA = """
import sys, warnings
sys.modules["numba"] = None
warnings.simplefilter("ignore")
import torch, meanmax
graph = meanmax.Graph.from_edge_index([[0, 1, 2], [3, 3, 3]], 4)
x = torch.tensor([[0.0], [1.0], [2.0], [0.0]])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    outs = [meanmax.functional.softmax(x, graph, 1.0) for _ in range(3)]
    largest = meanmax.functional.max(x, graph)
messages = [str(w.message) for w in caught if "numba" in str(w.message)]
assert len(messages) == 1 and "slower torch backend" in messages[0], messages
assert abs(outs[2][3].item() - 1.5752104) < 1e-5 and largest[3].item() == 2
try:
    meanmax.functional.softmax(x, graph, 1.0, backend="numba")
except ValueError as error:
    assert "needs numba" in str(error) and "backend='torch'" in str(error)
else:
    raise AssertionError("numba was asked for and is not there")
"""


@pytest.fixture(autouse=True)
def nothing_resolved(monkeypatch):
    """As in a new process: neither the variable nor a backend has been looked up."""
    monkeypatch.setattr(dispatch, "_ready", {})
    dispatch._default.cache_clear()
    yield
    dispatch._default.cache_clear()


@pytest.fixture
def used(monkeypatch):
    """The names of the backends whose forward pass runs."""
    names = []
    for name, module in (("numba", numba_backend), ("torch", torch_backend)):

        def forward(*args, name=name, original=module.forward):
            names.append(name)
            return original(*args)

        monkeypatch.setattr(module, "forward", forward)
    monkeypatch.delenv("MEANMAX_BACKEND", raising=False)
    return names


def call(backend=None):
    return functional.softmax(normal(30, 4), GRAPH, 2.0, backend=backend)


def test_numba_serves_the_cpu(used):
    call()
    call("auto")
    call("torch")
    call("reference")
    assert used == ["numba", "numba", "torch"]


def test_innermost_block_wins(used):
    with meanmax.use_backend("torch"):
        call()
        with meanmax.use_backend("numba"):
            call()
        with pytest.raises(KeyError), meanmax.use_backend("reference"):
            call()
            raise KeyError
        call()
        call("numba")
    call()
    assert used == ["torch", "numba", "torch", "numba", "numba"]


def test_environment(used, monkeypatch):
    monkeypatch.setenv("MEANMAX_BACKEND", "torch")
    call()
    with meanmax.use_backend("numba"):
        call()
    call("numba")
    monkeypatch.setenv("MEANMAX_BACKEND", "numba")  # read once: too late
    call()
    assert used == ["torch", "numba", "numba", "torch"]
    monkeypatch.setenv("MEANMAX_BACKEND", "fast")
    dispatch._default.cache_clear()
    with pytest.raises(ValueError, match=r"'backend' must be one of .*\(got 'fast'\)"):
        call()


def test_one_block_serves_several_times(used):
    block = meanmax.use_backend("torch")
    for _ in range(2):
        with block:
            call()
    with block, block:
        call()
    call()
    assert used == ["torch"] * 3 + ["numba"]


def test_without_numba():
    env = {key: value for key, value in os.environ.items() if key != "MEANMAX_BACKEND"}
    env["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMBA], env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr


def test_numba_that_fails_to_import(monkeypatch):
    monkeypatch.setattr(dispatch, "numba_error", lambda: "no LLVM here")
    x = normal(30, 4)
    assert torch.equal(call(), functional.softmax(x, GRAPH, 2.0, backend="torch"))
    with pytest.raises(ValueError, match=r"backend='numba' needs numba.*no LLVM here"):
        call("numba")


def test_devices_must_agree():
    x = torch.ones(30, 4, device="meta")
    with pytest.raises(ValueError, match="'x' and 'graph' must be on one device"):
        functional.sum(torch.ones(30, 4), GRAPH.to("meta"))
    with pytest.raises(ValueError, match="one device"):
        dispatch.select_backend(x, GRAPH)
