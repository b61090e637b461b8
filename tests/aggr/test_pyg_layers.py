"""Inside PyG's layers: each equals its messages, aggregated by the naive formula."""

import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.nn import GATConv, GCNConv, GINConv, PNAConv, SAGEConv
from torch_geometric.nn.aggr import MultiAggregation
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from meanmax import LpAggregation, SoftmaxAggregation

from .naive import CLASSES, assert_close, every_kind, groups, naive, normal

NODES, THETA = 10, 1.5
# A mean of normalised messages is what some of these tests compute on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.* is a mean, but PyG's:UserWarning")


def edges():
    return torch.stack([groups(40, NODES, seed=1), groups(40, NODES, seed=2)])


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@every_kind
@pytest.mark.parametrize("form", ["unsorted", "sorted", "EdgeIndex", "unsorted EdgeIndex"])
def test_sage(kind, form):
    edge_index = edges()
    if form in ("sorted", "EdgeIndex"):
        edge_index = edge_index[:, edge_index[1].argsort(stable=True)]
    src, dst = edge_index
    if form.endswith("EdgeIndex"):
        order = "col" if form == "EdgeIndex" else None
        edge_index = EdgeIndex(edge_index, sparse_size=(NODES, NODES), sort_order=order)
    conv, x = SAGEConv(4, 3, aggr=CLASSES[kind](THETA)), normal(NODES, 4)
    neighbours = naive(kind, x[src], dst, NODES, THETA).float()
    assert_close(conv(x, edge_index), conv.lin_l(neighbours) + conv.lin_r(x))


@every_kind
def test_sage_on_a_bipartite_graph(kind):
    src, dst = groups(40, NODES, seed=1), groups(40, 6, seed=2)
    conv, x = SAGEConv(4, 3, aggr=CLASSES[kind](THETA)), (normal(NODES, 4), normal(6, 4, seed=1))
    neighbours = naive(kind, x[0][src], dst, 6, THETA).float()
    out = conv(x, torch.stack([src, dst]))
    assert_close(out, conv.lin_l(neighbours) + conv.lin_r(x[1]))


@every_kind
def test_gcn_sends_messages_that_carry_their_weight(kind):
    conv, x = GCNConv(4, 3, aggr=CLASSES[kind](THETA)), normal(NODES, 4)
    (src, dst), weight = gcn_norm(edges(), num_nodes=NODES)
    messages = weight.view(-1, 1) * conv.lin(x)[src]
    assert_close(conv(x, edges()), naive(kind, messages, dst, NODES, THETA) + conv.bias)


@every_kind
def test_gin(kind):
    conv = GINConv(torch.nn.Linear(4, 3), eps=0.3, aggr=CLASSES[kind](THETA))
    (src, dst), x = edges(), normal(NODES, 4)
    neighbours = naive(kind, x[src], dst, NODES, THETA).float()
    assert_close(conv(x, edges()), conv.nn(1.3 * x + neighbours))


@every_kind
def test_gat_with_a_parameter_per_head(kind):
    start = torch.tensor([1.0, 1.5])
    conv = GATConv(4, 3, heads=2, aggr=CLASSES[kind](start, per="head", heads=2))
    x = normal(NODES, 4)
    out, ((src, dst), alpha) = conv(x, edges(), return_attention_weights=True)
    messages = alpha.unsqueeze(-1) * conv.lin(x).view(NODES, 2, 3)[src]
    want = naive(kind, messages, dst, NODES, start.view(2, 1))
    assert_close(out, want.view(NODES, 6) + conv.bias)
    out.sum().backward()
    assert conv.aggr_module.raw.grad.abs().min() > 0


@every_kind
def test_pna_takes_instances_in_its_list(kind):
    aggr = CLASSES[kind]([1.0, 2.0], per="head", heads=2)
    degrees = torch.bincount(torch.bincount(edges()[1]))
    conv = PNAConv(4, 6, [aggr, "max"], ["identity"], degrees, towers=2)
    (src, dst), x = edges(), normal(NODES, 4)
    towers = x.view(NODES, 1, 4).repeat(1, 2, 1)
    messages = conv.message(towers[dst], towers[src], None)  # [edges, towers, 4]
    lp = naive(kind, messages, dst, NODES, aggr.raw.view(2, 1)).float()
    top = [messages[dst == v].amax(0) if (dst == v).any() else 0 * lp[0] for v in range(NODES)]
    joined = torch.cat([towers, lp, torch.stack(top)], dim=-1)
    parts = [net(joined[:, tower]) for tower, net in enumerate(conv.post_nns)]
    assert_close(conv(x, edges()), conv.lin(torch.cat(parts, dim=1)))


@pytest.mark.parametrize("mode", ["cat", "sum", "proj"])
def test_multi_aggregation(mode):
    sizes = {"in_channels": 3, "out_channels": 5} if mode == "proj" else None
    both = MultiAggregation([LpAggregation(), SoftmaxAggregation(), "mean"], mode=mode,
                            mode_kwargs=sizes)  # fmt: skip
    x, index = normal(20, 3), groups(20, 5)
    lp, softmax = naive("lp", x, index, 5, 2.0), naive("softmax", x, index, 5, 1.0)
    parts = [part.float() for part in (lp, softmax, naive("softmax", x, index, 5, 0.0))]
    joined = torch.cat(parts, dim=-1)
    want = {"cat": lambda: joined, "sum": lambda: sum(parts), "proj": lambda: both.lin(joined)}
    assert_close(both(x, index, dim_size=5), want[mode]())


def test_a_list_of_aggregators_in_a_layer_trains_each():
    conv = SAGEConv(4, 3, aggr=[LpAggregation(), SoftmaxAggregation(), "max"])
    conv(normal(NODES, 4), edges()).square().sum().backward()
    learned = {name: p.grad for name, p in conv.named_parameters() if name.endswith("raw")}
    assert len(learned) == 2 and all(float(grad.abs()) > 0 for grad in learned.values())


@every_kind
def test_a_layer_resets_its_aggregator(kind):
    conv = SAGEConv(4, 3, aggr=CLASSES[kind](THETA))
    with torch.no_grad():
        conv.aggr_module.raw.fill_(5.0)
    conv.reset_parameters()
    assert conv.aggr_module.value.item() == THETA
