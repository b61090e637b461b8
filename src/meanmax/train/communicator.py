r"""The processes that train one model together, or the only one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import Parameter

from meanmax.train.checkpoint import Checkpoint


class Communicator(Protocol):
    r"""Processes that train one model together, each with its share of the nodes.

    All of them make the same calls in the same order and see the same losses, so that they make the
    same decisions.
    """

    @property
    def rank(self) -> int:
        r"""The number of this process."""

    def total(self, values: Sequence[float]) -> list[float]:
        r"""The sums over all processes."""

    def share_gradients(self, parameters: Sequence[Parameter]) -> None:
        r"""Replaces every gradient by the sum over all processes."""

    def agree(self, wish: bool) -> bool:
        r"""The decision of the first process."""

    def write(self, checkpoint: Checkpoint, state: dict[str, Any]) -> None:
        r"""Writes one checkpoint for all processes, with the :obj:`"generator"` of each."""

    def read(self, checkpoint: Checkpoint) -> dict[str, Any] | None:
        r"""Reads the checkpoint, with this process's own :obj:`"generator"`."""


class SingleProcess:
    r"""One process, which holds everything."""

    rank = 0

    def total(self, values: Sequence[float]) -> list[float]:
        r"""The values themselves."""
        return list(values)

    def share_gradients(self, parameters: Sequence[Parameter]) -> None:
        r"""Leaves the gradients as they are."""

    def agree(self, wish: bool) -> bool:
        r"""The decision itself."""
        return wish

    def write(self, checkpoint: Checkpoint, state: dict[str, Any]) -> None:
        r"""Writes the checkpoint."""
        checkpoint.write(state)

    def read(self, checkpoint: Checkpoint) -> dict[str, Any] | None:
        r"""Reads the checkpoint."""
        return checkpoint.read()


SINGLE_PROCESS = SingleProcess()


def own_seed(seed: int, rank: int) -> int:
    r"""The seed of what a rank draws for itself, such as dropout.

    Example:
        >>> own_seed(0, 0), own_seed(0, 1)
        (0, 7919)
    """
    return seed + 7919 * rank


def flattened(tensors: Sequence[Tensor]) -> Tensor:
    r"""All numbers of some tensors in one float64 tensor, to be sent as one message."""
    return torch.cat([tensor.detach().reshape(-1).double() for tensor in tensors])
