r"""The command :obj:`meanmax bench-large`, which the list of commands does not show."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import click

from meanmax.study.bench.child import ChildError
from meanmax.study.bench.graphs import GraphError
from meanmax.study.bench.large import (LargeSettings, run_large)
from meanmax.study.bench.large_graph import generate_folder
from meanmax.study.bench.large_training import (TrainingSettings, run_training)

POSITIVE = click.IntRange(min=1)
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
