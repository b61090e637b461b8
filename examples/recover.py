"""Do the learned parameters find the aggregation that a task was made with?

    python examples/recover.py

On each task of `meanmax.data.load("sets:target=...")` one aggregator with one parameter, followed
by a scale and an offset, is trained on 60 % of the nodes. The test error is relative to the
standard deviation of the target.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from meanmax import LpAggregation, PolynomialAggregation, SoftmaxAggregation, functional
from meanmax.data import load, make_split

STEPS, LR = 3000, 0.1
TRUTH = {"lp": ("lp", 3.0), "poly": ("poly", 2.0), "softmax": ("softmax", 1.5)}
FIXED = {"mean": functional.mean, "sum": functional.sum}
LEARNED = {
    "lp": lambda: LpAggregation(2.0, sign="abs"),
    "poly": lambda: PolynomialAggregation(1.0, signed=True),
    "softmax": lambda: SoftmaxAggregation(1.0, signed=True),
}
TARGETS = ("lp", "poly", "softmax", "min", "max", "logsumexp", "kth")


class Affine(nn.Module):
    """An aggregate, scaled and shifted."""

    def __init__(self, aggregate: nn.Module | None) -> None:
        super().__init__()
        self.aggregate = aggregate
        self.affine = nn.Linear(1, 1)
        nn.init.ones_(self.affine.weight)
        nn.init.zeros_(self.affine.bias)


def error_of(target: str, name: str) -> tuple[float, LpAggregation | None, float]:
    """The relative test error, the learned aggregator and its maxness."""
    data = load(f"sets:target={target}")
    split, graph, y = make_split(data, seed=0), data.graph(), data.y
    learned = LEARNED[name]() if name in LEARNED else None
    model = Affine(learned)

    def predict() -> Tensor:
        out = FIXED[name](data.x, graph) if learned is None else learned(data.x, graph)
        return model.affine(out)[:, 0]

    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, 10 * LR, total_steps=STEPS)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = (predict() - y)[split.train].square().mean()
        loss.backward()
        optimizer.step()
        rate.step()
    with torch.no_grad():
        wrong = (predict() - y)[split.test].square().mean().sqrt() / y[split.test].std()
        where = float("nan") if learned is None else float(learned.maxness(data.x, graph))
    return float(wrong), learned, where


def main() -> None:
    """Prints a table in Markdown."""
    torch.manual_seed(0)
    print(f"| target | {' | '.join([*FIXED, *LEARNED])} |")
    print("|---" * (1 + len(FIXED) + len(LEARNED)) + "|")
    for target in TARGETS:
        cells = []
        for name in (*FIXED, *LEARNED):
            wrong, learned, where = error_of(target, name)
            found = (
                ""
                if learned is None
                else f" ({float(learned.value.detach()):.3g}, maxness {where:.2f})"
            )
            cells.append(f"{wrong:.2g}{found}")
        print(f"| {target} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
