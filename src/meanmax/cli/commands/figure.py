r"""The command :obj:`meanmax figure`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from meanmax.cli import options
from meanmax.cli.tables import Grid, print_out
from meanmax.study.report.embeddings import LabelSource
from meanmax.study.report.evidence import Evidence
from meanmax.study.report.figures.request import (
    DPI,
    FIGURES,
    FORMATS,
    FigureRequest,
    NothingToShow,
    pictures,
    write_figure,
)
from meanmax.study.settings.settings import NAMES

DEFAULT_OUT = "meanmax-figures"


@click.command()
@click.argument("name", required=False, type=click.Choice([*FIGURES, "all"]))
@click.option("--list", "listed", is_flag=True, help="List the figures.")
@options.stored_runs
@click.option(
    "--data",
    multiple=True,
    callback=options.split_names,
    metavar="NAMES",
    help="Data sets, separated by commas, by name or by the path of your own graph. [default: "
    "those of the figure]",
)
@options.backbones
@options.paper_aggrs
@options.settings_of(
    click.Choice(NAMES),
    "Settings file of the runs. [default: published if there are such runs, else what most runs "
    "have]",
)
@options.overrides
@options.out(options.FOLDER, "Folder for the files.", default=DEFAULT_OUT)
@click.option(
    "--format",
    "formats",
    type=options.Names("format", FORMATS),
    default=",".join(FORMATS),
    help="Formats, separated by commas.",
)
@click.option("--dpi", type=click.IntRange(30, 1200), default=DPI, help="Dots per inch of PNG.")
@options.data_dir
def figure(
    name: str | None,
    listed: bool,
    store: Path,
    backbones: list[str] | None,
    aggrs: list[str],
    out: Path,
    formats: list[str],
    dpi: int,
    data_dir: Path | None,
    silent: bool = False,
    **shown: Any,
) -> None:
    r"""Draw a figure, or all of them, from stored runs.

    Nothing is run: if runs are missing, the command that makes them is printed. 'all' draws every
    figure that the stored runs allow.
    """
    if "png" not in formats:
        options.refuse(("dpi",), "without --format png")
    if listed:
        headings, rows = ["figure", "shows"], [[name, kind.what] for name, kind in FIGURES.items()]
        print_out(Grid("", headings, rows, left=headings))
        return
    if name is None:
        raise click.UsageError(f"name a figure: {', '.join(FIGURES)}, or 'all'.")
    request = FigureRequest(
        backbones=tuple(backbones or ()),
        aggrs=tuple(aggrs),
        labels=LabelSource(data_dir=data_dir),
        **shown,
    )
    chosen = list(FIGURES) if name == "all" else [name]
    with options.clear_errors():
        needed = any(FIGURES[one].needs_runs for one in chosen)
        evidence = Evidence.of(store) if needed else Evidence()
        request, console = request.named(evidence), Console(stderr=True)
        made: list[Path] = []
        missing: dict[str, str] = {}
        for kind in chosen:
            for stem, one in pictures(kind, request, evidence).items():
                try:
                    with console.status(f"drawing {stem}"):
                        drawn = FIGURES[kind].draw(evidence, one)
                        made += write_figure(drawn, out, stem, formats, dpi=dpi)
                except NothingToShow as reason:
                    missing[stem] = str(reason)
    for path in () if silent else made:
        click.echo(path)
    summary = "\n".join(f"{stem}: {reason}" for stem, reason in missing.items())
    if missing and (name != "all" or not made):
        raise click.ClickException(summary)
    if missing:
        click.echo(f"Not drawn:\n{summary}", err=True)
