r"""The group that all commands belong to."""

from __future__ import annotations

import click

from meanmax.bench.machine import package_version
from meanmax.cli.bench import bench
from meanmax.cli.data import data


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(package_version("meanmax"), prog_name="meanmax")
def main() -> None:
    r"""Learnable neighbourhood aggregators between mean and max for graph neural networks."""


main.add_command(bench)
main.add_command(data)
