r"""Reads the Python 2 pickles of Planetoid without running anything that they name.

A pickle is a program. Before it is run, :mod:`pickletools` decodes it, and any instruction or name
that Planetoid's files do not use is refused. Then :class:`pickle.Unpickler` runs it, but finds
inert classes of this module in place of the six names, so nothing is ever imported or called.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse

from meanmax.data.files import DataError, refusing
from meanmax.data.matrices import csr_problem

_INSTRUCTIONS = frozenset(
    "PROTO GLOBAL REDUCE NEWOBJ BUILD STOP BINPUT LONG_BINPUT BINGET LONG_BINGET MARK NONE "
    "EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_DICT SETITEMS EMPTY_LIST APPEND APPENDS "
    "BININT BININT1 BININT2 BINSTRING SHORT_BINSTRING NEWTRUE NEWFALSE".split()
)


def unpickle(content: bytes, what: str) -> Any:
    r"""Reads one pickle.

    Returns:
        An ndarray of numbers, a scipy :obj:`csr_array`, or a dict, list, tuple, number or bytes.
    """
    with refusing(what):
        _check_program(content, what)
        value = _Unpickler(io.BytesIO(content), fix_imports=False, encoding="bytes").load()
        if isinstance(value, _Built) and value.value is not None:
            return value.value
        if isinstance(value, _Built | type):
            raise DataError(f"'{what}' holds an array without content; get the file again")
        return value


def _check_program(content: bytes, what: str) -> None:
    found = ""
    program: Iterable[tuple[Any, Any, int | None]] = pickletools.genops(content)
    for opcode, argument, position in program:
        if opcode.name not in _INSTRUCTIONS:
            found = f"holds the pickle instruction {opcode.name}"
        elif opcode.name == "PROTO" and argument != 2:
            found = f"is a pickle of protocol {argument}"
        elif opcode.name == "GLOBAL" and argument not in _NAMES:
            found = f"names {argument[:80]!r}"
        elif opcode.name == "LONG_BINPUT" and argument > len(content):
            found = f"has {argument:,} objects"  # the unpickler would take memory for all of them
        elif opcode.name == "STOP" and position != len(content) - 1:
            found = "continues after the end of its pickle"
        if found:
            raise DataError(
                f"'{what}' {found}, which no Planetoid file does; nothing of it was run; get the "
                "file from its public source"
            )


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return _NAMES[f"{module} {name}"]


class _Built:
    """An object under construction: the value that its state gives it. As every class here has
    `__setstate__`, a state for a class itself, which would change the class, is an error."""

    value: Any = None

    def __setstate__(self, state: Any) -> None:
        raise ValueError("it gives a state to something that has none")


class _Dtype(_Built):
    def __init__(self, code: Any, *_: Any) -> None:
        self.code = code

    def __setstate__(self, state: Any) -> None:
        if self.code not in (b"i4", b"i8", b"f4", b"f8") or state[1] not in (b"<", b">"):
            raise ValueError("an array holds something other than 4- or 8-byte numbers")
        self.value = np.dtype((state[1] + self.code).decode("ascii"))


class _Array(_Built):
    def __init__(self, *_: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        if len(shape) > 2 or not all(isinstance(size, int) and size >= 0 for size in shape):
            raise ValueError("an array is neither a vector nor a matrix")
        if not isinstance(dtype, _Dtype) or dtype.value is None:
            raise ValueError("an array has no type")
        flat = np.frombuffer(data, dtype.value)
        native = flat.astype(flat.dtype.newbyteorder("="), copy=False)
        # numpy raises if shape and bytes disagree
        self.value = native.reshape(shape, order="F" if fortran else "C")


class _Csr(_Built):
    def __setstate__(self, state: Any) -> None:
        data, indices, indptr = (state[key].value for key in (b"data", b"indices", b"indptr"))
        problem = csr_problem(data, indices, indptr, state[b"_shape"])
        if problem:
            raise ValueError(f"of a sparse matrix, {problem}")
        self.value = scipy.sparse.csr_array((data, indices, indptr), state[b"_shape"])


class _Dict(_Built):
    def __new__(cls, *_: Any) -> Any:
        return {}


class _NotCalled(_Built):
    def __new__(cls, *_: Any) -> Any:
        raise ValueError("it calls something that is not a type; nothing was run")


_NAMES: dict[str, type[_Built]] = {
    "numpy.core.multiarray _reconstruct": _Array,
    "numpy ndarray": _NotCalled,
    "numpy dtype": _Dtype,
    "scipy.sparse.csr csr_matrix": _Csr,
    "collections defaultdict": _Dict,
    "__builtin__ list": _NotCalled,
}
