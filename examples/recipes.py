"""Which way of learning the parameter does no harm? Trains learned aggregators and the baseline on
several graphs, all with the settings that a search found for the baseline, and prints differences
of test scores by recipe.

    python examples/recipes.py --graphs cora digits --splits 3 --out recipes.jsonl

Rows are appended to the file; the same command resumes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import torch

from meanmax.data import load
from meanmax.data.splits import is_random
from meanmax.study.runs.execute import execute
from meanmax.study.runs.plan import Plan, reference
from meanmax.study.runs.search import Method, SearchRuns
from meanmax.study.settings.search import Search

AGGRS = ("lp", "poly", "softmax")
START = {"lp": 2.0, "poly": 1.0, "softmax": 1.0}
RECIPES = {
    "default": {},
    "rate 0.001": {"aggregator_lr": 0.001},
    "rate 0.1": {"aggregator_lr": 0.1},
    "per channel": {"per": "channel"},
    "all layers": {"nonlinear": "all"},
    "penalty 0.1": {"aggregator_decay": 0.1},  # towards the linear end
    "start far": {"start": None},  # a value of START
    "validation loss": {
        "schedule": "alternating",
        "aggregator_optimizer": "adam",
        "aggregator_loss": "val",
    },
}


def runs_of(graph: str, splits: int, stored: dict[str, dict]) -> list[tuple]:
    """All runs on a graph, with the baseline's stored settings, or those that a search on the first
    split finds.
    """
    dataset = load(graph)
    metric = "roc_auc" if dataset.num_classes == 2 else "accuracy"
    search = Search("gcn", dataset.name, metric, budget=6)
    chosen = stored.get(dataset.name)
    if chosen is None:
        (task,) = planned(graph, dataset, ["none"], 1).tasks(dataset)
        runs = SearchRuns([Method(search, "none")], [(0,)], {("gcn", "none"): {0: task}})
        found = runs.run(lambda what, tasks: [execute(one).row for one in tasks])
        chosen = found[("gcn", "none"), (0,)][0].trial.settings
    listed = [(graph, "none", "baseline", chosen, seed) for seed in range(splits)]
    common = {name: chosen.get(name) for name in search.space("none")}
    for aggr in AGGRS:
        for name, changed in RECIPES.items():
            own = {**changed, "start": START[aggr]} if "start" in changed else changed
            settings = search.settings(aggr, {**common, **own})
            listed += [(graph, aggr, name, settings, seed) for seed in range(splits)]
    return listed


def planned(graph, dataset, aggrs, splits):
    pool = is_random(dataset, None)
    data = reference(graph, None)
    return Plan(data, ["gcn"], aggrs, range(splits), "default", pool=pool)


def run(job: tuple[str, str, str, dict, int]) -> dict:
    torch.set_num_threads(1)
    graph, aggr, recipe, settings, seed = job
    dataset = load(graph)
    tasks = planned(graph, dataset, [aggr], seed + 1).tasks(dataset)
    task = tasks[seed]
    row = execute(replace(task, spec=replace(task.spec, settings=settings))).row
    return {
        "graph": dataset.name, "aggr": aggr, "recipe": recipe, "seed": seed,
        "status": row.status, "test": row.metrics.get("test_score"), "settings": settings,
        "val": row.metrics.get("val_score"), "learned": row.learned, "epochs": row.epochs,
    }  # fmt: skip


def table(rows: list[dict]) -> list[str]:
    """A line for each recipe: mean differences to the baseline by graph, over aggregators."""
    scores = {(r["graph"], r["aggr"], r["recipe"], r["seed"]): r["test"] for r in rows}
    graphs = list(dict.fromkeys(r["graph"] for r in rows))
    lines = [
        f"| recipe | {' | '.join(graphs)} | mean | worst |",
        "|---|" + "---|" * (len(graphs) + 2),
    ]
    for recipe in RECIPES:
        means = []
        for graph in graphs:
            found = [
                value - scores[graph, "none", "baseline", seed]
                for (own, _, name, seed), value in scores.items()
                if (own, name) == (graph, recipe) and value is not None
                if scores.get((graph, "none", "baseline", seed)) is not None
            ]
            means.append(statistics.fmean(found) if found else float("nan"))
        shown = " | ".join(
            f"{value:+.2f}" for value in [*means, statistics.fmean(means), min(means)]
        )
        lines.append(f"| {recipe} | {shown} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", nargs="+", default=["cora", "digits"])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("recipes.jsonl"))
    given = parser.parse_args()
    text = given.out.read_text("utf-8") if given.out.exists() else ""
    rows = [json.loads(line) for line in text.splitlines()]
    done = {(r["graph"], r["aggr"], r["recipe"], r["seed"]) for r in rows}
    stored = {r["graph"]: r["settings"] for r in rows if r["recipe"] == "baseline"}
    count = len(given.graphs)
    with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
        lists = pool.map(runs_of, given.graphs, [given.splits] * count, [stored] * count)
        for graph, jobs in zip(given.graphs, lists, strict=True):
            name = load(graph).name
            left = [job for job in jobs if (name, *job[1:3], job[4]) not in done]
            for row in pool.map(run, left):
                rows.append(row)
                with given.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
            print(f"{name}: {len(left)} runs", file=sys.stderr)
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
