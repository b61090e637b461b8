r"""The commands :obj:`meanmax data list | show | fetch | check | pack`."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from meanmax.cli import options
from meanmax.cli.commands.partition import CUTS
from meanmax.cli.options import as_json, data_dir, directed
from meanmax.cli.progress import data_bars
from meanmax.cli.tables import (
    as_text,
    count,
    dataset_facts,
    list_table,
    print_out,
    show_table,
    verdict,
)
from meanmax.data import CATALOG, DataError, load, make_split, statistics
from meanmax.data.fetch.catalog import unknown_name
from meanmax.data.fetch.sources import fetch as fetch_files
from meanmax.data.readers import read_and_check
from meanmax.data.splits import default_scheme
from meanmax.scale import write_folder


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


@click.group()
def data() -> None:
    r"""Data sets by name, and graphs of your own."""


@data.command("list")
@data_dir
@as_json
def list_sets(data_dir: Path | None, print_json: bool) -> None:
    r"""List the data sets that go by a name, and which are on disk."""
    rows = [
        {
            "name": entry.name,
            "kind": entry.kind,
            "title": entry.title,
            "paper": entry.paper._asdict() if entry.paper else None,
            "on_disk": not entry.files or entry.located(data_dir) is not None,
        }
        for entry in CATALOG.values()
    ]
    if print_json:
        click.echo(json.dumps(rows, indent=1))
    else:
        print_out(list_table(rows))


@data.command()
@click.argument("name_or_path")
@data_dir
@directed
@as_json
def show(name_or_path: str, data_dir: Path | None, directed: bool, print_json: bool) -> None:
    r"""Show the statistics of a data set, or of your own graph, beside the paper's Table 1."""
    with _clear_errors(), data_bars() as progress:
        dataset = load(name_or_path, data_dir=data_dir, directed=directed, progress=progress)
        counted = statistics(dataset)
    entry = CATALOG.get(name_or_path)
    facts = dataset_facts(name_or_path, dataset)
    paper = entry.paper._asdict() if entry and entry.paper else None
    if print_json:
        shown = {**facts, "statistics": dataclasses.asdict(counted), "paper": paper}
        click.echo(json.dumps(shown, indent=1))
    else:
        print_out(show_table(facts, counted, paper))


@data.command()
@click.argument("names", nargs=-1, required=True)
@data_dir
def fetch(names: tuple[str, ...], data_dir: Path | None) -> None:
    r"""Download data sets, unless they are on disk, and check them."""
    for name in names:
        if name not in CATALOG:
            raise click.ClickException(unknown_name(name))
    failed = []
    for name in names:
        if not CATALOG[name].files:
            click.echo(f"{name}: needs no files")
            continue
        try:
            with data_bars() as progress:
                paths = fetch_files(name, data_dir=data_dir, progress=progress)
            click.echo(f"{name}: {count(len(paths), 'file')} in {paths[0].parent}")
        except (DataError, OSError) as error:
            failed.append(f"{name}: {error}")
    if failed:
        raise click.ClickException("\n".join(failed))


@data.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@directed
@as_json
def check(path: Path, directed: bool, print_json: bool) -> None:
    r"""Look for problems in the files of your own graph. Ends with 1 if there are errors."""
    with data_bars() as progress:
        dataset, problems = read_and_check(path, directed=directed, progress=progress)
    if print_json:
        click.echo(json.dumps([dataclasses.asdict(problem) for problem in problems], indent=1))
    else:
        for problem in problems:
            click.echo(as_text(problem, path))
        click.echo(verdict(dataset, problems))
    if dataset is None:
        sys.exit(1)


data.add_command(pack)


@contextmanager
def _clear_errors() -> Iterator[None]:
    try:
        yield
    except DataError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.strerror or error}: {error.filename}") from error
