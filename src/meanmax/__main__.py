r"""The command as a module: :obj:`python -m meanmax`, or :obj:`torchrun -m meanmax`."""

import io
import os
import sys


def main() -> None:
    r"""Runs the command, or says which extra it needs."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: files that are opened must not take its place
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # Names of files may hold what it cannot encode; a C locale has its own way for that.
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
    try:
        from meanmax.cli import main as command

        command()
    except OSError as error:  # such as a full disk behind standard output
        sys.exit(f"Error: {error}")
    except ModuleNotFoundError as error:
        missing = (error.name or "meanmax").partition(".")[0]
        if missing == "meanmax":
            raise
        sys.exit(
            f"Error: the meanmax command needs {missing}, which is not installed: "
            "pip install 'meanmax[study]'"
        )


if __name__ == "__main__":
    main()
