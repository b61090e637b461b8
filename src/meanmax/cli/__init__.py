r"""The command line."""

from meanmax.cli.main import main

__all__ = ["main"]
