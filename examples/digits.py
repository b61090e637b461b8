"""Compares aggregators on handwritten digits: one small network, only the aggregation differs.

scikit-learn's 1,797 digits (8 x 8 pixels) become a graph in which each image is joined to its K
nearest images, in both directions. A two-layer GraphSAGE sees 20 labels per class; the epoch is
chosen on 30 validation labels per class, and the accuracy is that of the remaining images.
"""

import argparse
import io
import math
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import jinja2
import matplotlib
import numpy as np
import torch
import torch_geometric
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.nn import SAGEConv, aggr
from torch_geometric.utils import from_scipy_sparse_matrix

import meanmax

K = 6
HIDDEN = 32
DROPOUT = 0.5
LEARNING_RATE = 0.01
WEIGHT_DECAY = 5e-4
TRAIN_PER_CLASS = 20
VAL_PER_CLASS = 30
BASELINE = "PyG mean"


class Contender(NamedTuple):
    make: Callable[[], aggr.Aggregation]
    parameter: str | None


CONTENDERS = {
    BASELINE: Contender(aggr.MeanAggregation, None),
    "PyG max": Contender(aggr.MaxAggregation, None),
    "PyG softmax": Contender(lambda: aggr.SoftmaxAggregation(learn=True), "t"),
    "PyG power mean": Contender(lambda: aggr.PowerMeanAggregation(learn=True), "p"),
    "meanmax Lp": Contender(meanmax.LpAggregation, "p"),
    "meanmax polynomial": Contender(meanmax.PolynomialAggregation, "alpha"),
    "meanmax softmax": Contender(meanmax.SoftmaxAggregation, "gamma"),
}


class Digits(NamedTuple):
    x: Tensor
    y: Tensor
    edge_index: Tensor


class Network(torch.nn.Module):
    def __init__(self, make: Callable[[], aggr.Aggregation]) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(
            [SAGEConv(64, HIDDEN, aggr=make()), SAGEConv(HIDDEN, 10, aggr=make())]
        )

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.layers[0](x, edge_index).relu()
        return self.layers[1](F.dropout(hidden, DROPOUT, self.training), edge_index)

    def parameter_values(self, name: str) -> list[float]:
        values = [getattr(layer.aggr_module, name) for layer in self.layers]
        return [value.detach().mean().item() for value in values]


@dataclass
class Run:
    test_accuracy: float
    val_curve: list[float]
    learned: list[float]
    seconds: float
    failure: str | None = None


def load() -> Digits:
    images, labels = load_digits(return_X_y=True)
    nearest = kneighbors_graph(images, K)
    edge_index, _ = from_scipy_sparse_matrix(nearest.maximum(nearest.T))
    return Digits(torch.tensor(images / 16, dtype=torch.float), torch.tensor(labels), edge_index)


def split(y: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = np.random.default_rng(seed)
    parts: tuple[list, list, list] = ([], [], [])
    ends = [TRAIN_PER_CLASS, TRAIN_PER_CLASS + VAL_PER_CLASS]
    for label in range(10):
        members = generator.permutation(np.flatnonzero(y.numpy() == label))
        for part, chosen in zip(parts, np.split(members, ends), strict=True):
            part.append(chosen)
    train, val, test = (torch.from_numpy(np.concatenate(part)) for part in parts)
    return train, val, test


def train(digits: Digits, contender: Contender, seed: int, epochs: int) -> Run:
    torch.manual_seed(seed)
    train_nodes, val_nodes, test_nodes = split(digits.y, seed)
    network = Network(contender.make)
    optimizer = torch.optim.Adam(parameter_groups(network), lr=LEARNING_RATE)
    run = Run(math.nan, [], [], 0.0)
    start = time.perf_counter()
    for epoch in range(1, epochs + 1):
        try:
            step(network, optimizer, digits, train_nodes)
            correct = evaluate(network, digits)
        except (FloatingPointError, ValueError) as error:  # meanmax refuses features that are NaN
            run.failure = f"seed {seed}, epoch {epoch}: {error}"
            break
        run.val_curve.append(correct[val_nodes].mean().item())
        if run.val_curve[-1] > max(run.val_curve[:-1], default=-1.0):
            run.test_accuracy = correct[test_nodes].mean().item()
            if contender.parameter is not None:
                run.learned = network.parameter_values(contender.parameter)
    run.seconds = time.perf_counter() - start
    return run


def parameter_groups(network: Network) -> list[dict]:
    """Weight decay is for the matrices only: 0 is no neutral value of an aggregator's parameter."""
    named = list(network.named_parameters())
    return [
        {"params": [v for k, v in named if "aggr_module" not in k], "weight_decay": WEIGHT_DECAY},
        {"params": [v for k, v in named if "aggr_module" in k]},
    ]


def step(network: Network, optimizer: torch.optim.Optimizer, digits: Digits, nodes: Tensor) -> None:
    network.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(network(digits.x, digits.edge_index)[nodes], digits.y[nodes])
    if not loss.isfinite():
        raise FloatingPointError(f"the loss is {loss.item()}")
    loss.backward()
    optimizer.step()


@torch.no_grad()
def evaluate(network: Network, digits: Digits) -> Tensor:
    """1.0 for every image that is classified correctly."""
    network.eval()
    out = network(digits.x, digits.edge_index)
    if not out.isfinite().all():
        raise FloatingPointError("the output is not finite")
    return (out.argmax(dim=1) == digits.y).float()


def compare(digits: Digits, seeds: int, epochs: int) -> dict[str, list[Run]]:
    runs: dict[str, list[Run]] = {name: [] for name in CONTENDERS}
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("warming up", total=len(CONTENDERS) * seeds)
        for contender in CONTENDERS.values():  # compiles kernels, outside the timing
            train(digits, contender, seed=0, epochs=2)
        for seed in range(seeds):
            for name, contender in CONTENDERS.items():
                progress.update(task, description=f"{name}, seed {seed}")
                runs[name].append(train(digits, contender, seed, epochs))
                progress.advance(task)
        progress.update(task, description="done")
    return runs


HEADER = [
    "aggregator",
    "test accuracy, %",
    "n",
    f"difference to {BASELINE}, points",
    "s per run",
    "learned: start → layer 1, layer 2",
]


def row(name: str, runs: dict[str, list[Run]]) -> list[str]:
    failures = [run.failure for run in runs[name] if run.failure]
    seconds = f"{np.median([run.seconds for run in runs[name]]):.2f}"
    if failures:
        finished = f"{len(runs[name]) - len(failures)} of {len(runs[name])}"
        return [name, f"failed: {failures[0].split(';')[0]}", finished, "", seconds, ""]
    accuracy = 100 * np.array([run.test_accuracy for run in runs[name]])
    learned = ""
    make, parameter = CONTENDERS[name]
    if parameter is not None:
        values = np.mean([run.learned for run in runs[name]], axis=0)
        start = getattr(make(), parameter).mean().item()
        learned = f"{parameter}: {start:.2f} → " + ", ".join(f"{value:.2f}" for value in values)
    difference = paired_difference(name, runs)
    shown = "" if difference is None else f"{difference[0]:+.2f} ± {difference[1]:.2f}"
    spread = f" ± {accuracy.std(ddof=1):.2f}" if len(accuracy) > 1 else ""
    return [name, f"{accuracy.mean():.2f}{spread}", str(len(accuracy)), shown, seconds, learned]


def paired_difference(name: str, runs: dict[str, list[Run]]) -> tuple[float, float] | None:
    """Mean difference to the baseline on the same splits and half its 95 % interval, in points."""
    both = runs[name] + runs[BASELINE]
    if name == BASELINE or len(runs[name]) < 2 or any(run.failure for run in both):
        return None
    pairs = zip(runs[name], runs[BASELINE], strict=True)
    differences = 100 * np.array([ours.test_accuracy - base.test_accuracy for ours, base in pairs])
    margin = stats.t.ppf(0.975, len(differences) - 1) * stats.sem(differences)
    return float(differences.mean()), float(margin)


def verdict(runs: dict[str, list[Run]]) -> str:
    differences = {name: paired_difference(name, runs) for name in runs}
    compared = {name: value for name, value in differences.items() if value is not None}
    if not compared:
        return f"Nothing to compare: two seeds or more have to finish, with {BASELINE} too."
    clear = [name for name, (mean, margin) in compared.items() if abs(mean) > margin]
    beyond = ", ".join(f"{name} ({compared[name][0]:+.2f} points)" for name in clear) or "none"
    within = "all" if not clear else "the others"
    return (
        f"Over {len(runs[BASELINE])} splits, aggregators that differ from {BASELINE} beyond the "
        f"95 % interval of the paired difference (not corrected for {len(compared)} comparisons): "
        f"{beyond}; {within} that finished are within noise."
    )


def draw_curves(runs: dict[str, list[Run]]) -> str:
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    for name, of_name in runs.items():
        curves = [run.val_curve for run in of_name if not run.failure]
        if curves:
            mean = 100 * np.mean(curves, axis=0)
            axes.plot(range(1, len(mean) + 1), mean, label=name, linewidth=1.2)
    axes.set(xlabel="epoch", ylabel="validation accuracy, % (mean over seeds)")
    axes.legend()
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "meanmax"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()[buffer.getvalue().index("<svg") :]


PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>Aggregators on handwritten digits</title>
<style>
body { font: 16px/1.5 sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse } th, td { padding: .3rem .8rem; text-align: left }
thead { border-bottom: 2px solid } tbody tr { border-bottom: 1px solid #ccc }
svg { max-width: 100%; height: auto }
</style>
<h1>Aggregators on handwritten digits</h1>
<p>{{ setting }}</p>
<table>
<thead><tr>{% for cell in header %}<th>{{ cell }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody>
</table>
<p>{{ verdict }}</p>
{{ curves | safe }}
<p>{{ facts }}</p>
</html>
"""


def describe(digits: Digits, seeds: int, epochs: int) -> str:
    return (
        f"{len(digits.y)} images, {digits.edge_index.size(1)} edges (the {K} nearest of each, made "
        f"symmetric); two SAGEConv layers, {HIDDEN} hidden channels, {epochs} epochs, the best "
        f"chosen on validation; per class {TRAIN_PER_CLASS} labels to train and {VAL_PER_CLASS} to "
        f"validate, the rest to test; seeds 0 to {seeds - 1} draw split and weights. Accuracy: "
        f"mean ± standard deviation over seeds; difference: paired by seed, ± half its 95 % "
        f"interval; s per run: median, evaluation of every epoch included."
    )


def machine_facts() -> str:
    versions = {
        "Python": platform.python_version(),
        "torch": torch.__version__,
        "torch-geometric": torch_geometric.__version__,
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
    }
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def write_report(folder: Path, **content: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "report.html"
    page = jinja2.Environment(autoescape=True).from_string(PAGE)
    path.write_text(page.render(**content), encoding="utf-8")
    return path


def positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1 (got {value})")
    return value


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--seeds", type=positive, default=5, help="runs for each aggregator")
    parser.add_argument("--epochs", type=positive, default=40, help="epochs of each run")
    parser.add_argument("--out", type=Path, default="demo-report", help="folder for report.html")
    options = parser.parse_args()

    digits = load()
    runs = compare(digits, options.seeds, options.epochs)
    rows = [row(name, runs) for name in CONTENDERS]
    setting = describe(digits, options.seeds, options.epochs)

    table = Table(*HEADER, title="Aggregators on handwritten digits")
    for cells in rows:
        table.add_row(*cells)
    console = Console()
    console.print(setting, table, verdict(runs), machine_facts(), sep="\n")
    path = write_report(
        options.out,
        setting=setting,
        header=HEADER,
        rows=rows,
        verdict=verdict(runs),
        curves=draw_curves(runs),
        facts=machine_facts(),
    )
    console.print(f"Report: {path}", soft_wrap=True)


if __name__ == "__main__":
    main()
