r"""One function that loads every data set."""

from __future__ import annotations

import os
from os import PathLike

from meanmax.data.benchmarks.amazon import read_amazon
from meanmax.data.benchmarks.citation import read_citation
from meanmax.data.benchmarks.embedded import EMBEDDED
from meanmax.data.benchmarks.ppi import read_ppi
from meanmax.data.benchmarks.sbm import sbm_from_options
from meanmax.data.dataset import Dataset
from meanmax.data.fetch.catalog import is_name, unknown_name
from meanmax.data.fetch.sources import contents
from meanmax.data.files import DataError, Progress
from meanmax.data.readers import read_own

_READERS = {
    **dict.fromkeys(("cora", "citeseer", "pubmed"), read_citation),
    **dict.fromkeys(("photo", "computers"), read_amazon),
    **dict.fromkeys(("ppi", "ppi-go"), read_ppi),
}


def load(
    name_or_path: str | PathLike[str],
    *,
    data_dir: str | PathLike[str] | None = None,
    download: bool = True,
    directed: bool = False,
    progress: Progress | None = None,
) -> Dataset:
    r"""Loads a data set of the catalogue by its name, or your own graph by its path.

    Example:
        >>> dataset = load("karate")
        >>> dataset.num_nodes, dataset.num_classes
        (34, 4)
        >>> load("sbm:nodes=100,edges=300,seed=1").edge_index.shape
        torch.Size([2, 600])

    Args:
        name_or_path (str or PathLike): A name of :obj:`CATALOG`; :obj:`sbm:` with options of
            :func:`~meanmax.data.benchmarks.sbm.sbm`; or the file or folder of your own graph.
            Text that is a name is never taken for a path: write :obj:`./cora` for a folder of that
            name.
        data_dir (str or PathLike, optional): A folder to search first, and to write downloads to.
            (default: :obj:`None`)
        download (bool, optional): Whether missing files may be downloaded.
            (default: :obj:`True`)
        directed (bool, optional): Whether the edges of your own graph keep their direction;
            otherwise each is stored both ways. (default: :obj:`False`)
        progress (callable, optional): Called with a name, bytes done and bytes in total.
            (default: :obj:`None`)
    """
    name = os.fspath(name_or_path)
    kind, _, options = name.partition(":")
    if not isinstance(name_or_path, str) or not is_name(name):
        like_path = os.path.exists(name) or {os.sep, "/"} & set(name) or os.path.splitext(name)[1]
        if isinstance(name_or_path, str) and not like_path:
            raise DataError(unknown_name(name))
        return read_own(name_or_path, directed=directed, progress=progress)
    if directed:
        raise DataError(f"'directed' is for graphs of your own; '{kind}' is undirected")
    if kind == "sbm":
        return sbm_from_options(options)
    if name in EMBEDDED:
        return EMBEDDED[name]()
    files = contents(name, data_dir=data_dir, download=download, progress=progress)
    return _READERS[name](name, files)
