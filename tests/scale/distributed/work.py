"""What ranks do in tests, at the top of a module so that new processes find it."""

import torch
from torch.nn.functional import cross_entropy

from meanmax import Graph, SparseFeatures
from meanmax.scale import Cut, Job, distributed_graph
from tests.scale.distributed.graphs import model_for

STEPS = 20


def learned(model, x, graph, y, train, total, job=None, steps=STEPS):
    """Losses, gradients of the first step and parameters at the end of some steps of Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses, first = [], None
    for _ in range(steps):
        optimizer.zero_grad()
        loss = cross_entropy(model(x, graph)[train], y[train], reduction="sum") / total
        loss.backward()
        value = float(loss.detach())
        if job is not None:
            job.share_gradients(list(model.parameters()))
            (value,) = job.total([value])
        losses.append(value)
        if first is None:
            first = {name: p.grad.clone() for name, p in model.named_parameters()}
        optimizer.step()
    last = {name: p.detach().clone() for name, p in model.named_parameters()}
    return losses, first, last


def train_parts(job: Job, graph: Graph, part, x, y, train, cases, sparse=False):
    """The same on a part of the graph, for each (backbone, aggregator, further options)."""
    piece = Cut(graph, part, job.size).piece(job.rank)
    weight = None
    if graph.weight is not None:
        weight = graph.weight[torch.from_numpy(Cut(graph, part, job.size).edges(job.rank))]
    own = torch.from_numpy(piece.nodes)
    mine = torch.isin(own, train).nonzero().view(-1)
    found = {}
    features = SparseFeatures.from_dense(x[own], x.dtype) if sparse else x[own]
    for backbone, aggr, options in cases:
        part_graph = distributed_graph(piece, job, weight)
        model = model_for(backbone, aggr, x, int(y.max()) + 1, **dict(options))
        found[backbone, aggr, options] = learned(
            model, features, part_graph, y[own], mine, len(train), job
        )
    return found


def measure(job: Job, graph: Graph, part, x, backbone, aggr):
    """Maxness of every layer, the halo's traffic, and what the rank holds."""
    piece = Cut(graph, part, job.size).piece(job.rank)
    own = torch.from_numpy(piece.nodes)
    part_graph = distributed_graph(piece, job)
    model = model_for(backbone, aggr, x, 3)
    model(x[own], part_graph)  # prepares the graph
    traffic = part_graph.halo.traffic
    before = (traffic.rows, traffic.bytes)
    model(x[own], part_graph).sum().backward()
    moved = (traffic.rows - before[0], traffic.bytes - before[1])
    local = part_graph.local
    holds = (local.num_dst, local.num_src, local.num_edges)
    return model.maxness(x[own], part_graph), moved, len(piece.send), len(piece.halo), holds


def refused(job: Job, graph: Graph):
    """What is said about what needs the whole graph."""
    from meanmax.nn import CATConv

    part = torch.arange(graph.num_nodes) % job.size
    part_graph = distributed_graph(Cut(graph, part, job.size).piece(job.rank), job)
    x = torch.zeros(part_graph.num_nodes, 4)
    said = []
    for call in (
        lambda: CATConv(4, 2)(x, part_graph, x),
        lambda: model_for("gcn", "lp", x, 3, norm="batch")(x, part_graph),
        lambda: Graph.batch([part_graph]),
    ):
        try:
            call()
            said.append("nothing")
        except ValueError as error:
            said.append(str(error))
    return said


def fails_alone(job: Job, graph: Graph, bad_rank: int):
    """One rank has features that are not numbers; what every rank says about it."""
    part = torch.arange(graph.num_nodes) % job.size
    part_graph = distributed_graph(Cut(graph, part, job.size).piece(job.rank), job)
    x = torch.zeros(part_graph.num_nodes, 4)
    if job.rank == bad_rank:
        x[0, 0] = torch.nan
    try:
        model_for("gcn", "lp", x, 3)(x, part_graph)
    except (ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"
