r"""Files of facts and arrays that nothing is executed from: a zip of JSON and numpy."""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from meanmax.train.whole_file import whole_file

FACTS = "facts.json"

_DAMAGE = (
    AttributeError,  # facts that are no dictionary
    EOFError,
    KeyError,
    NotImplementedError,  # a compression that Python does not know
    OSError,
    RuntimeError,  # an encrypted entry
    TypeError,  # arrays of text
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)


def write_archive(
    path: Path, facts: dict[str, Any], arrays: dict[str, np.ndarray], *, compress: bool = False
) -> None:
    r"""Writes facts and arrays to a temporary file beside :obj:`path`, then renames it.

    Args:
        path (Path): The file.
        facts (dict): What JSON can hold.
        arrays (dict): Numbers by name.
        compress (bool, optional): Whether the file is to be small. (default: :obj:`False`)
    """
    kind = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with whole_file(path) as file, zipfile.ZipFile(file, "w", kind) as archive:
        archive.writestr(FACTS, json.dumps(facts, default=_plain))
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as entry:
                np.lib.format.write_array(entry, np.asarray(array), allow_pickle=False)


def read_archive(path: Path, expected: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    r"""Reads facts and arrays; a :class:`ValueError` if the file is none or of another format.

    Args:
        path (Path): The file.
        expected (str): The format that the facts must name.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            facts = json.loads(archive.read(FACTS))
            if facts.get("format") != expected:
                raise ValueError(f"its format is {facts.get('format')!r}, not {expected!r}")
            arrays = {}
            for name in archive.namelist():
                if name.endswith(".npy"):
                    with archive.open(name) as entry:
                        array = np.lib.format.read_array(entry, allow_pickle=False)
                    arrays[name.removesuffix(".npy")] = torch.from_numpy(array)
            return facts, arrays
    except FileNotFoundError:
        raise
    except _DAMAGE as error:
        raise ValueError(f"{path} was not saved by meanmax, or is damaged ({error})") from error


def _plain(value: object) -> object:
    """Numpy's numbers as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be saved: use plain numbers and text")
