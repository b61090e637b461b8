r"""The command :obj:`meanmax partition`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from meanmax.cli import options
from meanmax.cli.progress import load_dataset
from meanmax.cli.tables import Grid, print_result

if TYPE_CHECKING:
    from torch import Tensor

    from meanmax.data import Dataset, Split
    from meanmax.scale import Partition

CUTS = ("metis", "blocks")


@click.command()
@options.graph
@click.option(
    "--parts", type=options.POSITIVE, required=True, help="Number of parts, one for each process."
)
@click.option(
    "--method",
    type=click.Choice(CUTS),
    default="metis",
    help="metis: few edges between parts; blocks: consecutive nodes.",
)
@options.scheme
@options.split_seed
@options.out(options.PATH, "Folder for the parts.", required=True)
@options.as_json
def partition(
    scheme: str | None,
    split_seed: int,
    parts: int,
    method: str,
    out: Path,
    print_json: bool,
    **graph: Any,
) -> None:
    r"""Cut a graph into parts for several processes.

    Each process of `torchrun ... -m meanmax train --data OUT --distributed` then reads only its own
    part.
    """
    from meanmax.scale import open_folder, rank_sizes

    with options.clear_errors(ValueError):
        manifest = cut_once(load_dataset(**graph), scheme, split_seed, parts, method, out)
        rows = rank_sizes(open_folder(out))
    facts = {**asdict(manifest), "ranks": rows}
    print_result(print_json, facts, *_table(manifest, rows, out))


def check_source(source: str, distributed: bool, given: Sequence[str]) -> None:
    r"""Raises a :class:`FolderError` if :obj:`--data` is a folder of parts and cannot be used: the
    processes do not train together, or options are :obj:`given` that the partition has settled.
    """
    from meanmax.scale import FolderError, is_partition

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


def cut_graph(dataset: Dataset, parts: int, method: str) -> Tensor:
    r"""The part of each node, by a method of :obj:`CUTS`."""
    from meanmax.scale import assign_blocks, assign_metis

    return (assign_metis if method == "metis" else assign_blocks)(dataset.graph(), parts)


def split_origin(dataset: Dataset, scheme: str | None, seed: int) -> tuple[Split, dict[str, Any]]:
    r"""A split by a scheme, or by the one that fits, and the facts that identify data and split."""
    from meanmax.data import fingerprint, make_split
    from meanmax.data.splits import default_scheme
    from meanmax.study.runs.row import split_hash
    from meanmax.study.stats.cells import without_folder

    scheme = scheme or default_scheme(dataset)
    split = make_split(dataset, scheme, seed)
    return split, {
        "data_hash": fingerprint(dataset)[:20],
        "split": without_folder(scheme),
        "split_seed": seed,
        "split_hash": split_hash(split),
        "split_name": split.name,
    }


def cut_once(
    dataset: Dataset, scheme: str | None, seed: int, parts: int, method: str, folder: Path
) -> Partition:
    r"""Writes the parts of a data set of one graph to a folder unless they are in it. Parts of
    anything else in the folder are an error.
    """
    from meanmax.scale import FolderError, write_partition

    split, origin = split_origin(dataset, scheme, seed)
    if folder.is_file():
        raise FolderError(f"{folder} is a file: name a folder for the parts")
    if folder.exists():
        return _same(folder, origin, parts, method)
    part = cut_graph(dataset, parts, method)
    try:
        return write_partition(folder, dataset, split, part, parts, origin=origin, method=method)
    except OSError:
        if not folder.exists():
            raise
        return _same(folder, origin, parts, method)  # another process was faster


def _same(folder: Path, origin: dict[str, Any], parts: int, method: str) -> Partition:
    from meanmax.scale import FolderError, Partition, open_folder

    found = Partition.of(open_folder(folder))
    if (found.origin, found.parts, found.method) != (origin, parts, method):
        raise FolderError(
            f"{folder} holds {found.parts} parts by {found.method} of other data or another split: "
            f"delete it, or name another folder"
        )
    return found


def _table(manifest: Partition, rows: list[dict[str, Any]], folder: Path) -> tuple[Grid, str]:
    share = manifest.cut_edges / max(1, manifest.num_edges)
    title = (
        f"{manifest.data} in {manifest.parts} parts by {manifest.method}: {share:.1%} of "
        f"{manifest.num_edges:,} edges lead from one part to another"
    )
    headings = ["rank", "nodes", "edges", "rows it gets per layer", "rows it sends"]
    cells = [[f"{value:,}" for value in row.values()] for row in rows]
    return Grid(title, headings, cells, left=headings), (
        f"torchrun --nproc-per-node {manifest.parts} -m meanmax train --data {folder} "
        f"--distributed --out model.zip"
    )
