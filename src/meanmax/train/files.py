r"""Training half done, on disk, from which it goes on as if it had not stopped."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from meanmax.train.whole_file import whole_file

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
        with whole_file(self.path) as file:
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
