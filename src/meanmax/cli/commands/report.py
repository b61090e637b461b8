r"""The command :obj:`meanmax report`."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click
from rich.console import Console
from rich.status import Status

from meanmax.cli import options
from meanmax.cli.options import check_output
from meanmax.cli.progress import data_bars
from meanmax.data import load
from meanmax.study.report.page import write_report
from meanmax.study.settings.settings import NAMES
from meanmax.study.store.store import DEFAULT_STORE


def making_page(tsne: bool) -> Status:
    r"""What is shown until the page is there, on a terminal.

    Args:
        tsne (bool): Whether embeddings are placed in the plane for it.
    """
    what = "making the page"
    if tsne:
        what += ", with embeddings placed in the plane: up to a minute for each"
    return Console(stderr=True).status(what)


@click.command()
@click.argument("store", type=click.Path(path_type=Path), default=Path(DEFAULT_STORE))
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The page, an .html file. [default: report.html beside the runs]",
)
@click.option("--open", "show", is_flag=True, help="Open it in a browser.")
@click.option(
    "--settings",
    "settings_name",
    type=click.Choice(NAMES),
    help="Only runs of this settings file. [default: all runs]",
)
@click.option("--title", help="Its heading. [default: the data sets]")
@click.option(
    "--tsne",
    is_flag=True,
    help="Place embeddings in the plane where that was not done before: up to a minute for each.",
)
@click.option(
    "--data",
    "sources",
    multiple=True,
    metavar="NAME|PATH",
    help="The graph of the runs, for classes and names of nodes in pictures of embeddings; may be "
    "repeated. Data sets with a name are found without.",
)
@options.data_dir
def report(
    store: Path,
    out: Path | None,
    show: bool,
    settings_name: str | None,
    title: str | None,
    tsne: bool,
    sources: tuple[str, ...],
    data_dir: Path | None,
) -> None:
    r"""Make a page of the runs in STORE, a folder of runs or a file they were exported to.

    The page is one file that needs no network: tables beside the paper's, curves, differences with
    intervals, settings and versions, the command to repeat it, and a playground.
    """
    if out is not None:
        check_output(out, overwrite=True, suffixes=(".html", ".htm"))
    with options.clear_errors():
        with data_bars() as progress:
            datasets = [load(name, data_dir=data_dir, progress=progress) for name in sources]
        with making_page(tsne):
            path = write_report(
                store,
                out,
                title=title,
                settings_name=settings_name,
                datasets=datasets,
                data_dir=data_dir,
                tsne=tsne,
            )
    click.echo(str(path))
    if show and not webbrowser.open(path.resolve().as_uri()):
        click.echo(f"No browser could be started: open {path} yourself.", err=True)
