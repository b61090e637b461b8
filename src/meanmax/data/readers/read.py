r"""One entrance to all formats of a person's own graph."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path

from meanmax.data.dataset import Dataset
from meanmax.data.readers.assemble import assemble
from meanmax.data.readers.folder import (SUFFIXES, read_folder)
from meanmax.data.readers.graphml import read_graphml
from meanmax.data.readers.node_link import read_node_link
from meanmax.data.readers.npz import read_npz
from meanmax.data.readers.parts import Parts
from meanmax.data.readers.problems import (Findings, OwnDataError, Problem)
from meanmax.data.readers.saved_tensors import read_saved_tensors
from meanmax.data.progress import Progress

Reader = Callable[[Path, Findings, Progress | None], Parts]
READERS: dict[str, Reader] = {
    ".npz": read_npz,
    ".graphml": read_graphml,
    ".graphml.gz": read_graphml,
    ".json": read_node_link,
    ".json.gz": read_node_link,
    ".pt": read_saved_tensors,
    ".pth": read_saved_tensors,
}


def read_own(
    path: str | PathLike[str], *, directed: bool = False, progress: Progress | None = None
) -> Dataset:
    r"""Reads a graph from a folder with :obj:`edges.csv` and :obj:`nodes.csv`, or from an
    :obj:`.npz`, :obj:`.graphml`, :obj:`.json` (node-link) or :obj:`.pt` file.

    Args:
        path (str or PathLike): The folder or file.
        directed (bool, optional): If :obj:`False`, each edge is stored both ways, whatever the
            file says; repeated edges are merged either way. (default: :obj:`False`)
        progress (callable, optional): Called as :obj:`progress(what, done, total)`.

    Raises:
        OwnDataError: If there is anything to repair; it shows the first problems with their lines.
    """
    return _read(Path(path), directed, Findings(), progress)


def check(
    path: str | PathLike[str], *, directed: bool = False, progress: Progress | None = None
) -> list[Problem]:
    r"""Everything that is wrong with a graph's files or worth knowing about them, errors first.

    Args:
        path (str or PathLike): The folder or file.
        directed (bool, optional): See :func:`read_own`. (default: :obj:`False`)
        progress (callable, optional): Called as :obj:`progress(what, done, total)`.
    """
    return read_and_check(path, directed=directed, progress=progress)[1]


def read_and_check(
    path: str | PathLike[str], *, directed: bool = False, progress: Progress | None = None
) -> tuple[Dataset | None, list[Problem]]:
    r"""The data set, if there are no errors, and all problems, errors first.

    Args:
        path (str or PathLike): The folder or file.
        directed (bool, optional): See :func:`read_own`. (default: :obj:`False`)
        progress (callable, optional): Called as :obj:`progress(what, done, total)`.
    """
    findings = Findings()
    try:
        dataset = _read(Path(path), directed, findings, progress)
    except OwnDataError:
        dataset = None
    return dataset, findings.in_order()


def _read(path: Path, directed: bool, findings: Findings, progress: Progress | None) -> Dataset:
    return assemble(_reader(path, findings)(path, findings, progress), directed, findings)


def _reader(path: Path, findings: Findings) -> Reader:
    if path.is_dir():
        return read_folder
    known = ", ".join(READERS)
    if not path.exists():
        findings.fail(str(path), None, "there is no such folder or file", "check the path")
    stem, dot, ending = path.name.partition(".")
    if stem in ("edges", "nodes") and dot + ending in SUFFIXES:
        return lambda file, *rest: read_folder(file.parent, *rest)
    for suffix, reader in READERS.items():
        if path.name.lower().endswith(suffix):
            return reader
    advice = f"known are folders with edges.csv and nodes.csv, and {known}"
    findings.fail(path.name, None, "is of a kind that cannot be read", advice)
