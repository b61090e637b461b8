r"""How compiled kernels run on threads, in one place.

A kernel is serial code for one block of work. The threads of a call take blocks from a common
counter until none is left, so that one long row does not hold up the others; every block writes
its own results, which therefore do not depend on the number of threads.

The threads are those of PyTorch's own OpenMP runtime, so that a process has one pool of them.
A second pool, whether it spins or sleeps, competes for the cores with PyTorch's, whose threads spin
for milliseconds after each operation.

OpenMP waits for all of its threads. If another process keeps a core busy, one of them may not run
for a time slice, and every kernel would take that long. A call that has waited so is noticed, and
the next ones run on one thread for a while.

Where PyTorch has no such runtime (macOS, Windows) and in
forked processes, in which an OpenMP runtime cannot start threads any more, a pool of Python threads
serves.
"""

from __future__ import annotations

import ctypes
import inspect
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import llvmlite.binding
import numba
import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.codegen import CPUCodeLibrary, JITCPUCodegen
from numba.extending import intrinsic

from meanmax.kernel_cache import DiskCache

CONTRACTED = {"contract"}
REORDERED = {"contract", "reassoc", "nsz"}
SMALL_WORK = 1 << 16  # numbers in all arrays together, below which a second thread does not pay

_linked = partial(numba.njit, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)

subroutine = partial(_linked, fastmath=CONTRACTED, forceinline=True)
r"""Compiles a function that kernels call; Python cannot call it."""

reordered_subroutine = partial(_linked, fastmath=REORDERED)
r"""The same for loops whose sums may be reordered, which vectorises dot products."""


def _find(name: str) -> int | None:
    r"""The address of a C function in PyTorch or what it depends on, such as its OpenMP runtime."""
    try:
        function = getattr(ctypes.CDLL(torch._C.__file__), name)
    except (OSError, AttributeError, TypeError):
        return None
    return ctypes.cast(function, ctypes.c_void_p).value


_clock = _find("clock_gettime")
_openmp = _find("GOMP_parallel") if torch.backends.openmp.is_available() and _clock else None
# Compiled code refers to these by name. Where there is no OpenMP, neither is called.
llvmlite.binding.add_symbol("meanmax_parallel", _openmp or 1)
llvmlite.binding.add_symbol("meanmax_clock", _clock or 1)
CLOCK = getattr(time, "CLOCK_MONOTONIC", 1)  # Windows has none
_pool: ThreadPoolExecutor | None = None

NEVER = np.iinfo(np.int64).max
LONG_WAIT, SHORTEST_PAUSE, LONGEST_PAUSE = 1_000_000, 50_000_000, 2_000_000_000  # nanoseconds


class Neighbours:
    r"""Whether other processes keep the cores busy, judged by how long calls wait for threads."""

    def __init__(self) -> None:
        self._pause = 0  # how long to run on one thread, in nanoseconds
        self._until = 0

    def are_busy(self, now: int) -> bool:
        r"""Whether a call should run on one thread."""
        return now < self._until

    def note(self, begin: int, first_done: int, end: int) -> None:
        r"""Takes when a call on several threads began, when its first thread had nothing more to
        do, and when it ended.
        """
        waited = end - first_done
        if waited > LONG_WAIT and waited > first_done - begin:
            self._pause = min(max(2 * self._pause, SHORTEST_PAUSE), LONGEST_PAUSE)
            self._until = end + self._pause
        else:
            self._pause = 0


_neighbours = Neighbours()


def _after_fork() -> None:
    global _openmp, _pool
    _openmp = _pool = None


if hasattr(os, "register_at_fork"):  # pragma: no branch
    os.register_at_fork(after_in_child=_after_fork)


def runtime() -> str:
    r"""Whose threads kernels run on."""
    return "Python threads" if _openmp is None else "PyTorch's OpenMP"


class Kernel:
    r"""A function of a block's number and of arrays, compiled on first use and cached on disk.

    Called with the arrays, it runs for every block, on as many threads as PyTorch uses at that
    moment, or on one if there is little to do. Results are written into the arrays.

    Args:
        function (callable): The function to compile: :obj:`function(b, blocks, ...)`, with as many
            blocks as :obj:`blocks` has rows. Its helpers are subroutines.
        reassociate (bool, optional): Whether sums within a loop may be reordered, which
            vectorises dot products. (default: :obj:`False`)
    """

    def __init__(self, function: Callable[..., Any], *, reassociate: bool = False) -> None:
        self._name = function.__name__.strip("<>")
        body = _linked(fastmath=REORDERED if reassociate else CONTRACTED)(function)
        # Named arguments: numba finds the types of a tuple of arrays slowly.
        names = ", ".join(list(inspect.signature(function).parameters)[1:])
        # numba tells functions of a module apart by their names.
        source = (
            f"def launch_{self._name}(_threads, _state, _count, {names}):\n"
            f"    run_blocks(body, _threads, _state, _count, ({names},))"
        )
        scope = {"__name__": function.__module__, "run_blocks": run_blocks, "body": body}
        exec(source, scope)
        self._launch = numba.njit(nogil=True, no_cfunc_wrapper=True)(scope[f"launch_{self._name}"])
        self._launch._cache = DiskCache(function)

    def __call__(self, blocks: Any, *args: Any) -> None:
        r"""Runs the kernel for every block."""
        count = len(blocks)
        threads = 1
        if count > 1:
            work = 0
            for arg in args:
                if type(arg) is np.ndarray:
                    work += arg.size
            if work >= SMALL_WORK:
                threads = torch.get_num_threads()
        state = np.array(
            (0, 0, NEVER)
        )  # the next block, whether one failed, the first thread's end
        if threads == 1:
            self._launch(1, state, count, blocks, *args)
        elif _openmp is None:
            self._run_on_pool(threads, state, count, blocks, *args)
        else:
            begin = time.clock_gettime_ns(CLOCK)
            if _neighbours.are_busy(begin):
                self._launch(1, state, count, blocks, *args)
            else:
                self._launch(threads, state, count, blocks, *args)
                _neighbours.note(begin, int(state[2]), time.clock_gettime_ns(CLOCK))
        if state[1]:
            raise MemoryError(f"not enough memory for the kernel {self._name!r}")

    def __repr__(self) -> str:
        return f"Kernel({self._name})"

    def _run_on_pool(self, threads: int, *args: Any) -> None:
        global _pool
        if _pool is None:
            _pool = ThreadPoolExecutor(max(os.cpu_count() or 1, threads), "meanmax")
        others = [_pool.submit(self._launch, 1, *args) for _ in range(threads - 1)]
        self._launch(1, *args)
        for other in others:
            if not other.cancel():  # those that have not begun have nothing to do any more
                other.result()


def kernel(*, reassociate: bool = False) -> Callable[[Callable[..., Any]], Kernel]:
    r"""Decorates a function as a :class:`Kernel`."""
    return lambda function: Kernel(function, reassociate=reassociate)


@contextmanager
def _only_linked():
    r"""What numba compiles inside is only linked into the kernel: neither optimised nor loaded.

    If it were loaded, its symbols would be found first, and the process that compiled the kernel
    would call them, unoptimised, until its end. It also saves a third of the time to compile.
    """
    changes = [
        (CPUCodeLibrary, "_optimize_final_module", lambda library: None),
        (CPUCodeLibrary, "_finalize_final_module", _mark_finalized),
        (JITCPUCodegen, "set_env", lambda codegen, name, env: None),
    ]
    if not all(hasattr(kind, name) for kind, name, _ in changes):  # another version of numba
        yield
        return
    with ExitStack() as restored:  # numba compiles under a lock
        for kind, name, replacement in changes:
            restored.callback(setattr, kind, name, getattr(kind, name))
            setattr(kind, name, replacement)
        yield


def _mark_finalized(library):
    library._finalized = True


@intrinsic
def run_blocks(typingctx, body, threads, state, count, args):
    r"""Calls :obj:`body(b, *args)` for all :obj:`b` below :obj:`count`, on :obj:`threads` threads.

    :obj:`state` holds the next block and receives whether a call failed and, with several threads,
    when the first of them found no more blocks.
    """
    with _only_linked():
        callee = body.get_call_type(typingctx, (types.int64, *args), {})

    def codegen(context, builder, signature, values):
        _, num_threads, state_value, num_blocks, packed = values
        compiled = body.dispatcher.get_compile_result(callee)
        context.active_code_library.add_linking_library(compiled.library)
        target = context.declare_function(builder.module, compiled.fndesc)
        shared = context.make_array(signature.args[2])(context, builder, state_value).data
        several = builder.icmp_signed(">", num_threads, num_threads.type(1))
        content = cgutils.pack_struct(builder, [shared, num_blocks, packed, several])
        data = cgutils.alloca_once_value(builder, content)
        worker = _define_worker(context, builder.module, content.type, target, callee)
        pointer = builder.bitcast(data, cgutils.voidptr_t)
        with builder.if_else(several) as sides:
            with sides[0]:
                kinds = [worker.type, cgutils.voidptr_t, cgutils.int32_t, cgutils.int32_t]
                kind = ir.FunctionType(ir.VoidType(), kinds)
                start = cgutils.get_or_insert_function(builder.module, kind, "meanmax_parallel")
                number = builder.trunc(num_threads, cgutils.int32_t)
                builder.call(start, [worker, pointer, number, cgutils.int32_t(0)])
            with sides[1]:
                builder.call(worker, [pointer])
        return context.get_dummy_value()

    return types.void(body, types.int64, state, types.int64, args), codegen


def _borrowed(context, builder, kind, value):
    r"""An array without its owner, whose references need not be counted.

    Every view counts one, atomically: threads would wait for each other at every row.
    """
    if not isinstance(kind, types.Array):
        return value
    array = context.make_array(kind)(context, builder, value)
    array.meminfo = array.meminfo.type(None)
    array.parent = array.parent.type(None)
    return array._getvalue()


def _monotonic(builder):
    r"""The time of :obj:`CLOCK` in nanoseconds."""
    number = ir.IntType(64)
    moment = cgutils.alloca_once(builder, ir.ArrayType(number, 2))
    kind = ir.FunctionType(cgutils.int32_t, [cgutils.int32_t, moment.type])
    clock = cgutils.get_or_insert_function(builder.module, kind, "meanmax_clock")
    builder.call(clock, [cgutils.int32_t(CLOCK), moment])
    seconds, rest = (builder.extract_value(builder.load(moment), place) for place in range(2))
    return builder.add(builder.mul(seconds, number(10**9)), rest)


def _define_worker(context, module, kind, target, callee):
    r"""The C function that each thread runs: it takes blocks until none is left."""
    worker = ir.Function(
        module,
        ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t]),
        module.get_unique_name("meanmax_worker"),
    )
    worker.linkage = "internal"
    builder = ir.IRBuilder(worker.append_basic_block("entry"))
    content = builder.load(builder.bitcast(worker.args[0], kind.as_pointer()))
    state, count, packed, several = (builder.extract_value(content, place) for place in range(4))
    args = [
        _borrowed(context, builder, kind, builder.extract_value(packed, place))
        for place, kind in enumerate(callee.args[1:])
    ]
    take, run, fail, done = map(worker.append_basic_block, ("take", "run", "fail", "done"))
    builder.branch(take)
    builder.position_at_end(take)
    block = builder.atomic_rmw("add", state, state.type.pointee(1), "monotonic")
    builder.cbranch(builder.icmp_signed("<", block, count), run, done)
    builder.position_at_end(run)
    status, _ = context.call_conv.call_function(
        builder, target, callee.return_type, callee.args, [block, *args]
    )
    builder.cbranch(status.is_error, fail, take)
    builder.position_at_end(fail)
    builder.store(state.type.pointee(1), builder.gep(state, [cgutils.int32_t(1)]))
    builder.branch(take)
    builder.position_at_end(done)
    with builder.if_then(several):
        end = builder.gep(state, [cgutils.int32_t(2)])
        builder.atomic_rmw("min", end, _monotonic(builder), "monotonic")
    builder.ret_void()
    return worker


PADDING = 32  # numbers: two cache lines or more


@subroutine
def scratch(size, dtype):
    r"""A vector for one block. Threads allocate theirs next to each other; without padding they
    would write to the same cache lines, which makes two threads slower than one.
    """
    return np.empty(size + 2 * PADDING, dtype)[PADDING : PADDING + size]


@subroutine
def zero_scratch(size, dtype):
    r"""The same, filled with zeros."""
    out = scratch(size, dtype)
    for i in range(np.uint64(size)):
        out[i] = 0
    return out


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
