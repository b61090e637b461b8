r"""The group that all commands belong to."""

from __future__ import annotations

import difflib
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import final

import click

COMMANDS = {
    "bench": "Compare the speed of aggregators or layers with PyG's.",
    "compare": "Train aggregators on the same splits.",
    "data": "List, show, fetch, check and pack data sets.",
    "figure": "Draw figures from stored runs.",
    "partition": "Cut a graph into parts for several processes.",
    "predict": "Predict classes with a saved model.",
    "report": "Make a page of stored runs.",
    "reproduce": "Reproduce the paper's tables and figures.",
    "results": "Show, export and merge runs.",
    "train": "Train one model and save it.",
    "tune": "Search settings on validation nodes.",
    "warmup": "Compile the kernels ahead of use.",
}
UNLISTED = ("bench-large", "calibrate")


@final
class LazyGroup(click.Group):
    r"""Imports the module of a command when it is called; :obj:`COMMANDS` lists them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        r"""All names."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        r"""The command, imported now."""
        if cmd_name not in (*COMMANDS, *UNLISTED):
            return None
        module = import_module(f"meanmax.cli.commands.{cmd_name.partition('-')[0]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        r"""The command; an unknown name is answered with similar ones."""
        name = args[0] if args else ""
        if name not in (*COMMANDS, *UNLISTED) and not ctx.resilient_parsing:
            close = difflib.get_close_matches(name.lower(), COMMANDS, n=2)
            if close and not name.startswith("-"):
                hint = " or ".join(map(repr, close))
                ctx.fail(f"there is no command {name!r}: did you mean {hint}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        r"""The list in the help, without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


def _version() -> str:
    try:
        return version("meanmax")
    except PackageNotFoundError:
        return "not installed"


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True}
)
@click.version_option(_version(), prog_name="meanmax")
def main() -> None:
    r"""Learnable neighbourhood aggregators between mean and max for graph neural networks."""
