r"""The command :obj:`meanmax partition`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Group
from rich.table import Table

from meanmax.cli import options
from meanmax.cli.data_bars import data_bars
from meanmax.cli.data_tables import print_out
from meanmax.cli.commands.parts import (CUTS, cut_once)
from meanmax.data import load
from meanmax.scale.parts_folder import (Manifest, read_part)


@click.command()
@click.option("--data", "source", required=True, metavar="NAME|PATH", help="The graph.")
@click.option(
    "--parts", type=click.IntRange(min=1), required=True, help="Parts, one for each process."
)
@click.option(
    "--method",
    type=click.Choice(list(CUTS)),
    default="metis",
    help="metis: few edges between parts; blocks: consecutive nodes.",
)
@click.option("--split", "scheme", metavar="SCHEME", help="How to split. [default: what fits]")
@click.option("--split-seed", type=click.IntRange(min=0), default=0, help="Seed of the split.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the parts.")
@options.data_dir
@options.directed
@options.as_json
def partition(
    source: str,
    parts: int,
    method: str,
    scheme: str | None,
    split_seed: int,
    out: Path,
    data_dir: Path | None,
    directed: bool,
    print_json: bool,
) -> None:
    r"""Cut a graph into parts for several processes.

    Each process of `torchrun ... -m meanmax train --data OUT --distributed` then reads its own part
    and nothing else.
    """
    with options.clear_errors(), options.as_clicked(ValueError):
        with data_bars() as progress:
            dataset = load(source, data_dir=data_dir, directed=directed, progress=progress)
        manifest = cut_once(dataset, scheme, split_seed, parts, method, out)
        rows = [_row(out, rank, manifest) for rank in range(parts)]
    if print_json:
        click.echo(json.dumps({**asdict(manifest), "ranks": rows}, indent=1))
    else:
        print_out(_table(manifest, rows, out))


def _row(folder: Path, rank: int, manifest: Manifest) -> dict[str, Any]:
    piece = read_part(folder, rank, manifest).piece
    return {
        "rank": rank,
        "nodes": len(piece.nodes),
        "edges": len(piece.col),
        "halo": len(piece.halo),
        "sent": int(np.sum(piece.send_counts)),
    }


def _table(manifest: Manifest, rows: list[dict[str, Any]], folder: Path) -> Group:
    table = Table("rank", "nodes", "edges", "rows it gets per layer", "rows it sends")
    for row in rows:
        table.add_row(*(f"{row[name]:,}" for name in ("rank", "nodes", "edges", "halo", "sent")))
    share = manifest.cut_edges / max(1, manifest.num_edges)
    return Group(
        f"{manifest.data} in {manifest.parts} parts by {manifest.method}: {share:.1%} of "
        f"{manifest.num_edges:,} edges lead from one part to another",
        table,
        f"torchrun --nproc-per-node {manifest.parts} -m meanmax train --data {folder} "
        f"--distributed --out model.zip",
    )
