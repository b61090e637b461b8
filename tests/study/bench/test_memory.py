import sys

import pytest

from meanmax.study.bench.competitors import FORWARD, TRAIN
from meanmax.study.bench.graphs import GraphSource
from meanmax.study.bench.memory import peak_memory

NODES, EDGES, CHANNELS = 10_000, 200_000, 64


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc/self/clear_refs")
def test_messages_of_pyg_are_seen_and_ours_have_none():
    source = GraphSource("power-law", NODES, EDGES)
    names = ["linear-torch", "lp-numba", "pyg-sum"]
    peaks = peak_memory(source, CHANNELS, "float32", 2, 0, names)
    if peaks is None:
        pytest.skip("the system does not let a process reset its high-water mark")
    one_array, messages = 4 * NODES * CHANNELS, 4 * EDGES * CHANNELS
    assert list(peaks) == names
    assert messages < peaks["pyg-sum"][FORWARD] < 3 * messages
    assert messages < peaks["pyg-sum"][TRAIN]
    assert one_array < peaks["lp-numba"][TRAIN] < messages
    assert 1.5 * one_array < peaks["linear-torch"][TRAIN] < messages
