r"""Draws the path from mean to max: one neighbourhood, three aggregators, a growing parameter.

Run ``python examples/path.py`` to write docs/path.svg and docs/path.png. ``meanmax figure path``
draws the same picture.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

from meanmax.study.report.figures.curves import path


def main() -> None:
    r"""Writes the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder (default: docs)")
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    # With fixed identifiers and no date, equal pictures are equal files.
    matplotlib.rcParams["svg.hashsalt"] = "meanmax"
    figure = path()
    figure.savefig(folder / "path.svg", metadata={"Date": None})
    figure.savefig(folder / "path.png", dpi=150)
    print(f"wrote {folder / 'path.svg'} and {folder / 'path.png'}")


if __name__ == "__main__":
    main()
