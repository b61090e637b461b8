r"""Reads the Python 2 pickles of Planetoid without running anything that they say.

A pickle is a program: Python's own unpickler imports and calls what it names. This reader knows
only the 29 instructions that Planetoid's files consist of, and six names, for which it builds
arrays, matrices and dictionaries by itself. Every other instruction or name is refused, so nothing
is ever imported, looked up or called.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

from meanmax.data.files import DataError, refusing
from meanmax.data.matrices import checked_csr


class Name(Enum):
    r"""The names, as module and name."""

    ARRAY = b"numpy.core.multiarray _reconstruct"
    NDARRAY = b"numpy ndarray"
    DTYPE = b"numpy dtype"
    CSR = b"scipy.sparse.csr csr_matrix"
    DEFAULTDICT = b"collections defaultdict"
    LIST = b"__builtin__ list"


class PickledDtype:
    r"""The type of an array's numbers.

    Args:
        code (bytes): Kind and size, such as :obj:`b"i4"`.
    """

    def __init__(self, code: Any) -> None:
        self.code = code
        self.order: Any = b"<"

    def build(self, state: Any, what: str) -> None:
        r"""Takes the byte order."""
        self.order = state[1]

    def dtype(self) -> Any:
        r"""The type for numpy, if it is one of 4- or 8-byte numbers."""
        if self.code not in (b"i4", b"i8", b"f4", b"f8") or self.order not in (b"<", b">"):
            raise DataError("its array holds something other than 4- or 8-byte numbers")
        return np.dtype((self.order + self.code).decode("ascii"))


class PickledArray:
    r"""A vector or matrix of numbers."""

    value: np.ndarray | None = None

    def build(self, state: Any, what: str) -> None:
        r"""Takes version, shape, type, order and bytes."""
        _, shape, dtype, fortran, data = state
        if len(shape) > 2 or not all(isinstance(size, int) and size >= 0 for size in shape):
            raise DataError(f"'{what}' holds an array that is neither a vector nor a matrix")
        flat = np.frombuffer(data, dtype.dtype())
        native = flat.astype(flat.dtype.newbyteorder("="), copy=False)
        # numpy raises where shape and bytes disagree
        self.value = native.reshape(shape, order="F" if fortran else "C")


class PickledCsr:
    r"""A sparse matrix."""

    value: Any = None

    def build(self, state: Any, what: str) -> None:
        r"""Takes the dictionary of its attributes."""
        data, indices, indptr = (state[key].value for key in (b"data", b"indices", b"indptr"))
        self.value = checked_csr(data, indices, indptr, state[b"_shape"], what)


def unpickle(content: bytes, what: str) -> Any:
    r"""Reads one pickle.

    Args:
        content (bytes): The file.
        what (str): The name to use in errors.

    Returns:
        An ndarray of numbers, a scipy :obj:`csr_array`, or a dict, list, tuple, number or bytes.
    """
    with refusing(what):
        value = _Machine(content, what).run()
        if isinstance(value, PickledArray | PickledCsr):
            if value.value is None:
                raise DataError(f"'{what}' holds an array without content; get the file again")
            return value.value
        return value


class _Machine:
    """The stack machine that a pickle runs on."""

    def __init__(self, content: bytes, what: str) -> None:
        self.content = content
        self.what = what
        self.position = 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        while (opcode := self.take(1)) != b".":
            step = _STEPS.get(opcode)
            if step is None:
                raise DataError(
                    f"'{self.what}' holds the pickle instruction {opcode!r}, which Planetoid's "
                    "files do not use; nothing of it was run; get the file from its public source"
                )
            step(self)
        if len(self.stack) != 1 or self.position != len(self.content):
            raise DataError(f"'{self.what}' does not end where its pickle ends")
        return self.stack.pop()

    def take(self, size: int) -> bytes:
        piece = self.content[self.position : self.position + size]
        if len(piece) != size:
            raise DataError(f"'{self.what}' is cut short at byte {len(self.content)}")
        self.position += size
        return piece

    def number(self, form: str) -> int:
        (value,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return int(value)

    def line(self) -> bytes:
        end = self.content.index(b"\n", self.position)
        return self.take(end + 1 - self.position)[:-1]

    def pop_to_mark(self) -> list[Any]:
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def push_tuple(self, size: int) -> None:
        if size > len(self.stack):
            raise DataError(f"'{self.what}' takes more from the stack than it holds")
        items = tuple(self.stack[len(self.stack) - size :])
        del self.stack[len(self.stack) - size :]
        self.stack.append(items)

    def protocol(self) -> None:
        version = self.number("<B")
        if version != 2:
            raise DataError(
                f"'{self.what}' is a pickle of protocol {version}, and Planetoid's are of 2; "
                "nothing of it was run; get the file from its public source"
            )

    def name(self) -> None:
        wanted = self.line() + b" " + self.line()
        try:
            self.stack.append(Name(wanted))
        except ValueError:
            raise DataError(
                f"'{self.what}' names {wanted[:80].decode('latin1')!r}, which no Planetoid file "
                "does; nothing of it was run; get the file from its public source"
            ) from None

    def call(self) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if function is Name.ARRAY:
            self.stack.append(PickledArray())
        elif function is Name.CSR:
            self.stack.append(PickledCsr())
        elif function is Name.DEFAULTDICT:
            self.stack.append({})
        elif function is Name.DTYPE:
            self.stack.append(PickledDtype(arguments[0]))
        else:
            raise DataError(f"'{self.what}' calls something that is not a type; nothing was run")

    def build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if not isinstance(target, PickledDtype | PickledArray | PickledCsr):
            raise DataError(f"'{self.what}' gives a state to something that has none")
        target.build(state, self.what)

    def put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def get(self, index: int) -> None:
        self.stack.append(self.memo[index])

    def extend(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise DataError(f"'{self.what}' appends to something that is not a list")
        self.stack[-1].extend(items)

    def set_items(self) -> None:
        items = self.pop_to_mark()
        if not isinstance(self.stack[-1], dict):
            raise DataError(f"'{self.what}' sets items of something that is not a dictionary")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, int | bytes):
                raise DataError(f"'{self.what}' has a key that is neither number nor text")
            self.stack[-1][key] = value


_STEPS: dict[bytes, Callable[[_Machine], None]] = {
    b"\x80": _Machine.protocol,
    b"c": _Machine.name,
    b"R": _Machine.call,
    b"\x81": _Machine.call,
    b"b": _Machine.build,
    b"q": lambda m: m.put(m.number("<B")),
    b"r": lambda m: m.put(m.number("<I")),
    b"h": lambda m: m.get(m.number("<B")),
    b"j": lambda m: m.get(m.number("<I")),
    b"(": lambda m: m.marks.append(len(m.stack)),
    b")": lambda m: m.stack.append(()),
    b"\x85": lambda m: m.push_tuple(1),
    b"\x86": lambda m: m.push_tuple(2),
    b"\x87": lambda m: m.push_tuple(3),
    b"t": lambda m: m.stack.append(tuple(m.pop_to_mark())),
    b"}": lambda m: m.stack.append({}),
    b"]": lambda m: m.stack.append([]),
    b"u": _Machine.set_items,
    b"a": lambda m: m.extend([m.stack.pop()]),
    b"e": lambda m: m.extend(m.pop_to_mark()),
    b"K": lambda m: m.stack.append(m.number("<B")),
    b"M": lambda m: m.stack.append(m.number("<H")),
    b"J": lambda m: m.stack.append(m.number("<i")),
    b"U": lambda m: m.stack.append(m.take(m.number("<B"))),
    b"T": lambda m: m.stack.append(m.take(m.number("<I"))),
    b"N": lambda m: m.stack.append(None),
    b"\x88": lambda m: m.stack.append(True),
    b"\x89": lambda m: m.stack.append(False),
}
