r"""What is derived from a tensor, kept as long as the tensor lives and is not changed in place."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, final

from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary


@final
class Memory:
    r"""A dictionary for each tensor.

    It is found by the identity of the tensor, ends with the tensor, and starts empty once the
    tensor was changed in place. A value must not hold the tensor itself, or neither would end.
    Changes that PyTorch does not see, through numpy or :obj:`tensor.data`, go unnoticed.

    Example:
        >>> import torch
        >>> memory, edge_index = Memory(), torch.tensor([[0, 1], [1, 0]])
        >>> memory.of(edge_index)["degree"] = 1
        >>> memory.of(edge_index)
        {'degree': 1}
        >>> edge_index[0, 0] = 1
        >>> memory.of(edge_index), len(memory)
        ({}, 1)
        >>> del edge_index
        >>> len(memory)
        0
    """

    def __init__(self) -> None:
        self._known: Final[Any] = WeakIdKeyDictionary()

    def of(self, tensor: Tensor) -> dict[Hashable, Any]:
        r"""What is known of a tensor, to be read and added to."""
        if tensor.is_inference():  # such tensors do not count their changes
            return {}
        version, known = self._known.get(tensor, (None, None))
        if known is None or version != tensor._version:
            known = {}
            self._known[tensor] = tensor._version, known
        found: dict[Hashable, Any] = known
        return found

    def __len__(self) -> int:
        return len(self._known)
