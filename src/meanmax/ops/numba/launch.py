r"""How compiled kernels are started: threads, forks and the cache on disk, in one place."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_one_at_a_time = threading.Lock()  # numba's fallback thread pool aborts on concurrent launches
_has_run = False
_forked = False


class _Set(threading.local):
    threads = 0  # what this thread has told numba, whose setting is one per thread too


_set = _Set()


def _mark_fork() -> None:
    global _forked
    _forked = _has_run


if hasattr(os, "register_at_fork"):  # pragma: no branch
    os.register_at_fork(after_in_child=_mark_fork)


SMALL_WORK = 1 << 17  # numbers in all arrays together
MOST_THREADS: int = numba.config.NUMBA_NUM_THREADS

CONTRACTED = {"contract"}
REORDERED = {"contract", "reassoc", "nsz"}

subroutine = partial(numba.njit, error_model="numpy", fastmath=CONTRACTED, forceinline=True)
r"""Compiles a function that kernels call."""

reordered_subroutine = partial(numba.njit, error_model="numpy", fastmath=REORDERED)
r"""The same for loops whose sums may be reordered, which vectorises dot products."""


class Kernel:
    r"""A function over :obj:`prange` blocks, compiled on first use and cached on disk.

    It runs on as many threads as PyTorch uses, or on one if there is little to do. A process
    forked from one that has already run a kernel cannot use OpenMP again, so there the same code
    runs on one thread, compiled anew.

    Args:
        function (callable): The function to compile. Its helpers are subroutines.
        reassociate (bool, optional): Whether sums within a loop may be reordered, which
            vectorises dot products. (default: :obj:`False`)
    """

    def __init__(self, function: Callable[..., Any], *, reassociate: bool = False) -> None:
        self._function = function
        self._options = {
            "error_model": "numpy",
            "fastmath": REORDERED if reassociate else CONTRACTED,
            "nogil": True,
        }
        self._parallel = self._cached()
        self._serial: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> None:
        r"""Runs the kernel; results are written into arguments."""
        if _forked:
            if self._serial is None:
                self._serial = numba.njit(**self._options)(self._function)
            self._serial(*args)
            return
        global _has_run
        _has_run = True
        work = 0
        for arg in args:
            if type(arg) is np.ndarray:
                work += arg.size
        # One thread where waking another costs more than it does.
        threads = 1 if work < SMALL_WORK else min(torch.get_num_threads(), MOST_THREADS)
        with _one_at_a_time:
            if _set.threads != threads:
                numba.set_num_threads(threads)
                _set.threads = threads
            self._parallel(*args)

    def __repr__(self) -> str:
        return f"Kernel({self._function.__name__})"

    def _cached(self) -> Callable[..., Any]:
        try:
            return numba.njit(parallel=True, cache=True, **self._options)(self._function)
        except RuntimeError:  # no writable place for the cache: compile in every process
            return numba.njit(parallel=True, **self._options)(self._function)


def kernel(*, reassociate: bool = False) -> Callable[[Callable[..., Any]], Kernel]:
    r"""Decorates a function as a :class:`Kernel`."""
    return lambda function: Kernel(function, reassociate=reassociate)


@intrinsic
def read(typingctx, array, index):
    r""":obj:`array[index]` of a contiguous vector that nothing in this kernel writes to.

    The index must be unsigned: negative ones are not wrapped.
    """
    if not isinstance(array, types.Array) or array.ndim != 1 or array.layout != "C":
        return None

    def codegen(context, builder, signature, args):
        kind = signature.args[0]
        view = context.make_array(kind)(context, builder, args[0])
        load = builder.load(cgutils.gep(builder, view.data, args[1]))
        load.set_metadata("invariant.load", builder.module.add_metadata([]))
        return load

    return array.dtype(array, index), codegen


@intrinsic
def where(typingctx, test, a, b):
    r""":obj:`a` where :obj:`test` holds, else :obj:`b`; both are evaluated."""
    result = typingctx.unify_types(a, b)

    def codegen(context, builder, signature, args):
        test_value, *sides = args
        casts = [
            context.cast(builder, value, source, result)
            for value, source in zip(sides, signature.args[1:], strict=True)
        ]
        return builder.select(test_value, *casts)

    return result(types.boolean, a, b), codegen


@intrinsic
def larger(typingctx, a, b):
    r"""The larger of two numbers of one floating type, neither NaN."""
    if a != b or not isinstance(a, types.Float):
        return None

    def codegen(context, builder, signature, args):
        kind = args[0].type
        binary = ir.FunctionType(kind, [kind, kind])
        function = builder.module.declare_intrinsic("llvm.maxnum", [kind], binary)
        return builder.call(function, args, fastmath=("nnan",))

    return a(a, b), codegen
