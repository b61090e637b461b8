"""A layer of your own: attention weights for the edges of a Graph, and a learned softmax over them.

python examples/own_layer.py --epochs 60
"""

import argparse

import torch
from torch import nn
from torch_geometric.utils import softmax

from meanmax import SoftmaxAggregation
from meanmax.data import load, make_split

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=60)
given = parser.parse_args()


class AttentionLayer(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels)
        self.source, self.target = nn.Linear(out_channels, 1), nn.Linear(out_channels, 1)
        self.aggr = SoftmaxAggregation(0.1, form="sum")  # the sum of neighbours at gamma = 0

    def forward(self, x, graph):
        h = self.lin(x)
        source, target = graph.edge_index
        score = self.source(h)[source, 0] + self.target(h)[target, 0]
        attention = softmax(nn.functional.leaky_relu(score), target, num_nodes=graph.num_dst)
        return self.aggr(h, graph, edge_weight=attention)  # no tensor of edges × channels


torch.manual_seed(0)
digits = load("digits")
graph, split = digits.graph().prepared(None, True), make_split(digits, "random", 0)
first, last = AttentionLayer(digits.num_features, 32), AttentionLayer(32, digits.num_classes)
optimizer = torch.optim.Adam([*first.parameters(), *last.parameters()], lr=0.01)
for _ in range(given.epochs):
    optimizer.zero_grad()
    out = last(first(digits.x, graph).relu(), graph)
    nn.functional.cross_entropy(out[split.train], digits.y[split.train]).backward()
    optimizer.step()
hit = out.argmax(dim=1) == digits.y
print(f"test accuracy {100 * hit[split.test].float().mean():.1f} %, {first.aggr}")
