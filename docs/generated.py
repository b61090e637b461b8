"""Writes the tables of README.md and the site that come from stored rows and bench results.

``make tables`` runs it. A table stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``; a
test fails where text and stored results disagree.
"""

import json
import re
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from meanmax.cli.commands.compare import comparison_grid
from meanmax.cli.tables import Grid
from meanmax.names import LEARNED
from meanmax.study.report.study import Study, StudyTask
from meanmax.study.stats.comparison import CAVEAT
from meanmax.study.store.exports import read_rows

ROOT = Path(__file__).parents[1]
ROWS = ROOT / "results" / "comparisons.jsonl"
BENCH = ROOT / "results" / "bench"
PAGES = (
    "README.md",
    "docs/compare.md",
    "docs/graph-classification.md",
    "docs/results.md",
    "docs/speed.md",
)
MARK = re.compile(r"(<!-- generated: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)

KINDS = {
    "citation and co-purchase graphs": ("cora", "citeseer", "pubmed", "photo", "computers"),
    "social and heterophilous graphs": (
        "actor", "blogcatalog", "chameleon_filtered", "minesweeper",
    ),
    "neighbour graphs of measured features": ("digits", "wine", "cancer"),
    "proteins, several labels": ("ppi", "ppi-go"),
    "whole graphs": ("mutag", "proteins", "enzymes", "nci1", "imdb-binary", "digits-graphs"),
}  # fmt: skip


@cache
def study() -> Study:
    return Study.of(read_rows(ROWS))


def compared() -> list[StudyTask]:
    """The tasks with aggregators on at least ten splits."""
    enough = [[line.n >= 10 for line in task.compared] for task in study().tasks]
    return [task for task, ok in zip(study().tasks, enough, strict=True) if ok and all(ok)]


def kinds() -> str:
    """Where aggregators help and where not, a line for each kind of task."""
    rows = []
    for kind, names in KINDS.items():
        tasks = [task for task in compared() if task.group.data in names]
        if not tasks:
            continue
        lines = [(line, task) for task in tasks for line in task.compared]
        best, worst = (pick(lines, key=lambda one: one[0].paired.difference) for pick in (max, min))
        counts = [sum(line.judgement == word for line, _ in lines) for word in ("better", "worse")]
        rows.append(
            [
                f"{kind}: {', '.join(dict.fromkeys(task.group.data for task in tasks))}",
                spread(min(line.n for line, _ in lines), max(line.n for line, _ in lines)),
                f"{counts[0]}, {counts[1]} of {len(lines)}",
                extreme(*best),
                extreme(*worst),
            ]
        )
    headings = ["kind", "splits", "better, worse", "largest gain", "largest loss"]
    return table(headings, rows, left=(0, 3, 4))


def comparisons() -> str:
    """Every comparison: the baseline's score, and the difference of each aggregator to it."""
    rows = []
    for task in compared():
        shown, lines = task.group.comparison, {line.aggr: line for line in task.compared}
        base = shown.line(shown.baseline)
        cells = [difference(lines[aggr], task) if aggr in lines else "–" for aggr in LEARNED]
        reference = task.best_reference
        beside = "–" if reference is None else f"{reference.aggr} {score(task, reference.mean)}"
        baseline = mean_and_spread(task)
        name = f"{task.heading}, {shown.metric}"
        rows.append([name, str(base.n), baseline, *cells, beside])
    given = [any(row[3 + k] != "–" for row in rows) for k in range(len(LEARNED))]
    kept = [0, 1, 2, *(3 + k for k, any_ in enumerate(given) if any_), 3 + len(LEARNED)]
    headings = ["task", "n", "baseline", *LEARNED, "best reference"]
    body = table([headings[k] for k in kept], [[row[k] for k in kept] for row in rows], left=(0,))
    clear = [
        f"- {one.aggr} on {one.task} ({one.difference:+.2f} {one.unit}): Holm-adjusted p "
        f"{one.p_in_task:.2g} within its comparison, {one.p_overall:.2g} over all differences.\n"
        for one in study().differences
        if any(line.judgement in ("better", "worse") for line in lines_of(one.task, one.aggr))
    ]
    alone = [
        f"{task.heading} {score(task, line.mean)} ± {score(task, line.std)}"
        for task in study().tasks
        if not task.compared and (line := task.group.comparison.lines[0]).n >= 10
    ]
    without = f"- Baselines alone, ten splits: {', '.join(alone)}.\n" if alone else ""
    bold = f"**Bold**: clearly different within its own comparison. {study().statement}\n"
    return f"{body}\n{bold}\n{''.join(clear)}{without}".replace("-0.", "−0.")


PUBLISHED = {  # Errica et al. 2020, accuracy in percent: GIN, GraphSAGE, and without edges
    "proteins": ("73.3 ± 4.0", "73.0 ± 4.5", "75.8 ± 3.7"),
    "enzymes": ("59.6 ± 4.5", "58.2 ± 6.0", "65.2 ± 6.4"),
    "nci1": ("80.0 ± 1.4", "76.0 ± 1.8", "–"),
    "imdb-binary": ("71.2 ± 3.9", "68.8 ± 4.5", "–"),
}


def published() -> str:
    """Published ten-fold figures of graph classification beside ours."""
    rows = []
    for name, (gin, sage, none) in PUBLISHED.items():
        own = {task.group.backbone: task for task in study().tasks if task.group.data == name}
        cells = [mean_and_spread(own.get("gin")), mean_and_spread(own.get("sage"))]
        beside = [mean_and_spread(task, "MLP") for task in own.values()]
        without = next((cell for cell in beside if cell != "–"), "–")
        rows.append([name, gin, cells[0], sage, cells[1], none, without])
    headings = ["", "GIN", "ours", "GraphSAGE", "ours", "no graph", "our MLP"]
    return table(headings, rows, left=(0,))


def mean_and_spread(task: StudyTask | None, reference: str | None = None) -> str:
    """The score of a task's baseline, or of a reference, if it is there on ten splits."""
    if task is None:
        return "–"
    shown = task.group.comparison
    lines = [shown.lines[0]] if reference is None else shown.references
    known = [line for line in lines if line.n >= 10 and reference in (None, line.aggr)]
    return f"{score(task, known[0].mean)} ± {score(task, known[0].std)}" if known else "–"


def lines_of(heading: str, aggr: str) -> list[Any]:
    found = [task for task in compared() if task.heading == heading]
    return [line for task in found for line in task.compared if line.aggr == aggr]


def compare_output() -> str:
    """What ``meanmax compare`` prints, cut to the columns of the first look."""
    (task,) = (task for task in study().tasks if task.heading == "digits, gcn")
    shown = task.group.comparison
    grid = comparison_grid(shown, "auto")
    kept = [k for k, name in enumerate(grid.headings) if name not in ("learned", "maxness", "s")]
    count = len(task.compared) + 1  # the methods; of the references, the best one
    (best,) = (row for row in grid.rows[count:] if row[0] == task.best_reference.aggr)
    rows = [[row[k] for k in kept] for row in [*grid.rows[:count], best]]
    verdict = shown.verdict.removesuffix(CAVEAT).strip()
    text = plain(Grid(grid.title, [grid.headings[k] for k in kept], rows))
    return (
        f"```console\n$ meanmax compare --data digits\n{textwrap.fill(verdict, 100)}\n\n{text}```\n"
    )


def speed() -> str:
    """How many times faster each route is than PyG, from the stored benches."""
    rows = [*accelerated_speed(), *layer_speed(), *aggregator_speed()]
    return measured(["route", "beside", "× faster, by size"], rows, left=(0, 1, 2), note=facts())


def facts() -> str:
    """Machine, versions and dates of the stored benches; those with the same ones together."""
    found: dict[str, list[str]] = {}
    for name, result in benches().items():
        facts, versions = result["machine"], result["machine"]["versions"]
        where = (
            f"{facts['cpu']}, Python {facts['python']}, torch {versions['torch']}, "
            f"torch-geometric {versions['torch-geometric']}"
        )
        threads = result["settings"]["threads"]
        on = f"{threads} thread{'s' if threads > 1 else ''}, {result['created'][:10]}"
        found.setdefault(where, []).append(f"{BENCHES[name]} on {on}")
    runs = ". ".join(f"{where}: {'; '.join(runs)}" for where, runs in found.items())
    return f"Medians of one run each. {runs}."


ROUTES = {"accelerated": "accelerated", "csr": "PyG on CSR", "EdgeIndex": "PyG on EdgeIndex"}


def accelerated_speed() -> Iterator[list[str]]:
    by_shape: dict[str, list[float | None]] = {}
    for shapes in accelerated_rows().values():
        for name, ratios in shapes.items():
            by_shape.setdefault(name, []).append(ratios.get("accelerated"))
    if by_shape:
        found = ", ".join(f"{between(ratios)} ({name})" for name, ratios in by_shape.items())
        models = "`accelerate(model)`: GCN, GAT, SAGE, GIN, GENConv"
        yield [models, "PyG with `edge_index`, a training epoch", found]


def accelerated() -> str:
    """Epochs of accelerated models and of PyG's other forms of a graph, beside `edge_index`."""
    rows = [
        [label, name, *(times(ratios.get(route)) for route in ROUTES)]
        for label, shapes in accelerated_rows().items()
        for name, ratios in shapes.items()
    ]
    return measured(["model", "graph", *ROUTES.values()], rows, left=(0, 1))


def accelerated_rows() -> dict[str, dict[str, dict[str, float]]]:
    """The ratios by model, shape and route."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for shape in benches().get("accelerate", {"shapes": []})["shapes"]:
        for row in shape["results"]:
            by_shape = found.setdefault(row["label"], {})
            by_shape.setdefault(shape["name"], {})[row["route"]] = row["ratio"]
    return found


def aggregator_speed() -> Iterator[list[str]]:
    small = benches().get("small", {"small": []})["small"]
    routes = {"drop-in": "drop-in `aggr=`", "Graph": "aggregator on a `Graph`"}
    for route, label in routes.items():
        found = []
        for size in small:
            rows = {(row["aggregator"], row["route"]): row for row in size["results"]}
            ratio = rows["softmax", f"{route}, reused"]["ratio_to_pyg_softmax"]
            if ratio is not None:
                found.append(f"{times(1 / ratio)} ({size['num_edges']:,} edges)")
        if found:
            yield [label, "PyG's learned softmax, forward + backward", ", ".join(found)]


LAYERS = {
    "layers on a `Graph`: GCN, GAT": (
        "PyG's layers, a training epoch",
        {"gcn-none": "faster_than_pyg_gcn", "gat-none": "faster_than_pyg_gat"},
    ),
    "layers on a `Graph`: GCN with softmax": (
        "PyG's `GENConv`, learned softmax, a training epoch",
        {"gcn-softmax-all": "faster_than_gen_softmax"},
    ),
}


def layer_speed() -> Iterator[list[str]]:
    shapes = benches().get("layers", {"shapes": []})["shapes"]
    for label, (beside, keys) in LAYERS.items():
        found = {
            shape["name"]: [
                row[keys[row["trainee"]]] for row in shape["results"] if row["trainee"] in keys
            ]
            for shape in shapes
        }
        cells = [f"{between(found[name])} ({name})" for name in found if found[name]]
        if cells:
            yield [label, beside, ", ".join(cells)]


def layers() -> str:
    """Epochs of our own models: beside PyG's layers, and beside our own without an aggregator."""
    shapes = [
        {row["trainee"]: row for row in shape["results"]} | {"name": shape["name"]}
        for shape in benches().get("layers", {"shapes": []})["shapes"]
    ]
    dense = [shape for shape in shapes if "gat-none" in shape]
    lines = {
        "plain GCN: × faster than PyG's `GCNConv`": [("gcn-none", "faster_than_pyg_gcn")],
        "plain GAT: × faster than PyG's `GATConv`": [("gat-none", "faster_than_pyg_gat")],
        **learned("GCN", "gcn", "PyG's `GENConv`, learned softmax", "faster_than_gen_softmax"),
        **learned("GCN", "gcn", "PyG's `GENConv`, learned power mean", "faster_than_gen_powermean"),
        **learned("GAT", "gat", "PyG's plain `GATConv`", "faster_than_pyg_gat"),
        **learned("GCN", "gcn", None, "ratio_to_own"),
        **learned("GAT", "gat", None, "ratio_to_own"),
    }
    rows = [
        [label, *(between([shape[name][key] for name, key in picked]) for shape in dense)]
        for label, picked in lines.items()
    ]
    return measured(["", *(shape["name"] for shape in dense)], rows if dense else [], left=(0,))


def learned(model: str, backbone: str, peer: str | None, key: str) -> dict[str, Any]:
    """A line on a model with learned aggregators in all layers."""
    what = f"faster than {peer}" if peer else f"the time of our {model} without them"
    names = [f"{backbone}-{aggr}-all" for aggr in LEARNED if aggr != "spread"]
    return {f"{model}, learned aggregators: × {what}": [(name, key) for name in names]}


def small() -> str:
    """Steps on small graphs, the three aggregators together, beside PyG's learned softmax."""
    sizes = benches().get("small", {"small": []})["small"]
    routes = list(dict.fromkeys(row["route"] for size in sizes for row in size["results"]))
    routes = [route for route in routes if route is not None]
    rows = []
    for size in sizes:
        ratios: dict[str, list[float | None]] = {route: [] for route in routes}
        for row in size["results"]:
            if row["route"] in ratios:
                ratio = row["ratio_to_pyg_softmax"]
                ratios[row["route"]].append(1 / ratio if ratio else None)
        rows.append([f"{size['num_edges']:,}", *map(between, ratios.values())])
    return measured(["edges", *(route.replace("Graph", "`Graph`") for route in routes)], rows)


def aggregators() -> str:
    """Aggregators on one graph: beside the linear product and PyG's, and their memory."""
    graphs = benches().get("bench", {"graphs": []})["graphs"]
    keys = {
        "ratio_to_floor": "× the floor",
        "faster_than_pyg_softmax": "× faster than PyG softmax",
        "faster_than_pyg_powermean": "× faster than PyG power mean",
        "memory_arrays": "memory, arrays of [nodes, channels]",
    }
    rows = [
        [row["label"], *(times(row[key]) for key in keys)]
        for row in (graphs[0]["results"] if graphs else [])
        if row["pass"] == "forward+backward" and not row["competitor"].startswith("pyg-m")
    ]
    return measured(["forward + backward", *keys.values()], rows, left=(0,))


BENCHES = {
    "accelerate": "accelerated models",
    "layers": "layers",
    "small": "aggregators by size",
    "bench": "aggregators on 505,000 edges",
}


@cache
def benches() -> dict[str, dict[str, Any]]:
    """The stored results by name; a bench that has not been run is not there."""
    found = {name: BENCH / f"{name}.json" for name in BENCHES}
    return {name: json.loads(path.read_text()) for name, path in found.items() if path.is_file()}


def measured(
    headings: list[str], rows: list[list[str]], left: tuple[int, ...] = (), note: str = ""
) -> str:
    """A table of stored benches, or a sentence where there are none."""
    if not rows:
        return "No run is stored yet: `make bench-docs` measures it.\n"
    return table(headings, rows, left) + (f"\n{note}\n" if note else "")


def between(ratios: list[float | None]) -> str:
    """The range of some ratios."""
    known = [ratio for ratio in ratios if ratio is not None]
    ends = [times(pick(known, default=None)) for pick in (min, max)]
    return ends[0] if ends[0] == ends[1] else "–".join(ends)


def times(ratio: float | None) -> str:
    if ratio is None:
        return "–"
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"


def extreme(line: Any, task: StudyTask) -> str:
    return f"{difference(line, task)} {line.aggr}, {task.heading}"


def difference(line: Any, task: StudyTask) -> str:
    pair = line.paired
    form = "+.2f" if task.group.comparison.percent else "+.3f"
    values = [format(value, form) for value in (pair.difference, pair.low, pair.high)]
    text = f"{values[0]} [{values[1]}, {values[2]}]".replace("-", "−")
    return f"**{text}**" if line.judgement in ("better", "worse") else text


def score(task: StudyTask, value: float) -> str:
    return task.group.comparison.scale.score(value)


def spread(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}–{high}"


def table(headings: list[str], rows: list[list[str]], left: tuple[int, ...]) -> str:
    marks = [":--" if k in left else "--:" for k in range(len(headings))]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in (headings, marks, *rows))


def plain(grid: Grid) -> str:
    """A grid as aligned text."""
    cells = [list(grid.headings), *grid.rows]
    widths = [max(len(row[k]) for row in cells) for k in range(len(cells[0]))]
    lines = []
    for first, *numbers in cells:
        aligned = [text.rjust(width) for text, width in zip(numbers, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *aligned]).rstrip() + "\n")
    return "".join(lines)


PARTS: dict[str, Callable[[], str]] = {
    "kinds": kinds,
    "comparisons": comparisons,
    "compare": compare_output,
    "published": published,
    "speed": speed,
    "accelerated": accelerated,
    "layers": layers,
    "small": small,
    "aggregators": aggregators,
}


def filled(text: str) -> str:
    """The text with its tables as the stored results have them."""
    return MARK.sub(lambda found: f"{found[1]}{PARTS[found[2]]()}{found[3]}", text)


if __name__ == "__main__":
    for page in map(ROOT.joinpath, PAGES):
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
