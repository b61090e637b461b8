r"""The command :obj:`meanmax partition`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Group
from rich.table import Table
from torch import Tensor

from meanmax.cli import options
from meanmax.cli.progress import data_bars
from meanmax.cli.tables import print_out
from meanmax.data import Dataset, fingerprint, load, make_split
from meanmax.data.splits import default_scheme
from meanmax.graph import Graph
from meanmax.scale import (
    FolderError,
    Partition,
    assign_blocks,
    assign_metis,
    is_partition,
    open_folder,
    rank_sizes,
    write_partition,
)
from meanmax.study.runs.row import split_hash
from meanmax.study.stats.cells import without_folder

CUTS: dict[str, Callable[[Graph, int], Tensor]] = {"metis": assign_metis, "blocks": assign_blocks}


def check_source(source: str, distributed: bool, given: Sequence[str]) -> None:
    r"""A :class:`FolderError` if parts are used in a way they cannot be.

    Args:
        source (str): What :obj:`--data` names.
        distributed (bool): Whether processes train together.
        given (sequence): Options on the command line that a cut has settled already.
    """
    if not is_partition(source):
        return
    if not distributed:
        raise FolderError(
            f"{source} holds the parts of a graph, one for each process: add --distributed, and "
            f"start with torchrun; or name the data it was cut from"
        )
    if given:
        raise FolderError(
            f"{', '.join(given)}: the graph in {source} was cut and split already. Leave it out, "
            f"or name the data it was cut from"
        )


def cut_once(
    dataset: Dataset, scheme: str | None, seed: int, parts: int, method: str, folder: Path
) -> Partition:
    r"""The parts of a data set in a folder, made if they are not there.

    Args:
        dataset (Dataset): The data, of one graph.
        scheme (str, optional): How to split; :obj:`None` for what fits.
        seed (int): The seed of the split.
        parts (int): How many parts.
        method (str): :obj:`"metis"` or :obj:`"blocks"`.
        folder (Path): The folder. Parts of anything else in it are an error.
    """
    scheme = scheme or default_scheme(dataset)
    split = make_split(dataset, scheme, seed)
    origin: dict[str, Any] = {
        "data_hash": fingerprint(dataset)[:20],
        "split": without_folder(scheme),
        "split_seed": seed,
        "split_hash": split_hash(split),
        "split_name": split.name,
    }
    if folder.is_file():
        raise FolderError(f"{folder} is a file: name a folder for the parts")
    if folder.exists():
        return _same(folder, origin, parts, method)
    part = CUTS[method](dataset.graph(), parts)
    try:
        return write_partition(folder, dataset, split, part, parts, origin=origin, method=method)
    except OSError:
        if not folder.exists():
            raise
        return _same(folder, origin, parts, method)  # another process was faster


def _same(folder: Path, origin: dict[str, Any], parts: int, method: str) -> Partition:
    found = Partition.of(open_folder(folder))
    if (found.origin, found.parts, found.method) != (origin, parts, method):
        raise FolderError(
            f"{folder} holds {found.parts} parts by {found.method} of other data or another split: "
            f"delete it, or name another folder"
        )
    return found


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
        rows = rank_sizes(open_folder(out))
    if print_json:
        click.echo(json.dumps({**asdict(manifest), "ranks": rows}, indent=1))
    else:
        print_out(_table(manifest, rows, out))


def _table(manifest: Partition, rows: list[dict[str, Any]], folder: Path) -> Group:
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
