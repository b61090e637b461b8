"""No array of [edges, channels]: numpy reports to tracemalloc, and so does the numba backend."""

import tracemalloc

import pytest
import torch

from meanmax import Graph
from meanmax.ops.numba import memory

from .cases import default_form, normal

NODES, EDGES, CHANNELS = 4000, 200_000, 64
ONE_ARRAY = NODES * CHANNELS * 4  # float32, a fiftieth of an array of edges and channels
ALLOWED = 8 + 2  # two of them the output and the gradient of the features
VECTORS = 0.25  # one number per node, one row per block of work


@pytest.fixture(scope="module")
def graph():
    index = torch.randint(NODES, (2, EDGES), generator=torch.Generator().manual_seed(0))
    return Graph.from_edge_index(index, NODES, normalize="sym")


def peak_of(form, graph, x, theta):
    """Bytes beyond inputs and graph, which the first call has prepared, forward and backward."""
    grad = torch.ones(NODES, CHANNELS)
    for measured in (False, True):
        x, theta = x.detach().requires_grad_(), torch.full((CHANNELS,), theta).requires_grad_()
        if measured:
            memory.release()  # else nothing would be allocated
            tracemalloc.start()
        form(x, graph, theta, backend="numba").backward(grad)
        theta = theta[0].item()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("path", ["fast", "exact"])
@default_form
def test_peak(form, graph, path):
    x = normal(NODES, CHANNELS, scale=3.0)
    theta = 2.0 if path == "fast" else {"softmax": 22.0}.get(form.kind, 400.0)
    peak = peak_of(form, graph, x, theta)
    assert 2 * ONE_ARRAY < peak, "tracemalloc does not see the arrays"
    assert peak <= (ALLOWED + VECTORS) * ONE_ARRAY, f"{peak / ONE_ARRAY:.1f} arrays of nodes"
