r"""A data set cut into the parts of ranks, for the commands that need it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from meanmax.data import (Dataset, fingerprint, make_split)
from meanmax.data.splits import default_scheme
from meanmax.scale.parts_folder import (MANIFEST, Manifest, PartsError, read_manifest)
from meanmax.scale.parts_folder_folder_write import write_parts
from meanmax.study.runs.run_spec import split_hash
from meanmax.study.stats.selection import without_folder
from meanmax.graph import Graph
from meanmax.scale.partition_init import (assign_blocks, assign_metis)

CUTS: dict[str, Callable[[Graph, int], Tensor]] = {"metis": assign_metis, "blocks": assign_blocks}


def is_parts_folder(source: str) -> bool:
    r"""Whether data were cut already."""
    path = Path(source)
    return path.is_dir() and (path / MANIFEST).is_file() and (path / "part-00000").is_dir()


def check_source(source: str, distributed: bool, given: Sequence[str]) -> None:
    r"""A :class:`PartsError` if parts are used in a way they cannot be.

    Args:
        source (str): What :obj:`--data` names.
        distributed (bool): Whether processes train together.
        given (sequence): Options on the command line that a cut has settled already.
    """
    if not is_parts_folder(source):
        return
    if not distributed:
        raise PartsError(
            f"{source} holds the parts of a graph, one for each process: add --distributed, and "
            f"start with torchrun; or name the data it was cut from"
        )
    if given:
        raise PartsError(
            f"{', '.join(given)}: the graph in {source} was cut and split already. Leave it out, "
            f"or name the data it was cut from"
        )


def cut_once(
    dataset: Dataset, scheme: str | None, seed: int, parts: int, method: str, folder: Path
) -> Manifest:
    r"""The parts of a data set in a folder, made if they are not there.

    Args:
        dataset (Dataset): The data, of one graph.
        scheme (str, optional): How to split; :obj:`None` for what fits.
        seed (int): The seed of the split.
        parts (int): How many parts.
        method (str): :obj:`"metis"` or :obj:`"blocks"`.
        folder (Path): The folder. Parts of anything else in it are an error.
    """
    scheme = scheme or default_scheme(dataset)
    split = make_split(dataset, scheme, seed)
    origin: dict[str, Any] = {
        "data_hash": fingerprint(dataset)[:20],
        "split": without_folder(scheme),
        "split_seed": seed,
        "split_hash": split_hash(split),
        "split_name": split.name,
    }
    if folder.is_file():
        raise PartsError(f"{folder} is a file: name a folder for the parts")
    if folder.exists():
        return _same(folder, origin, parts, method)
    part = CUTS[method](dataset.graph(), parts)
    try:
        return write_parts(folder, dataset, split, part, parts, origin=origin, method=method)
    except OSError:
        if not folder.exists():
            raise
        return _same(folder, origin, parts, method)  # another process was faster


def _same(folder: Path, origin: dict[str, Any], parts: int, method: str) -> Manifest:
    found = read_manifest(folder)
    if (found.origin, found.parts, found.method) != (origin, parts, method):
        raise PartsError(
            f"{folder} holds {found.parts} parts by {found.method} of other data or another split: "
            f"delete it, or name another folder"
        )
    return found
