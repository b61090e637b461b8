r"""The command as a module: :obj:`python -m meanmax`, or :obj:`torchrun -m meanmax`."""

import sys


def main() -> None:
    r"""Runs the command, or says which extra it needs."""
    try:
        from meanmax.cli import main as command

        command()
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
