r"""Arrays whose memory is used again.

Fresh memory is slow: the system hands it out page by page and zeroes each, which at few neighbours
per node takes longer than a kernel. Every thread therefore keeps some buffers. One is free as soon
as nothing else refers to it, arrays and tensors made from it included.
"""

from __future__ import annotations

import math
import sys
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
SMALLEST = 1 << 16  # bytes, below which the allocator has memory at hand
LARGEST_TOTAL = 1 << 27  # bytes that a thread keeps
_REFERENCES = 2  # of a free buffer: the list, and the argument of getrefcount


class _Buffers(threading.local):
    def __init__(self) -> None:
        self.kept: list[Array] = []


_buffers = _Buffers()


def empty(shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    r"""The same as :func:`numpy.empty`, in memory that was used before where there is some."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    if not SMALLEST <= size <= LARGEST_TOTAL:
        return np.empty(shape, kind)
    kept = _buffers.kept
    for place in reversed(range(len(kept))):  # the last one used is still in the cache
        if size <= kept[place].size <= 2 * size and sys.getrefcount(kept[place]) == _REFERENCES:
            kept.append(kept.pop(place))
            return kept[-1][:size].view(kind).reshape(shape)
    buffer = np.empty(size, np.uint8)
    total = size + sum(other.size for other in kept)
    while kept and total > LARGEST_TOTAL:
        total -= kept.pop(0).size
    kept.append(buffer)
    return buffer.view(kind).reshape(shape)


def empty_like(array: Array) -> Array:
    r"""The same as :func:`numpy.empty_like`, for a contiguous array."""
    return empty(array.shape, array.dtype)


def release() -> None:
    r"""Gives the memory back that this thread keeps."""
    _buffers.kept.clear()
