"""What ranks do in tests, at the top of a module so that new processes find it."""

import torch
from torch.nn.functional import cross_entropy

from meanmax import Graph, NodeClassifier, SparseFeatures
from meanmax.scale import (
    CsrEdges,
    Job,
    distributed_graph,
    fit_parts,
    group_edges,
    group_nodes,
    open_part,
)
from tests.scale.power_law import model_for

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


def rank_part(job: Job, graph: Graph, part):
    """The rank's own nodes, and a function that makes its part of the graph."""
    groups = group_nodes(part, graph.num_nodes, job.size)
    edges = group_edges(CsrEdges.of(graph), groups)
    first, last = groups.pointer[job.rank : job.rank + 2]
    own = torch.from_numpy(groups.order[first:last])
    return own, lambda: distributed_graph(edges, groups.pointer, job)


def train_parts(job: Job, graph: Graph, part, x, y, train, cases, sparse=False):
    """The same on a part of the graph, for each (backbone, aggregator, further options)."""
    own, make_part = rank_part(job, graph, part)
    mine = torch.isin(own, train).nonzero().view(-1)
    found = {}
    features = SparseFeatures.from_dense(x[own], x.dtype) if sparse else x[own]
    for backbone, aggr, options in cases:
        part_graph = make_part()
        model = model_for(backbone, aggr, x, int(y.max()) + 1, **dict(options))
        found[backbone, aggr, options] = learned(
            model, features, part_graph, y[own], mine, len(train), job
        )
    return found


def measure(job: Job, graph: Graph, part, x, backbone, aggr):
    """Maxness of every layer, the halo's traffic, and what the rank holds."""
    own, make_part = rank_part(job, graph, part)
    part_graph = make_part()
    model = model_for(backbone, aggr, x, 3)
    model(x[own], part_graph)  # prepares the graph
    traffic = part_graph.halo.traffic
    before = (traffic.rows, traffic.bytes)
    model(x[own], part_graph).sum().backward()
    moved = (traffic.rows - before[0], traffic.bytes - before[1])
    local = part_graph.local
    holds = (local.num_dst, local.num_src, local.num_edges)
    halo = part_graph.halo
    return model.maxness(x[own], part_graph), moved, len(halo.send), halo.num_received, holds


def refused(job: Job, graph: Graph):
    """What is said about what needs the whole graph."""
    from meanmax.nn import CATConv

    part = torch.arange(graph.num_nodes) % job.size
    part_graph = rank_part(job, graph, part)[1]()
    x = torch.zeros(part_graph.num_nodes, 4)
    said = []
    for call in (
        lambda: CATConv(4, 2)(x, part_graph, structure=x),
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
    part_graph = rank_part(job, graph, part)[1]()
    x = torch.zeros(part_graph.num_nodes, 4)
    if job.rank == bad_rank:
        x[0, 0] = torch.nan
    try:
        model_for("gcn", "lp", x, 3)(x, part_graph)
    except (ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def read_part(job: Job, folder):
    """What a rank reads of a partition."""
    part = open_part(folder, job)
    local = part.graph.local
    sent = part.graph.halo.send
    return part.x, part.y, part.split, local.rowptr, local.col, sent


def score_part(job: Job, folder):
    """The refusals of options that need all nodes in one process, and validation scores."""
    part, refused, scored = open_part(folder, job), {}, {}
    for name, value in (("metric", "roc_auc"), ("class_weight", "balanced")):
        try:
            fit_parts(NodeClassifier(epochs=1, **{name: value}), part, job)
        except ValueError as error:
            refused[name] = str(error)
    for metric in (None, "accuracy"):
        model = NodeClassifier(epochs=3, metric=metric)
        fit_parts(model, part, job)
        scored[metric] = model.history_.val_score
    return refused, scored


def exchanged(job: Job, graph: Graph, part):
    """Own nodes, and the numbers of the nodes that the rows after them come from."""
    own, make_part = rank_part(job, graph, part)
    part_graph = make_part()
    edges = part_graph.local.edge_index
    return own, part_graph.sources(own.float()).long(), edges


def said_of(job: Job, folder):
    """What a rank says about a folder that it cannot use."""
    try:
        open_part(folder, job)
    except ValueError as error:
        return str(error)
    return "nothing"
