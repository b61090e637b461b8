r"""The command :obj:`meanmax data pack`."""

from __future__ import annotations

from pathlib import Path

import click

from meanmax.scale import write_folder
from meanmax.cli import options
from meanmax.cli.data_bars import data_bars
from meanmax.cli.data_tables import count
from meanmax.cli.commands.parts import CUTS
from meanmax.data import (load, make_split)
from meanmax.data.splits import default_scheme


@click.command()
@click.argument("name_or_path")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--parts",
    type=click.IntRange(min=1),
    help="Cut the graph into so many clusters, whose nodes are stored side by side.",
)
@click.option("--cut", type=click.Choice(list(CUTS)), default="metis", help="How the graph is cut.")
@click.option("--split", "scheme", metavar="SCHEME", help="How to split. [default: what fits]")
@click.option("--split-seed", type=click.IntRange(min=0), default=0, help="Seed of the split.")
@click.option("--force", is_flag=True, help="Overwrite a graph folder that is there.")
@options.data_dir
@options.directed
def pack(
    name_or_path: str,
    folder: Path,
    parts: int | None,
    cut: str,
    scheme: str | None,
    split_seed: int,
    force: bool,
    data_dir: Path | None,
    directed: bool,
) -> None:
    r"""Write a graph to a FOLDER of arrays that are read from disk as they are needed.

    `meanmax train --data FOLDER` then trains in clusters, and `meanmax predict` computes layer by
    layer, with bounded memory.
    """
    with options.clear_errors(), options.as_clicked(ValueError):
        with data_bars() as progress:
            dataset = load(name_or_path, data_dir=data_dir, directed=directed, progress=progress)
        split = make_split(dataset, scheme or default_scheme(dataset), split_seed)
        part = None if parts is None else CUTS[cut](dataset.graph(), parts)
        written = write_folder(folder, dataset, part=part, split=split, overwrite=force)
    facts = written.manifest
    nodes, edges = count(facts.num_nodes, "node"), count(facts.num_edges, "edge")
    click.echo(f"{nodes} and {edges} in {folder}")
