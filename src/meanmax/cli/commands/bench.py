r"""The command :obj:`meanmax bench`."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress

from meanmax.cli import options
from meanmax.cli.tables import WIDTH, Grid, decimal, print_out
from meanmax.study.bench import AMAZON_FILE, BenchSettings

DEFAULTS = BenchSettings(threads=min(2, os.cpu_count() or 1))
PASSES = ("forward", "forward+backward")
AGGREGATORS = ("lp", "polynomial", "softmax")
PYG = ("pyg_softmax", "pyg_powermean")
GIB = 1 << 30

Column = tuple[str, str, str]
COLUMNS: tuple[Column, ...] = (
    ("median_ms", "median ms", ".3f"),
    ("ratio_to_floor", "× floor", ".2f"),
    ("faster_than_pyg_softmax", "× faster than\nPyG softmax", ".2f"),
    ("faster_than_pyg_powermean", "× faster than\nPyG power mean", ".2f"),
    ("memory_mb", "peak MB", ".1f"),
    ("memory_arrays", "peak arrays of\n[nodes, channels]", ".1f"),
    ("n", "n", "d"),
)
LAYER_COLUMNS: tuple[Column, ...] = (
    ("median_ms", "ms per epoch", ".2f"),
    ("ratio_to_own", "× its linear\n(or dense) self", ".2f"),
    ("faster_than_gen_softmax", "× faster than PyG\nGENConv softmax", ".1f"),
    ("faster_than_gen_powermean", "× faster than PyG\nGENConv power mean", ".1f"),
    ("faster_than_pyg_gat", "× faster than\nPyG GATConv", ".1f"),
    ("faster_than_pyg_gcn", "× faster than\nPyG GCNConv", ".1f"),
    ("n", "n", "d"),
)


def _setting(name: str, kind: Any, text: str) -> Callable[[options.F], options.F]:
    default = getattr(DEFAULTS, name.replace("-", "_"))
    return click.option(f"--{name}", type=kind, default=default, help=text)


@click.command()
@_setting("nodes", options.POSITIVE, "Nodes of the graph.")
@_setting("edges", options.POSITIVE, "Edges of the graph, with self-loops.")
@_setting("channels", options.POSITIVE, "Feature channels.")
@_setting("dtype", click.Choice(["float32", "float64"]), "Type of the features.")
@_setting("repeats", options.POSITIVE, "Rounds of timing.")
@_setting(
    "budget",
    click.FloatRange(min=0.0),
    "Seconds of timed calls after which a competitor leaves the rounds (after at least 3).",
)
@_setting("threads", options.THREADS, "Threads to compute on.")
@_setting("seed", click.INT, "Seed of graph and features.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False),
    envvar="MEANMAX_DATA",
    show_envvar=True,
    help=f"Folder of {AMAZON_FILE}; without it only the generated graph is timed.",
)
@click.option("--sweep", is_flag=True, help="Also time growing numbers of edges and channels.")
@_setting("max-edges", options.POSITIVE, "Largest size of the sweep.")
@click.option(
    "--layers",
    is_flag=True,
    help="Compare training epochs of layers with PyG's instead, and measure their memory.",
)
@click.option(
    "--accelerate",
    is_flag=True,
    help="Compare training epochs of PyG's models with meanmax.accelerate, and with PyG on CSR and "
    "sorted EdgeIndex, instead.",
)
@click.option(
    "--cases",
    is_flag=True,
    help="Compare aggregators with linear products instead, at degree 4 and 36, on one graph and "
    "512, on one thread and two, alone and next to a busy process; takes --cold.",
)
@click.option(
    "--small",
    is_flag=True,
    help="Compare aggregators with PyG's on one thread instead, on 200 to 200,000 edges, with "
    "fresh graphs and reused ones.",
)
@click.option("--cold", is_flag=True, help="Also time compilation and first calls.")
@click.option(
    "--memory/--no-memory", "measure_memory", default=True, help="Measure peak memory (Linux)."
)
@click.option(
    "--quick", is_flag=True, help="Use small sizes instead of those given, to try the command."
)
@click.option(
    "--out",
    type=options.FOLDER,
    default="bench-results",
    help="Folder for bench.json, bench.png and bench.svg, or one of layers.json, "
    "accelerate.json, cases.json and small.json.",
)
@options.as_json
def bench(
    out: Path,
    print_json: bool,
    layers: bool,
    accelerate: bool,
    cases: bool,
    small: bool,
    **settings: Any,
) -> None:
    r"""Compare the speed of aggregators with PyG's.

    The floor is the faster of two linear products, ours and PyTorch's. All ratios are between
    medians that were measured in turns in this run.
    """
    if layers + accelerate + cases + small > 1:
        raise click.UsageError(
            "--layers, --accelerate, --cases and --small are benches of their own; choose one"
        )
    generated = ("nodes", "edges", "sweep", "max_edges", "data_dir")
    if layers:
        options.refuse((*generated, "channels", "dtype", "cold"), "with --layers")
    elif accelerate:
        options.refuse(
            (*generated, "channels", "dtype", "cold", "measure_memory"), "with --accelerate"
        )
    elif cases:
        options.refuse((*generated, "threads", "measure_memory"), "with --cases")
    elif small:
        options.refuse((*generated, "threads", "measure_memory", "cold"), "with --small")
    elif not settings["sweep"]:
        options.refuse(("max_edges",), "without --sweep")
    from meanmax.study.bench.accelerate import run_accelerate
    from meanmax.study.bench.aggregators import run_bench
    from meanmax.study.bench.cases import run_cases
    from meanmax.study.bench.graphs import GraphError
    from meanmax.study.bench.layers import run_layers
    from meanmax.study.bench.report import as_json, check_folder, failures, write_files
    from meanmax.study.bench.small import run_small

    name, run, shown = "bench", run_bench, tables
    if layers:
        name, run, shown = "layers", run_layers, layer_tables
    elif accelerate:
        name, run, shown = "accelerate", run_accelerate, accelerate_tables
    elif cases:
        name, run, shown = "cases", run_cases, case_tables
    elif small:
        name, run, shown = "small", run_small, small_tables
    try:
        check_folder(out)
        with Progress(console=Console(stderr=True), transient=True) as bars:

            def progress(title: str, steps: int) -> Callable[[], None]:
                task = bars.add_task(title, total=steps)
                return lambda: bars.advance(task)

            result = run(BenchSettings(**settings), progress)
        written = write_files(result, out, name)
    except OSError as error:
        raise click.ClickException(
            f"cannot write to {out} ({error.strerror or error}); choose another folder with --out"
        ) from error
    except GraphError as error:
        raise click.ClickException(str(error)) from error
    if print_json:
        click.echo(as_json(result))
    else:
        print_out(*shown(result), width=150 if layers else WIDTH)
    click.echo(f"written: {', '.join(str(path) for path in written)}", err=True)
    if failed := failures(result):
        raise click.ClickException("not everything could be measured:\n" + "\n".join(failed))


def tables(result: dict[str, Any]) -> list[Grid | str]:
    r"""The machine, a table for each graph and pass, the sweep, the cold start and notes."""
    labels = {row["competitor"]: row["label"] for g in result["graphs"] for row in g["results"]}
    parts: list[Grid | str] = [_machine(result)]
    for graph, key in product(result["graphs"], PASSES):
        floor = graph["floor"][key]["competitor"]
        title = f"{graph['name']}: {key}, {_size(graph)}"
        caption = f"floor: {labels[floor] if floor else 'not measured'}"
        parts.append(_timings(title, "competitor", _rows(graph, key), COLUMNS, caption))
    for series in (result["sweep"] or {}).values():
        parts += [_sweep_table(series, key) for key in PASSES if series]
    if result["cold"] is not None and result["cold"]["error"] is None:
        parts.append(_cold_table(result["cold"]))
    return [*parts, *(f"note: {note}" for note in result["notes"])]


def layer_tables(result: dict[str, Any]) -> list[Grid | str]:
    r"""The machine, a table for each shape, the memory of layers and notes."""
    parts: list[Grid | str] = [_machine(result)]
    for shape in result["shapes"]:
        title = (
            f"{shape['name']}: a training epoch, {shape['num_nodes']:,} nodes, "
            f"{shape['num_edges']:,} edges, {shape['features']:,} features, "
            f"{100 * shape['filled']:.2g} % filled"
        )
        rows = shape["results"]
        shown = [c for c in LAYER_COLUMNS if any(row[c[0]] is not None for row in rows)]
        parts.append(_timings(title, "model", rows, shown))
    if result["memory"] is not None:
        parts.append(_memory_table(result["memory"]))
    return [*parts, *(f"note: {note}" for note in result["notes"])]


def accelerate_tables(result: dict[str, Any]) -> list[Grid | str]:
    r"""The machine, a table for each shape with a row for each model, and notes."""
    parts: list[Grid | str] = [_machine(result)]
    for shape in result["shapes"]:
        rows = {(row["label"], row["route"]): row for row in shape["results"]}
        routes = list(dict.fromkeys(route for _, route in rows))
        cells = [
            [label, decimal(rows[label, routes[0]]["median_ms"], ".2f")]
            + [decimal(rows[label, route]["ratio"]) for route in routes[1:]]
            for label in dict.fromkeys(label for label, _ in rows)
        ]
        title = (
            f"{shape['name']}: a training epoch of PyG's models, {shape['num_nodes']:,} nodes, "
            f"{shape['num_edges']:,} edges, {shape['features']:,} features"
        )
        headings = ["model", f"{routes[0]}\nms", *(f"× faster\n{route}" for route in routes[1:])]
        parts.append(Grid(title, headings, cells, left=["model"]))
    return [*parts, *(f"note: {note}" for note in result["notes"])]


def case_tables(result: dict[str, Any]) -> list[Grid | str]:
    r"""The machine, the cases alone, next to a neighbour and against one graph, and notes."""
    cases = result["cases"]
    alone, beside, many = [], [], []
    for case in cases:
        rows = {row["competitor"].removesuffix("-numba"): row for row in case["results"]}
        ours = [rows[name] for name in AGGREGATORS]
        title = [case["name"], str(case["threads"])]
        size = f"{case['num_nodes']:,} / {case['num_edges']:,}"
        floor, busy = case["floor"], case["neighbour_floor"]
        ratios = [decimal(row["ratio_to_floor"]) for row in ours]
        alone.append([*title, size, decimal(floor["median_ms"], ".3f"), *ratios])
        slower = [decimal(row["ratio_to_alone"]) for row in (rows["linear"], *ours)]
        ratios = [decimal(row["neighbour_ratio_to_floor"]) for row in ours]
        beside.append([*title, decimal(busy["median_ms"], ".3f"), *ratios, *slower])
        if case["num_graphs"] > 1:
            against = [decimal(row["ratio_to_one_graph"]) for row in (rows["linear"], *ours)]
            many.append([*title, *against])
    left, floors = ["case"], [f"{name}\n× floor" for name in AGGREGATORS]
    start = ["case", "threads"]
    own = [f"{name}\n× alone" for name in ("linear", *AGGREGATORS)]
    what = f"forward+backward, {cases[0]['channels']} channels"
    parts: list[Grid | str] = [
        _machine(result),
        Grid(f"{what}: alone", [*start, "nodes / edges", "floor ms", *floors], alone, left),
        Grid(
            f"{what}: next to a process that does the same",
            [*start, "floor ms", *floors, *own],
            beside,
            left,
            caption="× floor: by the floor next to that process; × alone: by its own time alone",
        ),
        Grid(
            f"{what}: many graphs as a ratio to one with the same nodes and edges",
            [*start, "linear", *AGGREGATORS],
            many,
            left,
        ),
    ]
    if result["cold"] is not None and result["cold"]["error"] is None:
        parts.append(_cold_table(result["cold"]))
    return [*parts, *(f"note: {note}" for note in result["notes"])]


def small_tables(result: dict[str, Any]) -> list[Grid | str]:
    r"""The machine, a row for each size and route, and notes."""
    cells = []
    for size in result["small"]:
        rows = {(row["aggregator"], row["route"]): row for row in size["results"]}
        theirs = [decimal(rows[name, None]["median_ms"], ".3f") for name in PYG]
        for route in dict.fromkeys(route for _, route in rows if route is not None):
            ours = [rows[name, route] for name in AGGREGATORS]
            ratios = [" / ".join(decimal(row[f"ratio_to_{name}"]) for name in PYG) for row in ours]
            cells.append([f"{size['num_edges']:,}", route, *theirs, *ratios])
    grid = Grid(
        f"small graphs: a step as a ratio to PyG's softmax / power mean, "
        f"{result['settings']['channels']} channels",
        ["edges", "route", "PyG softmax\nms", "PyG power mean\nms", *AGGREGATORS],
        cells,
        left=["route"],
        caption="below 1: faster than PyG's",
    )
    return [_machine(result), grid, *(f"note: {note}" for note in result["notes"])]


def _machine(result: dict[str, Any]) -> str:
    machine, settings = result["machine"], result["settings"]
    versions = ", ".join(f"{name} {value}" for name, value in machine["versions"].items())
    return (
        f"{result['created']}  {machine['cpu']}, {settings['threads']} of {machine['cores']} "
        f"threads, {settings['dtype']}\nPython {machine['python']}, {versions}\n"
    )


def _timings(
    title: str, what: str, rows: list[dict[str, Any]], columns: Sequence[Column], caption: str = ""
) -> Grid:
    cells = []
    for row in rows:
        numbers = [decimal(row[name], form) for name, _, form in columns]
        failed = ["failed", *[""] * (len(columns) - 1)]
        cells.append([row["label"], *(numbers if row["error"] is None else failed)])
    headings = [what, *(heading for _, heading, _ in columns)]
    return Grid(title, headings, cells, left=[what], caption=caption)


def _sweep_table(series: list[dict[str, Any]], key: str) -> Grid:
    r"""Ratios to the floor by size; a competitor that a size was too large for has none."""
    labels = {row["competitor"]: row["label"] for point in series for row in _rows(point, key)}
    cells = []
    for point in series:
        ratios = {row["competitor"]: row["ratio_to_floor"] for row in _rows(point, key)}
        floor = decimal(point["floor"][key]["median_ms"], ".3f")
        cells.append([_size(point), floor, *(decimal(ratios.get(name)) for name in labels)])
    title = f"sweep: {key}, median as a ratio to the floor"
    return Grid(title, ["size", "floor ms", *labels.values()], cells, left=["size"])


def _cold_table(cold: dict[str, Any]) -> Grid:
    runs = [cold["compile"], cold["cached"]]
    firsts = [run["first_call_seconds"] for run in runs]
    pairs = {cold["labels"][name]: [first[name] for first in firsts] for name in firsts[0]}
    pairs["all three aggregators"] = [run["three_aggregators_seconds"] for run in runs]
    return Grid(
        "cold start: seconds of the first forward+backward pass",
        ["", "empty cache", "warm cache, new process", "× warm cache"],
        [
            [label, f"{empty:.3f}", f"{warm:.3f}", f"{empty / warm:.1f}"]
            for label, (empty, warm) in pairs.items()
        ],
        left=[""],
        caption="exact: what rows on the exact path need on top",
    )


def _memory_table(rows: list[dict[str, Any]]) -> Grid:
    cells = []
    for row in rows:
        sizes = [f"{row['num_nodes']:,}", f"{row['num_edges']:,}"]
        peak, ratio = decimal(row["peak_mb"], ".1f"), decimal(row["ratio_to_linear"])
        cells.append([row["layer"], row["aggr"], *sizes, peak, ratio])
    headings = ["layer", "aggregator", "nodes", "edges", "peak MB", "× linear"]
    title = "peak memory of a layer, forward and backward"
    return Grid(title, headings, cells, left=["layer", "aggregator"])


def _rows(graph: dict[str, Any], key: str) -> list[dict[str, Any]]:
    return [row for row in graph["results"] if row["pass"] == key]


def _size(graph: dict[str, Any]) -> str:
    nodes, edges = graph["num_nodes"], graph["num_edges"]
    return f"{nodes:,} nodes, {edges:,} edges, {graph['channels']} channels"


@click.command(hidden=True)
@click.option("--nodes", type=options.POSITIVE, default=500_000, help="Nodes of the graph.")
@click.option("--edges", type=options.POSITIVE, default=10_000_000, help="About how many edges.")
@click.option("--channels", type=options.POSITIVE, default=32, help="Channels of all layers.")
@click.option("--directed", is_flag=True, help="Draw directed edges.")
@click.option("--backbone", default="gcn", help="The layers.")
@click.option("--aggr", "names", default="none,lp,poly,softmax,max", help="The aggregators.")
@click.option(
    "--limit", type=float, default=4.0, help="GiB of data a process may have; 0 for no limit."
)
@click.option("--memory", type=float, default=1.0, help="GiB that the arrays of a block may take.")
@click.option("--threads", type=options.THREADS, default=2, help="Threads to compute on.")
@click.option("--seed", type=options.SEED, default=0, help="Seed of graph and weights.")
@click.option(
    "--what",
    type=click.Choice(["inference", "training"]),
    default="inference",
    help="inference: layer by layer from disk, within the limit; training: forward and backward "
    "over the whole graph in memory.",
)
@click.option(
    "--dir",
    "place",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path("."),
    help="Folder for the graph, which is deleted at the end.",
)
def bench_large(
    nodes: int,
    edges: int,
    channels: int,
    directed: bool,
    names: str,
    limit: float,
    memory: float,
    seed: int,
    what: str,
    place: Path,
    **case: Any,
) -> None:
    r"""Time two layers on a large generated graph. A JSON line for each aggregator: seconds, and
    private memory at its peak; inference keeps a limit of data (RLIMIT_DATA).
    """
    from meanmax.study.bench.graphs import GraphError, generate_folder
    from meanmax.study.bench.large import LargeCase, run_large
    from meanmax.study.bench.measure import ChildError

    with tempfile.TemporaryDirectory(prefix="meanmax-large-", dir=place) as made:
        folder = Path(made) / "graph"
        try:
            generate_folder(folder, nodes, edges, channels=channels, directed=directed, seed=seed)
            case |= {"limit": int(limit * GIB), "memory": int(memory * GIB)}
            for name in names.split(","):
                measured = LargeCase(str(folder), name, hidden=channels, seed=seed, **case)
                click.echo(json.dumps(run_large(measured, what)))  # type: ignore[arg-type]
        except (ChildError, GraphError, ValueError, OSError) as error:
            raise click.ClickException(str(error)) from error
