r"""Checkpoints of training, and archives of facts and arrays, such as saved models."""

from __future__ import annotations

import json
import math
import time
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from meanmax.data.files import atomic_write, read_npy, reason_of
from meanmax.unpacking import check_members, check_pickles, check_regular

FORMAT = "meanmax.checkpoint/1"


class CheckpointError(RuntimeError):
    r"""A checkpoint that cannot be used."""


@dataclass
class Checkpoint:
    r"""The file that keeps the state of training, so that an interrupted run can be resumed.

    With :obj:`keep=True` it is also written at the end, so that the same run is not trained twice
    and can continue with more epochs. With :obj:`spare=True` training continues if the file cannot
    be written, and starts over if it cannot be used; it is then renamed to :obj:`.damaged`.
    """

    path: Path  # replaced atomically each time
    run: str  # identifies the run; a checkpoint of any other run is refused
    every: float = 30.0  # seconds between two writes
    spare: bool = False  # whether training can do without it
    keep: bool = False  # whether the state at the end is written as well
    largest: float = math.inf  # bytes of tensors beyond which no state is written at the end

    def __post_init__(self) -> None:
        self._last = time.monotonic()

    def is_due(self) -> bool:
        r"""Whether it is time to write."""
        return time.monotonic() - self._last >= self.every

    def write(self, state: dict[str, Any]) -> None:
        r"""Replaces the file."""
        try:
            with atomic_write(self.path, durable=not self.spare) as file:
                torch.save({"format": FORMAT, "run": self.run, **state}, file)
        except (OSError, RuntimeError):  # torch has its own error for a file that does not grow
            if not self.spare:
                raise
        self._last = time.monotonic()

    def read(self) -> dict[str, Any] | None:
        r"""The last state, or :obj:`None` if there is none. Nothing in the file is executed."""
        try:
            check_regular(self.path)
            with zipfile.ZipFile(self.path) as archive:  # torch reads compressed ones, too
                check_members(archive.infolist(), self.path.stat().st_size, self.path)
                check_pickles(archive)
            state = torch.load(self.path, weights_only=True, map_location="cpu")
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

    def set_aside(self) -> None:
        r"""Renames the file to end with :obj:`.damaged`."""
        with suppress(FileNotFoundError):  # another process may have done it
            self.path.replace(self.path.with_suffix(".damaged"))

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
    r"""Writes facts that JSON can represent and numeric arrays to one file, atomically."""
    kind = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", kind) as archive:
        archive.writestr(FACTS, json.dumps(facts, default=_plain))
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as entry:
                np.lib.format.write_array(entry, np.asarray(array), allow_pickle=False)


def read_archive(
    path: Path, expected: str | tuple[str, ...], wanted: Callable[[str], bool] = lambda name: True
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    r"""Reads the facts, which have to name an expected format, and the arrays with wanted names;
    the others are not decompressed. Raises a :class:`ValueError` for any other file.
    """
    try:
        check_regular(path)
        with zipfile.ZipFile(path) as archive:
            files = [FACTS, *(name for name in archive.namelist() if _is_wanted(name, wanted))]
            check_members(map(archive.getinfo, files), path.stat().st_size, path)
            facts = json.loads(archive.read(FACTS))
            formats = (expected,) if isinstance(expected, str) else expected
            if facts.get("format") not in formats:
                listed = " or ".join(map(repr, formats))
                raise ValueError(f"its format is {facts.get('format')!r}, not {listed}")
            arrays = {}
            for file in files[1:]:
                array = read_npy(archive.read(file), file)
                arrays[file.removesuffix(".npy")] = torch.from_numpy(np.array(array))
            return facts, arrays
    except FileNotFoundError:
        raise
    except _DAMAGE as error:
        raise ValueError(
            f"{path} was not saved by meanmax, or is damaged ({reason_of(error)})"
        ) from error


class Allocations(TorchFunctionMode):
    r"""Inside of it new tensors have at most so many elements in all, or a :class:`ValueError` is
    raised before memory is taken: what is built from the facts of a file cannot be much larger
    than the arrays in it.

    Args:
        most (int): The number of elements.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.left = most

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        r"""Counts the elements on the meta device first."""
        kwargs = kwargs or {}
        if func in _FACTORIES:
            sized = {name: value for name, value in kwargs.items() if name != "generator"}
            self.left -= func(*args, **{**sized, "device": "meta"}).numel()
            if self.left < 0:
                raise ValueError("it declares a model that is larger than the arrays it holds")
        return func(*args, **kwargs)


_FACTORIES = {
    *(torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.eye),
    *(torch.arange, torch.linspace, torch.Tensor.new_zeros, torch.Tensor.new_empty),
    *(torch.Tensor.new_ones, torch.Tensor.new_full),
}


def _is_wanted(file: str, wanted: Callable[[str], bool]) -> bool:
    return file.endswith(".npy") and wanted(file.removesuffix(".npy"))


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be saved: use plain numbers and text")
