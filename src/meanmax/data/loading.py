r"""One call for every data set."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from os import PathLike

from meanmax.data.dataset import Dataset
from meanmax.data.fetch.catalog import CATALOG
from meanmax.data.files import DataError, Progress


def load(
    name_or_path: str | PathLike[str],
    *,
    data_dir: str | PathLike[str] | None = None,
    download: bool = True,
    directed: bool = False,
    progress: Progress | None = None,
) -> Dataset:
    r"""Loads a data set of the catalogue by its name, or a person's own graph by its path.

    Example:
        >>> dataset = load("karate")
        >>> dataset.num_nodes, dataset.num_classes
        (34, 4)
        >>> load("sbm:nodes=100,edges=300,seed=1").edge_index.shape
        torch.Size([2, 600])

    Args:
        name_or_path (str or PathLike): A name of :obj:`CATALOG`; :obj:`sbm:` with options of
            :func:`~meanmax.data.benchmarks.sbm.sbm`; or the file or folder of a graph of one's
            own. A path without separator or suffix is taken for a name if there is one: write
            :obj:`./cora` for a folder of that name.
        data_dir (str or PathLike, optional): A folder to look through first, and to write
            downloads to. (default: :obj:`None`)
        download (bool, optional): Whether missing files may be downloaded.
            (default: :obj:`True`)
        directed (bool, optional): Whether the edges of a graph of one's own keep their direction;
            otherwise each is stored both ways. (default: :obj:`False`)
        progress (callable, optional): Called with a name, bytes done and bytes in total.
            (default: :obj:`None`)
    """
    name = os.fspath(name_or_path)
    kind, _, options = name.partition(":")
    by_name = isinstance(name_or_path, str) and is_name(name)
    if by_name and directed:
        raise DataError(f"'directed' is for graphs of your own; '{kind}' is undirected")
    if by_name and name in CATALOG:
        return _load_by_name(name, data_dir, download, progress)
    if by_name:
        from meanmax.data.benchmarks.sbm import sbm_from_options

        return sbm_from_options(options)
    if _is_path(name) or not isinstance(name_or_path, str):
        from meanmax.data.readers.read import read_own

        return read_own(name_or_path, directed=directed, progress=progress)
    raise DataError(unknown_name(name))


def is_name(source: str) -> bool:
    r"""Whether text stands for a set of the catalogue or the generator, also where a folder has
    that name.

    Example:
        >>> is_name("cora"), is_name("./cora"), is_name("sbm:seed=1")
        (True, False, True)
    """
    return source in CATALOG or source.partition(":")[0] == "sbm"


def unknown_name(name: str) -> str:
    r"""What to say about a name that is not in the catalogue."""
    close = difflib.get_close_matches(name.lower(), CATALOG, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(repr(guess) for guess in close)}? " if close else ""
    return (
        f"there is no data set '{name}': {hint}Names are {', '.join(CATALOG)}; a graph of your "
        "own is given by the path of its file or folder, and there is none at this path"
    )


def _is_path(text: str) -> bool:
    separators = {os.sep, os.altsep or os.sep, "/"}
    return (
        os.path.exists(text)
        or any(mark in text for mark in separators)
        or bool(os.path.splitext(text)[1])
    )


def _load_by_name(
    name: str,
    data_dir: str | PathLike[str] | None,
    download: bool,
    progress: Progress | None,
) -> Dataset:
    entry = CATALOG[name]
    if entry.kind == "generated":
        from meanmax.data.benchmarks.sbm import sbm_from_options

        return sbm_from_options("")
    if entry.kind == "embedded":
        from meanmax.data.benchmarks.embedded import EMBEDDED

        return EMBEDDED[name]()
    from meanmax.data.fetch.sources import contents

    files = contents(name, data_dir=data_dir, download=download, progress=progress)
    return _reader(name)(name, files)


def _reader(name: str) -> Callable[[str, dict[str, bytes]], Dataset]:
    if name in ("cora", "citeseer", "pubmed"):
        from meanmax.data.benchmarks.citation import read_citation

        return read_citation
    if name in ("photo", "computers"):
        from meanmax.data.benchmarks.amazon import read_amazon

        return read_amazon
    from meanmax.data.benchmarks.ppi import read_ppi

    return read_ppi
