r"""A task with a known answer: is a source near, on graphs denser than those of training."""

from __future__ import annotations

import numpy as np
import scipy.sparse
import torch

from meanmax.data.benchmarks.options import check_bounds, read_options
from meanmax.data.dataset import Dataset, Split
from meanmax.data.files import DataError
from meanmax.data.matrices import undirected

LEAST, MOST = 0.4, 0.6


def reach(
    hops: int = 2,
    degree: int = 8,
    test_degree: int = 64,
    *,
    graphs: int = 20,
    nodes: int = 1000,
    seed: int = 0,
) -> Dataset:
    r"""Draws undirected graphs and marks some nodes as sources. A node is positive if a source is
    at most :obj:`hops` edges away; a source itself is.

    The nodes of a graph stand on a circle in random order. Each is joined to each of the
    :math:`d` next ones on either side with probability 1/2, so that the mean degree is :math:`d`
    and a ball of so many hops stays smaller than the graph. Graphs to train and to validate have
    the mean degree :obj:`degree`; graphs to test, :obj:`test_degree`. Denser graphs have fewer
    sources: in every graph, 40 to 60 % of the nodes are positive. So a model that has learned how
    many of the neighbours are near a source, rather than whether one is, fails in the test. As
    many layers as hops that take the maximum over a node and its neighbours are exact.

    The features are 1 for a source, else 0, and a constant 1. Of the graphs, 60, 20 and 20 % are
    to train, to validate and to test.

    Args:
        hops (int): The largest distance. (default: 2)
        degree (int): The mean degree in training and validation graphs. (default: 8)
        test_degree (int): The mean degree in test graphs. (default: 64)
        graphs (int): The number of graphs. (default: 20)
        nodes (int): The number of nodes of each graph. (default: 1000)
        seed (int): The seed. (default: 0)
    """
    least = max(20, 2 * max(degree, test_degree) + 2)
    bounds = {
        "hops": (hops, 1, 100),
        "degree": (degree, 2, 10_000),
        "test_degree": (test_degree, 2, 10_000),
        "graphs": (graphs, 3, 100_000),
        "nodes": (nodes, least, 1_000_000),
        "seed": (seed, 0, 2**63),
    }
    check_bounds("reach", bounds, nodes="the neighbours of a node are distinct")
    held = max(1, graphs // 5)
    part = np.repeat([0, 1, 2], [graphs - 2 * held, held, held])
    random = np.random.default_rng(seed)
    drawn = [_draw_graph(random, nodes, test_degree if p == 2 else degree, hops) for p in part]
    ends = np.concatenate([ends + k * nodes for k, (ends, *_) in enumerate(drawn)], axis=1)
    marked, positive = (np.concatenate(columns) for columns in list(zip(*drawn, strict=True))[1:])
    of_node = torch.from_numpy(part.repeat(nodes))
    train, val, test = (torch.nonzero(of_node == number)[:, 0] for number in range(3))
    return Dataset(
        f"reach:hops={hops},degree={degree},test_degree={test_degree},graphs={graphs},"
        f"nodes={nodes},seed={seed}",
        torch.from_numpy(np.stack([marked, np.ones_like(marked)], axis=1).astype(np.float32)),
        torch.from_numpy(positive.astype(np.int64)),
        undirected(ends[0], ends[1], graphs * nodes),
        class_names=("far", "near"),
        graph_ptr=torch.arange(graphs + 1) * nodes,
        split=Split(train, val, test, f"mean degree {degree}, tested at {test_degree}"),
        feature_names=("source", "constant"),
        notes=(
            "Drawn by meanmax.data.benchmarks.reach.",
            f"Near: a source is at most {hops} hops away; {100 * LEAST:.0f} to {100 * MOST:.0f} % "
            "of each graph are.",
        ),
    )


def reach_from_options(options: str) -> Dataset:
    r"""Draws a task from text such as :obj:`hops=1,graphs=10,seed=1`."""
    names = ("hops", "degree", "test_degree", "graphs", "nodes", "seed")
    return reach(**read_options("reach", options, dict.fromkeys(names, int)))


def _draw_graph(
    random: np.random.Generator, nodes: int, degree: int, hops: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both ends of the edges, which nodes are sources, and which are near one."""
    place = random.permutation(nodes)
    first, step = np.nonzero(random.random((nodes, degree)) < 0.5)
    source, target = place[first], place[(first + step + 1) % nodes]
    half = scipy.sparse.csr_array((np.ones(source.size), (source, target)), shape=(nodes, nodes))
    links = half + half.T
    marked, positive = np.zeros(nodes, bool), np.zeros(nodes, bool)
    count = 0
    for node in random.permutation(nodes):
        ball = np.array([node])
        for _ in range(hops):
            ball = np.union1d(ball, links[ball].indices)
        new = ball[~positive[ball]]
        if count + new.size <= MOST * nodes:  # otherwise another node may fit
            marked[node] = positive[new] = True
            count += new.size
        if count >= LEAST * nodes:
            return np.stack([source, target]), marked, positive
    raise DataError(
        f"'nodes' of 'reach' is too small: with mean degree {degree}, no sources have {LEAST:.0%} "
        f"to {MOST:.0%} of {nodes:,} nodes within {hops} hops; draw more nodes, or fewer hops"
    )
