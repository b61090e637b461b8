r"""The command :obj:`meanmax figure`."""

from __future__ import annotations

from pathlib import Path

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
@click.option(
    "--settings",
    "settings_name",
    type=click.Choice(NAMES),
    help="Settings file of the runs. [default: published if there are such runs, else what most "
    "runs have]",
)
@options.overrides
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(DEFAULT_OUT),
    help="Folder for the files.",
)
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
    data: tuple[str, ...],
    backbones: list[str] | None,
    aggrs: list[str],
    settings_name: str | None,
    pairs: tuple[str, ...],
    out: Path,
    formats: list[str],
    dpi: int,
    data_dir: Path | None,
    silent: bool = False,
) -> None:
    r"""Draw a figure, or all of them, from stored runs.

    Nothing is run: if runs are missing, the command that makes them is printed. 'all' draws every
    figure that the stored runs allow.
    """
    if listed:
        listed_figures = [[name, kind.what] for name, kind in FIGURES.items()]
        print_out(Grid("", ["figure", "shows"], listed_figures, left=["figure", "shows"]))
        return
    if name is None:
        raise click.UsageError(f"name a figure: {', '.join(FIGURES)}, or 'all'.")
    request = FigureRequest(
        data=data,
        backbones=tuple(backbones or ()),
        aggrs=tuple(aggrs),
        settings_name=settings_name,
        overrides=options.parsed(pairs),
        labels=LabelSource(data_dir=data_dir),
    )
    chosen = list(FIGURES) if name == "all" else [name]
    with options.clear_errors():
        needed = any(FIGURES[one].needs_runs for one in chosen)
        evidence = Evidence.of(store) if needed else Evidence()
        made, missing = _drawn(chosen, evidence, request.named(evidence), out, formats, dpi)
    for path in () if silent else made:
        click.echo(path)
    summary = "\n".join(f"{stem}: {reason}" for stem, reason in missing.items())
    if missing and (name != "all" or not made):
        raise click.ClickException(summary)
    if missing:
        click.echo(f"Not drawn:\n{summary}", err=True)


def _drawn(
    names: list[str],
    evidence: Evidence,
    request: FigureRequest,
    out: Path,
    formats: list[str],
    dpi: int,
) -> tuple[list[Path], dict[str, str]]:
    r"""The files that were written, and the reasons why other pictures were not."""
    made: list[Path] = []
    missing: dict[str, str] = {}
    console = Console(stderr=True)
    for name in names:
        for stem, one in pictures(name, request, evidence).items():
            try:
                with console.status(f"drawing {stem}"):
                    drawn = FIGURES[name].draw(evidence, one)
                    files = write_figure(drawn, out, stem, formats, dpi=dpi)
            except NothingToShow as reason:
                missing[stem] = str(reason)
                continue
            made += files
    return made, missing
