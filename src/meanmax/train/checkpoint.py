r"""Checkpoints of training, and archives of facts and arrays, such as saved models."""

from __future__ import annotations

import json
import time
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from meanmax.data.files import atomic_write

FORMAT = "meanmax.checkpoint/1"


class CheckpointError(RuntimeError):
    r"""A checkpoint that cannot be used."""


@dataclass
class Checkpoint:
    r"""Where the state of training is kept, and how often.

    Args:
        path (Path): The file, replaced as a whole each time.
        run (str): What is being trained; a checkpoint of anything else is refused.
        every (float, optional): Seconds between two. (default: :obj:`30.0`)
    """

    path: Path
    run: str
    every: float = 30.0

    def __post_init__(self) -> None:
        r"""Starts the clock."""
        self._last = time.monotonic()

    def is_due(self) -> bool:
        r"""Whether it is time for the next."""
        return time.monotonic() - self._last >= self.every

    def write(self, state: dict[str, Any]) -> None:
        r"""Writes to a temporary file beside the path, then renames it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(self.path) as file:
            torch.save({"format": FORMAT, "run": self.run, **state}, file)
        self._last = time.monotonic()

    def read(self) -> dict[str, Any] | None:
        r"""What was written last, or :obj:`None`; nothing in the file is executed."""
        try:
            state = torch.load(self.path, weights_only=True)
        except FileNotFoundError:
            return None
        except Exception as error:  # torch raises many kinds for a damaged file
            raise CheckpointError(self._refusal("is damaged")) from error
        if not isinstance(state, dict) or state.get("format") != FORMAT:
            raise CheckpointError(self._refusal("is not one of meanmax's checkpoints"))
        if state.get("run") != self.run:
            raise CheckpointError(self._refusal("belongs to a run with other settings or data"))
        return state

    def remove(self) -> None:
        r"""Deletes the file."""
        self.path.unlink(missing_ok=True)

    def _refusal(self, what: str) -> str:
        return f"checkpoint {self.path} {what}: delete or move it to start over"


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
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", kind) as archive:
        archive.writestr(FACTS, json.dumps(facts, default=_plain))
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as entry:
                np.lib.format.write_array(entry, np.asarray(array), allow_pickle=False)


def read_archive(
    path: Path, expected: str, wanted: Callable[[str], bool] = lambda name: True
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    r"""Reads facts and arrays; a :class:`ValueError` if the file is none or of another format.

    Args:
        path (Path): The file.
        expected (str): The format that the facts must name.
        wanted (callable, optional): Selects arrays by name; the others are not decompressed.
            (default: all)
    """
    try:
        with zipfile.ZipFile(path) as archive:
            facts = json.loads(archive.read(FACTS))
            if facts.get("format") != expected:
                raise ValueError(f"its format is {facts.get('format')!r}, not {expected!r}")
            arrays = {}
            for file in archive.namelist():
                name = file.removesuffix(".npy")
                if name != file and wanted(name):
                    with archive.open(file) as entry:
                        array = np.lib.format.read_array(entry, allow_pickle=False)
                    arrays[name] = torch.from_numpy(array)
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
