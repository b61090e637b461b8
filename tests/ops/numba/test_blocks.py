import gc
import weakref

import numpy as np
import pytest
import torch

from meanmax import Graph, LpAggregation
from meanmax.ops.numba.backend import sort_columns
from meanmax.ops.numba.blocks import (
    LEAST_COST,
    NUM_BLOCKS,
    blocks_of,
    blocks_of_graph,
    sum_parts,
)
from meanmax.ops.numba.launch import kernel
from meanmax.ops.scaling import sample_nodes


@kernel()
def sort_in_kernel(b, blocks, values):
    sort_columns(values)


def random_graph(nodes=200, edges=900, graphs=5):
    draw = torch.Generator().manual_seed(0)
    batch = torch.randint(graphs, (nodes,), generator=draw).sort().values
    src, dst = torch.randint(nodes, (2, edges), generator=draw)
    same = batch[src] == batch[dst]
    return Graph.from_edge_index(torch.stack([src[same], dst[same]]), nodes, batch=batch)


@pytest.mark.parametrize("bounds", [[0, 400], [0, 0, 100, 100, 399, 400, 400]])
@pytest.mark.parametrize("number", [1, 7, 64, 1000])
def test_blocks_are_cut_at_equal_cost_and_between_graphs(bounds, number):
    degree = np.random.default_rng(0).integers(0, 9, 400)
    pointer, ends = np.append(0, degree.cumsum()).astype(np.int32), np.array(bounds)
    cost = pointer + 4 * np.arange(401)
    goals = np.linspace(0, cost[-1], number + 1)[1:-1]
    cuts = np.unique(np.concatenate([ends, np.searchsorted(cost, goals)]))
    blocks = blocks_of(pointer, ends, number, row_cost=4)
    assert blocks[:, 0].tolist() == cuts[:-1].tolist()
    assert blocks[:, 1].tolist() == cuts[1:].tolist()
    assert blocks[:, 2].tolist() == (np.searchsorted(ends, cuts[:-1], side="right") - 1).tolist()


def test_little_work_is_one_block():
    bounds = np.array([0, 1])
    assert len(blocks_of(np.array([0, 0]), np.array([0, 0, 0]))) == 0
    assert blocks_of(np.array([0, 3]), bounds).tolist() == [[0, 1, 0]]
    rows = np.arange(2 * LEAST_COST + 1)
    assert len(blocks_of(rows, np.array([0, 2 * LEAST_COST]))) == 2
    rows = np.arange(1000 * LEAST_COST + 1)
    assert len(blocks_of(rows, np.array([0, 1000 * LEAST_COST]))) == NUM_BLOCKS


@pytest.mark.parametrize("graphs", [1, 5, 100])
def test_sample_and_first_block_of_each_graph(graphs):
    graph = random_graph(nodes=3000, graphs=graphs)
    blocks = blocks_of_graph(graph)
    assert blocks.sample.tolist() == sample_nodes(graph.src_ptr).tolist()
    first = np.searchsorted(blocks.node_blocks[:, 2], np.arange(graph.num_graphs + 1))
    assert blocks.block_ptr.tolist() == first.tolist()


def test_no_weights_are_weights_of_one():
    graph = random_graph()
    ones = blocks_of_graph(graph.with_weight(torch.ones(graph.num_edges)))
    none, given = (blocks.weights(None, torch.float32) for blocks in (blocks_of_graph(graph), ones))
    for own, other in zip(none.sums, given.sums, strict=True):
        assert np.array_equal(own, other)
    assert np.array_equal(none.transposed, given.transposed)


@pytest.mark.parametrize("rows", [[3], [0, 7, 150], list(range(200))])
def test_sources_of_rows_are_covered(rows):
    graph = random_graph()
    blocks = blocks_of_graph(graph)
    wanted = {int(u) for v in rows for u in graph.col[graph.rowptr[v] : graph.rowptr[v + 1]]}
    covered = set()
    for first, last, owner in blocks.sources_of(np.array(rows)):
        covered |= set(range(first, last))
        assert graph.src_ptr[owner] <= first < last <= graph.src_ptr[owner + 1]
    assert wanted <= covered
    assert len(rows) > 100 or wanted == covered


def test_parts_are_summed_times_their_graphs_factor():
    draw = np.random.default_rng(0)
    parts, table = draw.normal(size=(6, 4)), draw.normal(size=(3, 2, 4)).astype(np.float32)
    blocks = np.array([[0, 1, g] for g in (0, 0, 1, 2, 2, 2)])
    factor = table[blocks[:, 2], 1].astype(np.float64)
    for power in (1, 2):
        expected = (parts * factor**power).sum(axis=0)
        np.testing.assert_allclose(sum_parts(parts, blocks, table, 1, power), expected, rtol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 8, 32])
def test_columns_are_sorted(size):
    values = np.random.default_rng(0).integers(-9, 9, (size, 17)).astype(np.float32)
    expected = np.sort(values, axis=0)
    sort_in_kernel(np.arange(1), values)
    assert np.array_equal(values, expected)


def test_graph_is_freed_at_once():
    graph, x = random_graph(), torch.ones(200, 3, requires_grad=True)
    LpAggregation()(x, graph).sum().backward()
    gone = weakref.ref(graph)
    gc.disable()
    try:
        del graph
        assert gone() is None
    finally:
        gc.enable()
