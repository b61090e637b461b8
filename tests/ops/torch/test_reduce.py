import pytest
import torch

from meanmax import Graph
from meanmax.ops.torch.reduce import chunk_rows, head_of_channel

from ..cases import messy_edges


@pytest.mark.parametrize("budget", [1, 7, 40, 10_000])
@pytest.mark.parametrize("channels", [1, 5])
def test_every_edge_and_channel_once(channels, budget):
    graph = Graph.from_edge_index(messy_edges(), 30)
    rows = torch.arange(0, 30, 2)
    seen = torch.zeros(graph.num_edges, channels)
    degree = graph.rowptr.diff()
    for chunk in chunk_rows(graph, rows, channels, budget):
        seen[chunk.edges, chunk.channels] += 1
        targets = torch.arange(30).repeat_interleave(degree)[chunk.edges]
        assert torch.equal(chunk.rows[chunk.target], targets)
        width = chunk.channels.stop - chunk.channels.start
        longest = int(degree[chunk.rows].max())
        assert len(chunk.edges) * width <= max(2 * budget, budget + longest * channels, longest)
    chosen = torch.isin(torch.arange(30).repeat_interleave(degree), rows)
    assert (seen[chosen] == 1).all() and (seen[~chosen] == 0).all()


def test_heads_of_channels():
    assert head_of_channel(6, 3, torch.device("cpu")).tolist() == [0, 0, 1, 1, 2, 2]
    assert head_of_channel(3, 1, torch.device("cpu")).tolist() == [0, 0, 0]
