r"""What training asks of the processes that take part in it; alone there is nothing to ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import Parameter

from meanmax.train.checkpoint import Checkpoint


class Communicator(Protocol):
    r"""Processes that train one model together, each with its share of the nodes.

    All of them make the same calls in the same order and see the same losses, so that they take the
    same decisions.
    """

    def total(self, values: Sequence[float]) -> list[float]:
        r"""The sums over all processes."""

    def share_gradients(self, parameters: Sequence[Parameter]) -> None:
        r"""Replaces every gradient by the sum over all processes."""

    def agree(self, wish: bool) -> bool:
        r"""What the first process wishes."""

    def write(self, checkpoint: Checkpoint, state: dict[str, Any]) -> None:
        r"""Writes a checkpoint of all processes; :obj:`"generator"` is each one's own."""

    def read(self, checkpoint: Checkpoint) -> dict[str, Any] | None:
        r"""What was written, with this process's own :obj:`"generator"`."""


class SingleProcess:
    r"""One process, which holds everything."""

    def total(self, values: Sequence[float]) -> list[float]:
        r"""The values themselves."""
        return list(values)

    def share_gradients(self, parameters: Sequence[Parameter]) -> None:
        r"""Leaves them as they are."""

    def agree(self, wish: bool) -> bool:
        r"""As wished."""
        return wish

    def write(self, checkpoint: Checkpoint, state: dict[str, Any]) -> None:
        r"""Writes it."""
        checkpoint.write(state)

    def read(self, checkpoint: Checkpoint) -> dict[str, Any] | None:
        r"""Reads it."""
        return checkpoint.read()


SINGLE_PROCESS = SingleProcess()


def flattened(tensors: Sequence[Tensor]) -> Tensor:
    r"""All numbers of some tensors in one, float64: one message instead of many."""
    return torch.cat([tensor.detach().reshape(-1).double() for tensor in tensors])
