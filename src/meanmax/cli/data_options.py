r"""Options about data, and of what is printed."""

from __future__ import annotations

from pathlib import Path

import click

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
