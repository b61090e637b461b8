r"""Options that several commands have, and checks of what they were given."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from meanmax.data import DataError
from meanmax.data.splits import SCHEMES
from meanmax.names import AGGREGATORS
from meanmax.nn import BACKBONES, PYG_BASELINES
from meanmax.study.paper.result_tables import AGGRS as PAPER_AGGRS
from meanmax.study.runs.engine import ENGINES, EngineError
from meanmax.study.settings.settings import (
    NAMES,
    SettingsError,
    check_settings_name,
    parse_overrides,
)
from meanmax.study.store.store import DEFAULT_STORE, StoreError
from meanmax.train import CheckpointError, TrainingError

force = click.option("--force", is_flag=True, help="Overwrite the file of --out if it is there.")


def check_output(path: Path, *, overwrite: bool, suffixes: Sequence[str] = ()) -> None:
    r"""A :class:`click.ClickException` that says what to do, unless the file can be written.

    Args:
        path (Path): The file.
        overwrite (bool): Whether it may be there already.
        suffixes (sequence, optional): What its name may end with; empty for anything.
    """
    problem = _problem(path, overwrite, suffixes)
    if problem is not None:
        raise click.ClickException(problem)


def _problem(path: Path, overwrite: bool, suffixes: Sequence[str]) -> str | None:
    if suffixes and path.suffix.lower() not in suffixes:
        listed = " or ".join(suffixes)
        return f"the name of --out must end with {listed} (got '{path}')"
    if path.is_dir():
        return f"'{path}' is a folder: give --out the name of a file"
    if not path.parent.is_dir():
        return f"there is no folder '{path.parent}': make it, or choose another --out"
    if path.exists() and not overwrite:
        return f"'{path}' is there already: choose another --out, or give --force to overwrite it"
    if not os.access(path.parent, os.W_OK):
        return f"the folder '{path.parent}' cannot be written to: choose another --out"
    return None


data_dir = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to look in first and to download to. After it come the folder that the variable "
    "MEANMAX_DATA names, and your cache.",
)
directed = click.option(
    "--directed", is_flag=True, help="Keep the direction of your own graph's edges."
)
as_json = click.option("--json", "print_json", is_flag=True, help="Print JSON instead of a table.")


__all__ = [
    "as_json",
    "data_dir",
    "directed",
]

F = TypeVar("F", bound=Callable[..., Any])

AGGR_NAMES = ("none", *AGGREGATORS, *PYG_BASELINES)
POSITIVE = click.IntRange(min=1)

SETTINGS_HELP = (
    "Settings: 'published', what the paper and its code give; 'tuned', our own choice for any "
    "graph; or a .toml file of yours."
)
overrides = click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting in place of the file's, such as lr=0.005; may be repeated.",
)
SCHEME_HELP = f"How to split: {', '.join(SCHEMES)}."
scheme = click.option(
    "--split", "scheme", metavar="SCHEME", help=f"{SCHEME_HELP} [default: what fits]"
)
threads = click.option("--threads", type=POSITIVE, default=1, help="Threads of each run.")
store = click.option(
    "--store",
    type=click.Path(path_type=Path),
    default=Path(DEFAULT_STORE),
    help="Folder of the runs.",
)
artefacts = click.option(
    "--artefacts",
    is_flag=True,
    help="Make runs again whose rows came without embeddings and curves, as exports are.",
)


def workers(command: F) -> F:
    r"""The options :obj:`--jobs`, :obj:`--threads`, :obj:`--engine` and :obj:`--retry-failed`."""
    listed = "; ".join(f"{name}: {what}" for name, what in ENGINES.items())
    for option in (
        click.option("--retry-failed", is_flag=True, help="Make runs again that failed."),
        click.option(
            "--engine", type=click.Choice(list(ENGINES)), default="processes", help=f"{listed}."
        ),
        threads,
        click.option("--jobs", type=POSITIVE, help="Runs at once. [default: processors / threads]"),
    ):
        command = option(command)
    return command


class Names(click.ParamType):  # type: ignore[type-arg]
    r"""Names out of a list, with commas between them.

    Args:
        what (str): What one of them is called in errors.
        known (sequence): All of them.
    """

    name = "names"

    def __init__(self, what: str, known: Sequence[str]) -> None:
        self.what = what
        self.known = tuple(known)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[str]:
        r"""The names, each once and in their order."""
        if isinstance(value, list):
            return value
        names = [name.strip().lower() for name in str(value).split(",") if name.strip()]
        for name in names:
            if name not in self.known:
                close = difflib.get_close_matches(name, self.known, n=2, cutoff=0.5)
                hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
                listed = ", ".join(self.known)
                self.fail(f"there is no {self.what} {name!r}: {hint}Choose from {listed}.", param)
        if not names:
            self.fail(f"name at least one {self.what} of {', '.join(self.known)}.", param)
        return list(dict.fromkeys(names))

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        r"""Completes the name after the last comma."""
        before, comma, last = incomplete.rpartition(",")
        return [
            click.shell_completion.CompletionItem(f"{before}{comma}{name}")
            for name in self.known
            if name.startswith(last)
        ]


class OneName(Names):
    r"""One name out of a list."""

    name = "name"

    def convert(  # type: ignore[override]
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        r"""The name."""
        names = super().convert(value, param, ctx)
        if len(names) > 1:
            self.fail(f"name one {self.what} only (got {value}).", param)
        return names[0]


AGGR = OneName("aggregator", AGGR_NAMES)
BACKBONE = OneName("backbone", tuple(BACKBONES))
AGGRS = Names("aggregator", AGGR_NAMES)
aggrs = click.option(
    "--aggr",
    "aggrs",
    type=AGGRS,
    default=",".join(PAPER_AGGRS),
    help="Aggregators, with commas.",
)
BACKBONE_NAMES = Names("backbone", tuple(BACKBONES))
BACKBONE_HELP = f"Layers: {', '.join(BACKBONES)}."


class Settings(click.ParamType):  # type: ignore[type-arg]
    r"""A settings file of the package by its name, or one's own by its path."""

    name = "name|file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        r"""The name or the path."""
        try:
            check_settings_name(str(value))
        except SettingsError as error:
            self.fail(str(error), param)
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        r"""Completes the names, and files."""
        found = [click.shell_completion.CompletionItem(name) for name in NAMES]
        if not any(name.startswith(incomplete) for name in NAMES):
            return [click.shell_completion.CompletionItem(incomplete, type="file")]
        return [item for item in found if item.value.startswith(incomplete)]


SETTINGS = Settings()
settings = click.option(
    "--settings", "settings_name", type=SETTINGS, default="tuned", help=SETTINGS_HELP
)


def parsed(pairs: Sequence[str]) -> dict[str, Any]:
    r"""The settings of :obj:`--set`."""
    try:
        return parse_overrides(pairs)
    except SettingsError as error:
        raise click.BadParameter(str(error), param_hint="--set") from error


def typed(*names: str) -> list[str]:
    r"""Those options of the running command, by their parameters' names, that were typed."""
    context = click.get_current_context()
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in names
        and context.get_parameter_source(parameter.name) is click.core.ParameterSource.COMMANDLINE
    ]


@contextmanager
def as_clicked(*kinds: type[Exception]) -> Iterator[None]:
    r"""Errors of these kinds as one line and exit code 1."""
    try:
        yield
    except kinds as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def clear_errors() -> Iterator[None]:
    r"""What is wrong with input, disk or workers as one line and exit code 1."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("Stopped. What is finished is kept: the same command goes on from it.", err=True)
        raise click.Abort from None
    except (
        CheckpointError,
        DataError,
        EngineError,
        SettingsError,
        StoreError,
        TrainingError,
    ) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise click.ClickException(f"{error.strerror or error}{where}") from error
