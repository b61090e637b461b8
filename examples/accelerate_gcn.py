"""PyG's GCN as it is and accelerated: the same predictions, and the time of a training epoch.

python examples/accelerate_gcn.py --nodes 20000 --degree 25
"""

import argparse
import copy
import time

import torch
from torch_geometric.nn import GCN

import meanmax

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--nodes", type=int, default=20_000)
parser.add_argument("--degree", type=int, default=25)
parser.add_argument("--epochs", type=int, default=10)
given = parser.parse_args()

torch.manual_seed(0)
edge_index = torch.randint(given.nodes, (2, given.nodes * given.degree))
x, y = torch.randn(given.nodes, 64), torch.randint(7, (given.nodes,))
plain = GCN(64, hidden_channels=64, num_layers=2, out_channels=7)
fast = meanmax.accelerate(copy.deepcopy(plain), verbose=True)  # lists what is replaced


def epoch(model, optimizer):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x, edge_index), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


seconds = {}
for name, model in {"PyG": plain, "accelerated": fast}.items():
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    epoch(model, optimizer)  # the first one compiles and prepares the graph
    start = time.perf_counter()
    for _ in range(given.epochs):
        loss = epoch(model, optimizer)
    seconds[name] = (time.perf_counter() - start) / given.epochs
    print(f"{name}: loss {loss:.4f}, {1000 * seconds[name]:.1f} ms per epoch")
print(f"{seconds['PyG'] / seconds['accelerated']:.1f} × faster")
