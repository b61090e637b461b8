r"""The command :obj:`meanmax bench`."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress

from meanmax.cli.options import POSITIVE
from meanmax.study.bench import Settings, run_bench
from meanmax.study.bench.graphs import AMAZON_FILE, GraphError
from meanmax.study.bench.large import LargeSettings, run_large
from meanmax.study.bench.large_graph import generate_folder
from meanmax.study.bench.large_training import TrainingSettings, run_training
from meanmax.study.bench.layer_run import run_layers
from meanmax.study.bench.memory import ChildError
from meanmax.study.bench.report import (
    as_json,
    check_folder,
    failures,
    layer_failures,
    print_layer_tables,
    print_tables,
    write_files,
    write_layer_file,
)

DEFAULTS = Settings(threads=min(2, os.cpu_count() or 1))


@click.command()
@click.option("--nodes", type=POSITIVE, default=DEFAULTS.nodes, help="Nodes of the graph.")
@click.option(
    "--edges", type=POSITIVE, default=DEFAULTS.edges, help="Its edges, self-loops counted."
)
@click.option("--channels", type=POSITIVE, default=DEFAULTS.channels, help="Feature channels.")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    default=DEFAULTS.dtype,
    help="Type of the features.",
)
@click.option("--repeats", type=POSITIVE, default=DEFAULTS.repeats, help="Rounds of timing.")
@click.option(
    "--budget",
    type=click.FloatRange(min=0.0),
    default=DEFAULTS.budget,
    help="Seconds of timed calls after which a competitor leaves the rounds (after at least 3).",
)
@click.option("--threads", type=POSITIVE, default=DEFAULTS.threads, help="Threads to compute on.")
@click.option("--seed", type=int, default=DEFAULTS.seed, help="Seed of graph and features.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False),
    envvar="MEANMAX_DATA",
    show_envvar=True,
    help=f"Folder of {AMAZON_FILE}; without it only the generated graph is timed.",
)
@click.option("--sweep", is_flag=True, help="Also time growing numbers of edges and channels.")
@click.option(
    "--max-edges", type=POSITIVE, default=DEFAULTS.max_edges, help="Largest size of the sweep."
)
@click.option(
    "--layers",
    is_flag=True,
    help="Time whole training epochs of layers beside PyG's instead, and their memory.",
)
@click.option("--cold", is_flag=True, help="Also time compilation and first calls.")
@click.option(
    "--memory/--no-memory", "measure_memory", default=True, help="Measure peak memory (Linux)."
)
@click.option(
    "--quick", is_flag=True, help="Small sizes in place of those given, to try the command."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("bench-results"),
    help="Folder for bench.json, bench.png and bench.svg, or layers.json.",
)
@click.option("--json", "print_json", is_flag=True, help="Print JSON instead of tables.")
def bench(out: Path, print_json: bool, layers: bool, **options: Any) -> None:
    r"""Time the aggregators beside their peers.

    The floor is the faster of two linear products, ours and PyTorch's. All ratios are between
    medians that were measured in turns in this run.
    """
    try:
        check_folder(out)
        result = _measure(Settings(**options), run_layers if layers else run_bench)
        written = (write_layer_file if layers else write_files)(result, out)
    except OSError as error:
        raise click.ClickException(
            f"cannot write to {out} ({error.strerror or error}); choose another folder with --out"
        ) from error
    except GraphError as error:
        raise click.ClickException(str(error)) from error
    _show(result, print_json, print_layer_tables if layers else print_tables)
    click.echo(f"written: {', '.join(str(path) for path in written)}", err=True)
    failed = layer_failures(result) if layers else failures(result)
    if failed:
        raise click.ClickException("not everything could be measured:\n" + "\n".join(failed))


def _measure(settings: Settings, run: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    r"""Runs the bench under progress bars on stderr."""
    with Progress(console=Console(stderr=True), transient=True) as bars:

        def progress(title: str, steps: int) -> Callable[[], None]:
            task = bars.add_task(title, total=steps)
            return lambda: bars.advance(task)

        return run(settings, progress)


def _show(result: dict[str, Any], print_json: bool, show: Callable[..., None]) -> None:
    if print_json:
        click.echo(as_json(result))
    else:
        show(result, sys.stdout)


GIB = 1 << 30


@click.command(hidden=True)
@click.option("--nodes", type=POSITIVE, default=500_000, help="Nodes of the graph.")
@click.option("--edges", type=POSITIVE, default=10_000_000, help="About how many edges it has.")
@click.option("--channels", type=POSITIVE, default=32, help="Channels of all layers.")
@click.option("--directed", is_flag=True, help="Whether edges point one way.")
@click.option("--backbone", default="gcn", help="The layers.")
@click.option("--aggr", "names", default="none,lp,poly,softmax,max", help="The aggregators.")
@click.option("--limit", type=float, default=4.0, help="GiB of data a process may have; 0 for any.")
@click.option("--memory", type=float, default=1.0, help="GiB that the arrays of a block may take.")
@click.option("--threads", type=POSITIVE, default=2, help="Threads to compute on.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of graph and weights.")
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
    help="Where files are made, and deleted at the end.",
)
def bench_large(
    nodes: int,
    edges: int,
    channels: int,
    directed: bool,
    backbone: str,
    names: str,
    limit: float,
    memory: float,
    threads: int,
    seed: int,
    what: str,
    place: Path,
) -> None:
    r"""Time two layers on a large generated graph. A JSON line for each aggregator: seconds, and
    private memory at its peak; inference keeps a limit of data (RLIMIT_DATA).
    """
    with tempfile.TemporaryDirectory(prefix="meanmax-large-", dir=place) as made:
        folder = Path(made) / "graph"
        try:
            generate_folder(folder, nodes, edges, channels=channels, directed=directed, seed=seed)
            for name in names.split(","):
                if what == "training":
                    step = TrainingSettings(str(folder), name, channels, 3, threads, seed)
                    click.echo(json.dumps(run_training(step)))
                    continue
                settings = LargeSettings(
                    str(folder),
                    backbone,
                    [name],
                    channels,
                    int(limit * GIB),
                    int(memory * GIB),
                    threads,
                    seed,
                )
                for row in run_large(settings):
                    click.echo(json.dumps(row))
        except (ChildError, GraphError, ValueError, OSError) as error:
            raise click.ClickException(str(error)) from error
