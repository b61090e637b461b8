r"""Options that several commands share, and checks of their values.

Nothing here imports PyTorch, so that help and usage errors are shown at once.
"""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from meanmax.data import DataError
from meanmax.names import (
    AGGREGATOR_ALIASES,
    AGGREGATORS,
    BACKBONES,
    IMPUTATIONS,
    PYG_BASELINES,
    SPLIT_SCHEMES,
    TASKS,
)
from meanmax.study.paper.result_tables import AGGRS as PAPER_AGGRS
from meanmax.study.runs.engine import ENGINES, EngineError
from meanmax.study.runs.run_missing import Workers
from meanmax.study.settings.settings import (
    NAMES,
    SettingsError,
    check_settings_name,
    parse_overrides,
)
from meanmax.study.store.store import DEFAULT_STORE, StoreError
from meanmax.unpacking import VARIABLE, as_size

F = TypeVar("F", bound=Callable[..., Any])
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

AGGR_NAMES = ("none", *AGGREGATORS, *PYG_BASELINES)
POSITIVE = click.IntRange(min=1)
NOT_NEGATIVE = click.IntRange(min=0)
SEED = click.IntRange(0, 2**63 - 1)
PATH = click.Path(path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)


class Size(click.ParamType):  # type: ignore[type-arg]
    r"""A number of bytes, such as 500M or 4G."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        r"""The bytes."""
        try:
            return as_size(value)
        except ValueError:
            self.fail(f"give a number of bytes, such as 500M or 4G (got {value!r}).", param)


def _allow_unpacking(ctx: click.Context, param: click.Parameter, value: int | None) -> None:
    r"""Sets the limit for this command and the processes that it starts."""
    if value is None:
        return
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(value)

    @ctx.call_on_close
    def restore() -> None:
        del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before


class Names(click.ParamType):  # type: ignore[type-arg]
    r"""Names out of :obj:`known`, separated by commas; errors call one of them :obj:`what`."""

    name = "names"

    def __init__(
        self, what: str, known: Sequence[str], aliases: Mapping[str, str] | None = None
    ) -> None:
        self.what, self.known, self.aliases = what, known, aliases or {}

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[str]:
        r"""The names without repeats, in the order given."""
        if isinstance(value, list):
            return value
        given = [name.strip().lower() for name in str(value).split(",") if name.strip()]
        names = [self.aliases.get(name, name) for name in given]
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
    ) -> list[CompletionItem]:
        r"""Completes the name after the last comma."""
        before, comma, last = incomplete.rpartition(",")
        names = (name for name in self.known if name.startswith(last))
        return [CompletionItem(f"{before}{comma}{name}") for name in names]


class OneName(Names):
    r"""One name from a list."""

    name = "name"

    def convert(  # type: ignore[override]
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        r"""The name."""
        names = super().convert(value, param, ctx)
        if len(names) > 1:
            self.fail(f"name one {self.what} only (got {value}).", param)
        return names[0]


class SettingsName(click.ParamType):  # type: ignore[type-arg]
    r"""A settings file: one of the package by its name, or any other by its path.

    :obj:`also` are further names that the command knows.
    """

    name = "name|file"

    def __init__(self, *also: str) -> None:
        self.also = also

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        r"""The name or the path."""
        if value in self.also:
            return str(value)
        try:
            return check_settings_name(str(value))
        except SettingsError as error:
            self.fail(str(error), param)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        r"""Completes the names, and files."""
        names = [name for name in (*self.also, *NAMES) if name.startswith(incomplete)]
        return [CompletionItem(name) for name in names] or [CompletionItem(incomplete, type="file")]


def stack(*options: Callable[[F], F]) -> Callable[[F], F]:
    r"""Several options as one decorator, listed by the help in this order."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def gather(name: str, make: Callable[..., Any], *options: Decorator) -> Decorator:
    r"""Options that reach the command as one argument, which a function makes of their values."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def run(*args: Any, **given: Any) -> Any:
            values = {key: given.pop(key) for key in signature(make).parameters if key in given}
            return command(*args, **{name: make(**values)}, **given)

        return stack(*options)(run)

    return add


def out(kind: click.Path, text: str, **more: Any) -> Decorator:
    r"""The option :obj:`--out` with its help."""
    return click.option("--out", type=kind, help=text, **more)


def settings_of(kind: Any, text: str, default: str | None = None) -> Decorator:
    r"""The option :obj:`--settings` with its help."""
    return click.option("--settings", "settings_name", type=kind, default=default, help=text)


def split_names(
    ctx: click.Context, param: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    r"""The callback of a repeatable option whose values may hold several names."""
    return tuple(dict.fromkeys(w.strip() for text in value for w in text.split(",") if w.strip()))


def _runs(
    jobs: int | None, threads: int, engine: str, retry_failed: bool, artefacts: bool = False
) -> dict[str, Any]:
    workers = Workers(jobs, threads, engine)
    return {"workers": workers, "retry_failed": retry_failed, "artefacts": artefacts}


AGGR = OneName("aggregator", AGGR_NAMES, AGGREGATOR_ALIASES)
AGGRS = Names("aggregator", AGGR_NAMES, AGGREGATOR_ALIASES)
BACKBONE = OneName("backbone", BACKBONES)
SETTINGS = SettingsName()
SETTINGS_HELP = (
    "Settings: 'published', those of the paper and its code; 'default', our own choice for any "
    "graph; or the path of a .toml file."
)
SCHEME_HELP = f"How to split: {', '.join(SPLIT_SCHEMES)}."

as_json = click.option("--json", "print_json", is_flag=True, help="Print JSON instead of a table.")
raw = click.option(
    "--raw",
    is_flag=True,
    help="Write texts in csv as they are. By default what a spreadsheet would run as a formula, "
    "text that begins with =, +, - or @, gets an apostrophe in front.",
)
force = click.option("--force", is_flag=True, help="Overwrite the file of --out if it exists.")
data_dir = click.option(
    "--data-dir",
    type=FOLDER,
    help="Folder to search first and to download to, before the folder that the variable "
    "MEANMAX_DATA names and your cache.",
)
unpacked = click.option(
    "--max-unpacked",
    type=Size(),
    expose_value=False,
    callback=_allow_unpacking,
    help="Bytes that a compressed file may unpack to, such as 4G. [default: 64 times its size plus "
    "256 MiB]",
)
own_graph = stack(
    unpacked,
    click.option(
        "--directed", is_flag=True, help="Keep the direction of the edges of your own graph."
    ),
    click.option(
        "--one-hot",
        multiple=True,
        metavar="COLUMN",
        help="Turn a column of categories of your own nodes into columns of 0 and 1; may be "
        "repeated.",
    ),
    click.option(
        "--impute",
        type=click.Choice(IMPUTATIONS),
        help="Fill missing features of your own nodes: with the mean or median of the column, or "
        "with zero.",
    ),
    click.option(
        "--task",
        type=click.Choice(TASKS),
        help="What the labels of your own graph are. [default: regression for numbers that are "
        "not all whole, else classification]",
    ),
)
graph = stack(
    click.option("--data", "source", required=True, metavar="NAME|PATH", help="The graph."),
    data_dir,
    own_graph,
)
backbone = click.option(
    "--backbone", type=BACKBONE, default="gcn", help=f"Layers: {', '.join(BACKBONES)}."
)
scheme = click.option(
    "--split", "scheme", metavar="SCHEME", help=f"{SCHEME_HELP} [default: what fits]"
)
split_seed = click.option("--split-seed", type=SEED, default=0, help="Seed of the split.")
splits = click.option("--splits", type=POSITIVE, default=10, help="Number of splits, from seed 0.")
settings = settings_of(SETTINGS, SETTINGS_HELP, "default")
backbones = click.option(
    "--backbone",
    "backbones",
    type=Names("backbone", BACKBONES),
    help="Backbones, separated by commas. [default: those of the table or figure]",
)
paper_aggrs = click.option(
    "--aggr",
    "aggrs",
    type=AGGRS,
    default=",".join(PAPER_AGGRS),
    help="Aggregators, separated by commas.",
)
aggrs = click.option(
    "--aggr",
    "aggrs",
    type=AGGRS,
    default="none,lp,poly,softmax",
    help=f"Aggregators, separated by commas: {', '.join(AGGR_NAMES)}. 'none' (or 'linear') is the "
    "backbone's own aggregation, the baseline, and is always included.",
)
THREADS = click.IntRange(1, 1024)  # OpenMP ends the process if it cannot start that many
threads = click.option("--threads", type=THREADS, default=1, help="Threads of each run.")
runs = gather(
    "runs",
    _runs,
    click.option("--jobs", type=POSITIVE, help="Runs at once. [default: processors / threads]"),
    threads,
    click.option(
        "--engine",
        type=click.Choice(list(ENGINES)),
        default="processes",
        help="; ".join(f"{name}: {what}" for name, what in ENGINES.items()) + ".",
    ),
    click.option("--retry-failed", is_flag=True, help="Repeat runs that failed."),
)
artefacts = click.option(
    "--artefacts",
    is_flag=True,
    help="Repeat runs that are stored without embeddings and curves, as exported rows are.",
)
store = click.option("--store", type=PATH, default=DEFAULT_STORE, help="Folder of the runs.")
stored_runs = click.option(
    "--store",
    type=PATH,
    default=DEFAULT_STORE,
    help="Folder of the runs, or a file that they were exported to.",
)


def _parsed(pairs: Sequence[str]) -> dict[str, Any]:
    r"""The settings of :obj:`--set`."""
    try:
        return parse_overrides(pairs)
    except SettingsError as error:
        raise click.BadParameter(str(error), param_hint="--set") from error


def overrides_with(text: str) -> Decorator:
    r"""The option :obj:`--set` with its help; the command gets the settings as a mapping."""
    pairs = click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help=text)
    return gather("overrides", _parsed, pairs)


overrides = overrides_with("Override a setting, for example lr=0.005; may be repeated.")


def given(*names: str) -> list[str]:
    r"""The options among these parameters that are on the command line."""
    context = click.get_current_context()
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in names
        and context.get_parameter_source(parameter.name) is click.core.ParameterSource.COMMANDLINE
    ]


def refuse(names: Sequence[str], where: str) -> None:
    r"""Raises a :class:`click.UsageError` if options among these parameters are on the command
    line, which have no effect :obj:`where` they are given.
    """
    if useless := given(*names):
        has = "has" if len(useless) == 1 else "have"
        raise click.UsageError(f"{', '.join(useless)} {has} no effect {where}: leave it out")


OWN_GRAPH = ("directed", "one_hot", "impute", "task")
r"""The parameters of :obj:`own_graph`."""


def words_of(*names: str) -> list[str]:
    r"""The options of these parameters as they are now, those without a value left out."""
    context, found = click.get_current_context(), list[str]()
    for parameter in context.command.params:
        if parameter.name not in names:
            continue
        value, (option, *_) = context.params[parameter.name], parameter.opts
        if isinstance(value, bool):
            found += [option] if value else parameter.secondary_opts[:1]
        else:
            listed = value if isinstance(value, tuple) else (value,)
            found += [word for one in listed if one is not None for word in (option, str(one))]
    return found


def check_output(
    path: Path, *, overwrite: bool, suffixes: Sequence[str] = (), option: str = "--out"
) -> None:
    r"""Raises a :class:`click.ClickException` unless the file of an option can be written.

    :obj:`suffixes`: the allowed ones; empty for any.
    """
    with clear_errors():
        _check_output(path, overwrite, suffixes, option)


def _check_output(path: Path, overwrite: bool, suffixes: Sequence[str], option: str) -> None:
    problem = None
    if suffixes and path.suffix.lower() not in suffixes:
        problem = f"the name of {option} must end with {' or '.join(suffixes)} (got '{path}')"
    elif path.is_dir():
        problem = f"'{path}' is a folder: give {option} the name of a file"
    elif not path.parent.is_dir():
        problem = f"there is no folder '{path.parent}': make it, or choose another {option}"
    elif path.exists() and not overwrite:
        problem = f"'{path}' exists: choose another {option}, or give --force to overwrite it"
    else:
        try:  # permissions alone do not show a folder of a read-only file system
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
                pass
        except OSError as error:
            reason = error.strerror or error
            problem = f"'{path}' cannot be written ({reason}): choose another {option}"
    if problem is not None:
        raise click.ClickException(problem)


_NO_MEMORY = (
    "there is not enough memory for this: choose a smaller model, use mini-batches, or a machine "
    "with more memory"
)


@contextmanager
def clear_errors(*kinds: type[Exception], resumes: bool = False) -> Iterator[None]:
    r"""Shows errors of input, disk or workers, and of these kinds, as one line with exit code 1.

    :obj:`resumes`: whether the command goes on from finished runs after an interruption.
    """
    shown: tuple[type[Exception], ...] = (DataError, EngineError, SettingsError, StoreError, *kinds)
    try:
        yield
    except KeyboardInterrupt:
        hint = " Finished runs are kept: the same command resumes." if resumes else ""
        click.echo(f"Stopped.{hint}", err=True)
        raise click.Abort from None
    except shown as error:
        raise click.ClickException(str(error)) from error
    except RuntimeError as error:
        from meanmax.train import CheckpointError, TrainingError

        if "can't allocate memory" in str(error):  # torch has no type of its own for it
            raise click.ClickException(_NO_MEMORY) from error
        if not isinstance(error, (CheckpointError, TrainingError)):
            raise
        raise click.ClickException(str(error)) from error
    except MemoryError as error:
        raise click.ClickException(_NO_MEMORY) from error
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise click.ClickException(f"{error.strerror or error}{where}") from error
