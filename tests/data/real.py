"""The published files, where this machine has them: MEANMAX_DATA or ../shared/data."""

import os
from pathlib import Path

import pytest

_NAMED = os.environ.get("MEANMAX_DATA")
FOLDER = Path(_NAMED) if _NAMED else Path(__file__).parents[3] / "shared" / "data"


def needs(*names):
    """Skips a test where a file is missing."""
    found = all(
        any((FOLDER / sub / name).is_file() for sub in ("", "planetoid", "tu")) for name in names
    )
    return pytest.mark.skipif(not found, reason=f"no {', '.join(names)}; set MEANMAX_DATA")


needs_planetoid = needs("ind.cora.graph", "ind.citeseer.graph", "ind.pubmed.graph")
needs_amazon = needs("amazon_electronics_photo.npz", "amazon_electronics_computers.npz")


def planetoid_contents(name):
    """The eight files of one set by their names."""
    found = sorted(FOLDER.glob(f"planetoid/ind.{name}.*")) or sorted(FOLDER.glob(f"ind.{name}.*"))
    return {path.name: path.read_bytes() for path in found}
