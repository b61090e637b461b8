r"""The group that all commands belong to."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import click

from meanmax.cli.lazy import LazyGroup


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
