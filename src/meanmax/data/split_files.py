r"""Splits that a person or another project has written down."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path

import numpy as np

from meanmax.data.files import read_npz
from meanmax.data.dataset import Dataset
from meanmax.data.errors import DataError
from meanmax.data.refuse import refusing
from meanmax.data.split import Split
from meanmax.data.split_checks import checked_split

_WORDS = {
    "train": 0,
    "training": 0,
    "0": 0,
    "val": 1,
    "valid": 1,
    "validation": 1,
    "1": 1,
    "test": 2,
    "testing": 2,
    "2": 2,
}
_PARTS = ("train", "val", "test")


def read_split_file(dataset: Dataset, path: str, seed: int) -> Split:
    r"""Reads a split from a file.

    An :obj:`.npz` file holds node numbers or masks under :obj:`train`, :obj:`val`, :obj:`test`,
    with the name of the data set before them (:obj:`cora_train`) or :obj:`_mask` after them if
    there is no plain one. Of arrays with two dimensions, row :obj:`seed` counts, or the column if
    they are masks with a row for each node. A :obj:`.csv` file, with commas, semicolons or tabs,
    has the columns :obj:`id` and :obj:`split` (train, val or test); nodes that it does not name,
    or whose split is empty, are in no part.

    Args:
        dataset (Dataset): What is split.
        path (str): The file.
        seed (int): The row.
    """
    file = Path(path).expanduser()
    if not file.is_file():
        raise DataError(f"there is no split file '{file}'")
    with refusing(str(file), "give an npz with train, val and test, or a csv with id and split"):
        content = file.read_bytes()
        if file.suffix == ".npz":
            parts = _parts_of_npz(dataset, content, file.name, seed)
            name = f"{file.name}, row {seed}"
        else:
            parts = _parts_of_csv(dataset, content, file.name)
            name = file.name
        return checked_split(dataset, parts, name)


def _parts_of_npz(dataset: Dataset, content: bytes, what: str, seed: int) -> list[np.ndarray]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        present = {name.removesuffix(".npy") for name in archive.namelist()}
    forms = ("{}", f"{dataset.name}_{{}}", "{}_mask", f"{dataset.name}_{{}}_mask")
    for form in forms:
        keys = tuple(form.format(part) for part in _PARTS)
        if present.issuperset(keys):
            arrays = read_npz(content, keys, what)
            size = dataset.num_nodes
            return [_nodes(array, f"{what}: {key}", size, seed) for key, array in arrays.items()]
    wanted = " or ".join(form.format("train") for form in forms)
    raise DataError(f"'{what}' must hold {wanted} (and val, test); it holds {sorted(present)[:12]}")


def _nodes(array: np.ndarray, what: str, size: int, seed: int) -> np.ndarray:
    """Node numbers, from such or from a mask, of which PyG writes several as columns."""
    is_mask = array.dtype.kind == "b" or what.endswith("_mask")
    if array.ndim == 2:
        line, rows = "row", array
        if is_mask and array.shape[1] != size and array.shape[0] == size:
            line, rows = "column", array.T
        if seed >= rows.shape[0]:
            raise DataError(f"'{what}' has {rows.shape[0]} splits, no {line} {seed}")
        array = rows[seed]
    return _masked(array, what, size) if is_mask or _can_only_be_a_mask(array, size) else array


def _can_only_be_a_mask(array: np.ndarray, size: int) -> bool:
    """As node numbers, so many of 0 and 1 would repeat a node."""
    return size > 2 and array.shape == (size,) and _is_zeros_and_ones(array)


def _masked(array: np.ndarray, what: str, size: int) -> np.ndarray:
    if array.shape != (size,) or not _is_zeros_and_ones(array):
        raise DataError(f"'{what}' must hold masks of {size} nodes, true or false for each")
    return np.flatnonzero(array)


def _is_zeros_and_ones(array: np.ndarray) -> bool:
    return array.dtype.kind in "biuf" and bool(((array == 0) | (array == 1)).all())


def _parts_of_csv(dataset: Dataset, content: bytes, what: str) -> list[np.ndarray]:
    rows = _rows_of_csv(content.decode("utf-8-sig"), what)
    ids = range(dataset.num_nodes) if dataset.node_ids is None else dataset.node_ids
    node = {str(name): number for number, name in enumerate(ids)}
    parts: list[list[int]] = [[], [], []]
    for row in rows:
        name, word = (row["id"] or "").strip(), (row["split"] or "").strip().lower()
        if name not in node:
            raise DataError(f"line {rows.line_num} of '{what}': there is no node '{name}'")
        if word and word not in _WORDS:
            raise DataError(
                f"line {rows.line_num} of '{what}': 'split' must be train, val or test "
                f"(got {word!r})"
            )
        if word:
            parts[_WORDS[word]].append(node[name])
    return [np.array(part, np.int64) for part in parts]


def _rows_of_csv(text: str, what: str) -> csv.DictReader[str]:
    heading = text.partition("\n")[0]
    separator = max(",;\t", key=heading.count)
    rows = csv.DictReader(io.StringIO(text), strict=True, delimiter=separator)
    names = [name.strip().lower() for name in rows.fieldnames or ()]
    if not {"id", "split"}.issubset(names):
        raise DataError(f"'{what}' must have the columns id and split (got {rows.fieldnames})")
    rows.fieldnames = names
    return rows
