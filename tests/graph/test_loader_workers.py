"""Workers of PyTorch's DataLoader build batches of graphs."""

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from meanmax import Graph, SoftmaxAggregation, kernel_cache


class Made(Dataset):
    """Random graphs of twenty nodes."""

    def __len__(self):
        return 16

    def __getitem__(self, number):
        random = torch.Generator().manual_seed(number)
        edges = torch.randint(20, (2, 60), generator=random)
        return Graph.from_edge_index(edges, 20), torch.randn(20, 8, generator=random)


def collate(items):
    """The batch, and what an aggregator gives on it."""
    graphs, features = zip(*items, strict=True)
    graph, x = Graph.batch(graphs), torch.cat(features)
    with torch.no_grad():
        return graph, SoftmaxAggregation()(x, graph)


def refuse_to_compile(worker):
    """What one process has compiled, its workers load."""

    def announce():
        raise AssertionError("a worker compiles")

    kernel_cache.announce = announce


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.long)])
def test_workers_give_what_one_process_gives_and_compile_nothing(start):
    here = list(DataLoader(Made(), batch_size=4, collate_fn=collate))
    workers = {"num_workers": 2, "multiprocessing_context": start}
    workers["worker_init_fn"] = refuse_to_compile
    there = list(DataLoader(Made(), batch_size=4, collate_fn=collate, **workers))
    assert len(here) == len(there) == 4
    for (graph, out), (sent, made) in zip(here, there, strict=True):
        assert torch.equal(graph.rowptr, sent.rowptr) and torch.equal(graph.col, sent.col)
        assert torch.equal(out, made) and sent.num_graphs == 4
