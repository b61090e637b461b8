"""Which aggregation still works on graphs denser than those it was trained on?

    python examples/reach.py

In `meanmax.data.load("reach:hops=2")` a node is positive if a source is at most two steps away.
Two layers are trained on graphs with a mean degree of 8 and tested on graphs of degree 64. A mean
or a sum can learn how many neighbours are near a source, which changes with the degree; a maximum
sees whether one is. Learned aggregators start where they usually do and find their place.
"""

from __future__ import annotations

import statistics
import sys

import torch
from torch import Tensor

from meanmax import NodeClassifier
from meanmax.data import Dataset, load

SEEDS = range(5)
METHODS = {
    "mean (SAGE)": ("sage", "none"),
    "sum (GIN)": ("gin", "none"),
    "weighted sum (GCN)": ("gcn", "none"),
    "max (SAGE)": ("sage", "max"),
    "lp (SAGE)": ("sage", "lp"),
    "poly (SAGE)": ("sage", "poly"),
    "softmax (SAGE)": ("sage", "softmax"),
}


def mask(data: Dataset, nodes: Tensor) -> Tensor:
    """True at these nodes."""
    return torch.zeros(data.num_nodes, dtype=torch.bool).index_fill(0, nodes, True)


def accuracies(backbone: str, aggr: str, seed: int) -> list[float]:
    """The share of validation and of test nodes that are right, in percent."""
    data = load(f"reach:hops=2,graphs=10,seed={seed}")
    model = NodeClassifier(
        backbone,
        aggr,
        hidden=16,
        layers=2,
        nonlinear="first" if aggr == "none" else "all",
        dropout=0.0,
        weight_decay=0.0,
        epochs=300,
        scale=False,
        schedule_options={} if aggr in ("none", "max") else {"aggregator_lr": 0.05},
        seed=seed,
    )
    model.fit(data, train_mask=mask(data, data.split.train), val_mask=mask(data, data.split.val))
    right = torch.as_tensor(model.predict(data)) == data.y
    return [100 * float(right[part].double().mean()) for part in (data.split.val, data.split.test)]


def main() -> None:
    """Prints a table in Markdown."""
    print(f"| accuracy, {len(SEEDS)} seeds | degree 8, validation | degree 64: mean | lowest |")
    print("|---|--:|--:|--:|")
    for name, (backbone, aggr) in METHODS.items():
        val, test = zip(*(accuracies(backbone, aggr, seed) for seed in SEEDS), strict=True)
        found = (statistics.mean(val), statistics.mean(test), min(test))
        print(f"| {name} | {' | '.join(f'{one:.1f}' for one in found)} |", flush=True)
        print(f"{name}: {[round(one, 1) for one in test]}", file=sys.stderr)


if __name__ == "__main__":
    main()
