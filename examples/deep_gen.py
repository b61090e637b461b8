"""A deep model of DeeperGCN's layers whose softmax is learned, on handwritten digits.

python examples/deep_gen.py --layers 14 --epochs 60
"""

import argparse

import torch

from meanmax import build_model
from meanmax.data import load, make_split

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--layers", type=int, default=14)
parser.add_argument("--epochs", type=int, default=60)
given = parser.parse_args()

torch.manual_seed(0)
digits = load("digits")
graph, split = digits.graph(), make_split(digits, "random", 0)
model = build_model(
    "gen", "softmax", digits.num_features, 32, digits.num_classes, given.layers, dropout=0.2,
    nonlinear="hidden", skip="res+", norm="layer",
)  # fmt: skip
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
for _ in range(given.epochs):
    model.train()
    optimizer.zero_grad()
    out = model(digits.x, graph)
    torch.nn.functional.cross_entropy(out[split.train], digits.y[split.train]).backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    hit = model(digits.x, graph).argmax(dim=1) == digits.y
print(f"test accuracy {100 * hit[split.test].float().mean():.1f} %")
print("gamma by layer:", ", ".join(f"{gamma:.2f}" for gamma in model.learned().values()))
