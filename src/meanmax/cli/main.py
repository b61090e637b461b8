r"""The group that all commands belong to."""

from __future__ import annotations

import difflib
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import final

import click


@final
class LazyGroup(click.Group):
    r"""All commands by name: where each is, and what it does in a line."""

    places: dict[str, tuple[str, str]] = {
        "bench": (
            "meanmax.cli.commands.bench:bench",
            "Time the aggregators or layers beside their peers.",
        ),
        "compare": (
            "meanmax.cli.commands.compare:compare",
            "Train aggregators on the same splits.",
        ),
        "data": ("meanmax.cli.commands.data:data", "List, show, fetch, check and pack data sets."),
        "figure": ("meanmax.cli.commands.figure:figure", "Draw figures from stored runs."),
        "partition": (
            "meanmax.cli.commands.partition:partition",
            "Cut a graph into parts for several processes.",
        ),
        "predict": ("meanmax.cli.commands.predict:predict", "Predict classes with a saved model."),
        "report": ("meanmax.cli.commands.report:report", "Make a page of stored runs."),
        "reproduce": ("meanmax.cli.commands.reproduce:reproduce", "Make the paper's tables anew."),
        "results": ("meanmax.cli.commands.results:results", "Show, export and merge runs."),
        "train": ("meanmax.cli.commands.train:train", "Train one model and save it."),
        "tune": ("meanmax.cli.commands.tune:tune", "Search settings on validation nodes."),
    }

    unlisted: dict[str, str] = {"bench-large": "meanmax.cli.commands.bench:bench_large"}

    def list_commands(self, ctx: click.Context) -> list[str]:
        r"""All names."""
        return sorted(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        r"""The command, imported now."""
        place = self.unlisted.get(cmd_name) or self.places.get(cmd_name, ("", ""))[0]
        if not place:
            return None
        module, attribute = place.split(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        r"""The command that is asked for; for an unknown one, those of similar names are named."""
        known = {*self.places, *self.unlisted}
        if args and args[0] not in known and not ctx.resilient_parsing:
            close = difflib.get_close_matches(args[0].lower(), self.places, n=2)
            if close and not args[0].startswith("-"):
                hint = " or ".join(map(repr, close))
                ctx.fail(f"there is no command {args[0]!r}: did you mean {hint}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        r"""The list in the help, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.places[name][1]) for name in sorted(self.places)])


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
