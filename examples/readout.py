"""A learned readout where global_mean_pool stood: images of digits as graphs of their inked pixels.

python examples/readout.py --graphs 1797 --epochs 10
"""

import argparse

import torch
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GraphSAGE

from meanmax.data import load
from meanmax.nn import Readout

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--graphs", type=int, default=1797)
parser.add_argument("--epochs", type=int, default=10)
given = parser.parse_args()

torch.manual_seed(0)
digits = load("digits-graphs")
every = digits.to_data_list()
graphs = [every[i] for i in torch.randperm(len(every))[: given.graphs].tolist()]
cut = len(graphs) * 4 // 5
layers = GraphSAGE(digits.num_features, 64, num_layers=3, norm="batch")
pool = Readout("softmax", channels=64, per="channel")  # from mean to maximum, a place per channel
head = torch.nn.Linear(64, 10)
parameters = [*layers.parameters(), *pool.parameters(), *head.parameters()]
optimizer = torch.optim.Adam(parameters, lr=0.005)


def predict(data):
    return head(pool(layers(data.x, data.edge_index), data.batch, dim_size=data.num_graphs))


for _ in range(given.epochs):
    for data in DataLoader(graphs[:cut], batch_size=64, shuffle=True):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(predict(data), data.y).backward()
        optimizer.step()
layers.eval()
with torch.no_grad():
    (test,) = DataLoader(graphs[cut:], batch_size=len(graphs))
    accuracy = (predict(test).argmax(dim=1) == test.y).float().mean()
print(f"test accuracy {100 * accuracy:.1f} %, {pool}")
