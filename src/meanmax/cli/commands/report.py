r"""The command :obj:`meanmax report`."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.status import Status

from meanmax.cli import options
from meanmax.cli.progress import load_dataset
from meanmax.study.report.page import write_report
from meanmax.study.settings.settings import NAMES


def making_page(tsne: bool) -> Status:
    r"""A line on the terminal while the page is made, with t-SNE pictures or without."""
    pictures = ", with t-SNE of embeddings: up to a minute for each" if tsne else ""
    return Console(stderr=True).status(f"making the page{pictures}")


@click.command()
@options.stored_runs
@options.out(options.FILE, "The page, an .html file. [default: report.html next to the runs]")
@click.option("--open", "show", is_flag=True, help="Open it in a browser.")
@options.settings_of(click.Choice(NAMES), "Only runs with this settings file. [default: all runs]")
@click.option("--title", help="Heading of the page. [default: the data sets]")
@click.option(
    "--tsne",
    is_flag=True,
    help="Compute t-SNE of embeddings where it is missing: up to a minute for each.",
)
@click.option(
    "--data",
    "sources",
    multiple=True,
    metavar="NAME|PATH",
    help="A graph of your own that the runs used, for classes and node names in pictures of "
    "embeddings; may be repeated. Named data sets are found without it.",
)
@options.data_dir
def report(
    store: Path, out: Path | None, show: bool, sources: tuple[str, ...], **shown: Any
) -> None:
    r"""Make a page of stored runs.

    The page is one file that needs no network: tables next to the paper's, curves, differences with
    intervals, settings and versions, the command that repeats it, and a playground.
    """
    if out is not None:
        options.check_output(out, overwrite=True, suffixes=(".html", ".htm"))
    with options.clear_errors():
        datasets = [load_dataset(name, shown["data_dir"]) for name in sources]
        with making_page(shown["tsne"]):
            path = write_report(store, out, datasets=datasets, **shown)
    click.echo(str(path))
    if show and not webbrowser.open(path.resolve().as_uri()):
        click.echo(f"No browser could be started: open {path} yourself.", err=True)
