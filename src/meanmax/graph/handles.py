r"""Objects that compiled code passes around as tensors: graphs, and what a backward pass needs.

An operation of :mod:`torch.library` takes and returns tensors. An object goes through one as its
*handle*, a tensor of one number that stands for it.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import numpy as np
import torch
from torch import Tensor

_numbers = itertools.count(1)
_kept: dict[int, tuple[weakref.ref[np.ndarray], Any]] = {}
_known: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def make_handle(value: object) -> Tensor:
    r"""A handle of an object that lives on its own."""
    number = next(_numbers)
    _known[number] = value
    return torch.from_numpy(_array(number))


def keep(value: object) -> Tensor:
    r"""A handle that keeps an object alive: until the memory of the tensor is freed, wherever
    references to it went meanwhile.
    """
    number = next(_numbers)
    array = _array(number)
    # The tensor's storage holds the array, so that the array dies with it.
    _kept[number] = weakref.ref(array, lambda _: _kept.pop(number, None)), value
    return torch.from_numpy(array)


def lookup(handle: Tensor) -> Any:
    r"""The object of a handle or of a copy of one."""
    number = int(handle.view(torch.int64))
    value = _kept[number][1] if number in _kept else _known.get(number)
    if value is None:
        raise RuntimeError(
            "a compiled function kept a copy of a meanmax handle longer than the handle itself "
            "(e.g. torch.autograd.graph.save_on_cpu does): run it without torch.compile"
        )
    return value


def num_kept() -> int:
    r"""How many objects handles keep alive."""
    return len(_kept)


def _array(number: int) -> np.ndarray:
    # The number is in the bits of a float64 that is as good as 0: what compares the results of two
    # runs, as torch.library.opcheck does, does not see that the handles differ.
    return np.array(number, np.int64).view(np.float64)
