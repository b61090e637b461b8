r"""Reads the Python 2 pickles of Planetoid without executing anything in them.

A pickle is a program, and Python's unpickler imports and calls what it names. This reader lets
:mod:`pickletools` decode the instructions and interprets only those that Planetoid's files use.
Six names are known, for which it builds arrays, matrices and dictionaries itself; every other
instruction or name is refused, so nothing is ever imported, looked up or called. (A
:class:`pickle.Unpickler` with an allow-list is not as safe: a single instruction can make its C
code allocate gigabytes for the memo, and others change the attributes of the classes it admits.)
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from meanmax.data.files import DataError, refusing
from meanmax.data.matrices import checked_csr


def unpickle(content: bytes, what: str) -> Any:
    r"""Reads one pickle.

    Args:
        content (bytes): The file.
        what (str): The name to use in errors.

    Returns:
        An ndarray of numbers, a scipy :obj:`csr_array`, or a dict, list, tuple, number or bytes.
    """
    with refusing(what):
        value = _Interpreter(what).run(content)
        if isinstance(value, _Built):
            if value.value is None:
                raise DataError(f"'{what}' holds an array without content; get the file again")
            return value.value
        return value


class _Built:
    """An object under construction: the value that its state gives it."""

    value: Any = None

    def build(self, state: Any, what: str) -> None:
        raise NotImplementedError


class _Dtype(_Built):
    def __init__(self, code: Any) -> None:
        self.code = code

    def build(self, state: Any, what: str) -> None:
        if self.code not in (b"i4", b"i8", b"f4", b"f8") or state[1] not in (b"<", b">"):
            raise DataError(f"'{what}' has an array of something other than 4- or 8-byte numbers")
        self.value = np.dtype((state[1] + self.code).decode("ascii"))


class _Array(_Built):
    def build(self, state: Any, what: str) -> None:
        _, shape, dtype, fortran, data = state
        if len(shape) > 2 or not all(isinstance(size, int) and size >= 0 for size in shape):
            raise DataError(f"'{what}' holds an array that is neither a vector nor a matrix")
        flat = np.frombuffer(data, dtype.value)
        native = flat.astype(flat.dtype.newbyteorder("="), copy=False)
        # numpy raises if shape and bytes disagree
        self.value = native.reshape(shape, order="F" if fortran else "C")


class _Csr(_Built):
    def build(self, state: Any, what: str) -> None:
        data, indices, indptr = (state[key].value for key in (b"data", b"indices", b"indptr"))
        self.value = checked_csr(data, indices, indptr, state[b"_shape"], what)


# The known names, and what calling them gives; None may not be called.
_NAMES: dict[str, Callable[[Any], Any] | None] = {
    "numpy.core.multiarray _reconstruct": lambda arguments: _Array(),
    "numpy ndarray": None,
    "numpy dtype": lambda arguments: _Dtype(arguments[0]),
    "scipy.sparse.csr csr_matrix": lambda arguments: _Csr(),
    "collections defaultdict": lambda arguments: {},
    "__builtin__ list": None,
}


class _Interpreter:
    """The stack machine of a pickle. Each step takes the decoded argument of its instruction."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:
        for opcode, argument, position in pickletools.genops(content):
            if opcode.name == "STOP" and len(self.stack) == 1 and position == len(content) - 1:
                return self.stack.pop()
            if opcode.name not in _STEPS:
                self.refuse_program(f"holds the pickle instruction {opcode.name}")
            _STEPS[opcode.name](self, argument)
        raise DataError(f"'{self.what}' is empty")

    def refuse_program(self, found: str) -> NoReturn:
        raise DataError(
            f"'{self.what}' {found}, which no Planetoid file does; nothing of it was run; get the "
            "file from its public source"
        )

    def stop_early(self, _: None) -> None:
        raise DataError(f"'{self.what}' does not end where its pickle ends")

    def protocol(self, version: int) -> None:
        if version != 2:
            self.refuse_program(f"is a pickle of protocol {version}")

    def name(self, wanted: str) -> None:
        if wanted not in _NAMES:
            self.refuse_program(f"names {wanted[:80]!r}")
        self.stack.append(wanted)  # no other string reaches the stack: texts are bytes

    def call(self, _: None) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        make = _NAMES.get(function) if isinstance(function, str) else None
        if make is None:
            raise DataError(f"'{self.what}' calls something that is not a type; nothing was run")
        self.stack.append(make(arguments))

    def build(self, _: None) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if not isinstance(target, _Built):
            raise DataError(f"'{self.what}' gives a state to something that has none")
        target.build(state, self.what)

    def pop(self, start: int) -> list[Any]:
        if start < 0:
            raise DataError(f"'{self.what}' takes more from the stack than it holds")
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def pop_to_mark(self) -> list[Any]:
        return self.pop(self.marks.pop())

    def push_tuple(self, size: int) -> None:
        self.stack.append(tuple(self.pop(len(self.stack) - size)))

    def extend(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise DataError(f"'{self.what}' appends to something that is not a list")
        self.stack[-1].extend(items)

    def set_items(self, _: None) -> None:
        items = self.pop_to_mark()
        if not isinstance(self.stack[-1], dict):
            raise DataError(f"'{self.what}' sets items of something that is not a dictionary")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, int | bytes):
                raise DataError(f"'{self.what}' has a key that is neither number nor text")
            self.stack[-1][key] = value

    def put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def get(self, index: int) -> None:
        self.stack.append(self.memo[index])

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def push_text(self, text: str) -> None:
        self.stack.append(text.encode("latin-1"))  # as pickletools decodes Python 2's bytes


_STEPS: dict[str, Callable[[_Interpreter, Any], None]] = {
    "PROTO": _Interpreter.protocol,
    "GLOBAL": _Interpreter.name,
    "REDUCE": _Interpreter.call,
    "NEWOBJ": _Interpreter.call,
    "BUILD": _Interpreter.build,
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), _Interpreter.put),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), _Interpreter.get),
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "NONE"), _Interpreter.push),
    **dict.fromkeys(("BINSTRING", "SHORT_BINSTRING"), _Interpreter.push_text),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "MARK": lambda machine, _: machine.marks.append(len(machine.stack)),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.pop_to_mark())),
    "TUPLE1": lambda machine, _: machine.push_tuple(1),
    "TUPLE2": lambda machine, _: machine.push_tuple(2),
    "TUPLE3": lambda machine, _: machine.push_tuple(3),
    "APPEND": lambda machine, _: machine.extend([machine.stack.pop()]),
    "APPENDS": lambda machine, _: machine.extend(machine.pop_to_mark()),
    "SETITEMS": _Interpreter.set_items,
    "STOP": _Interpreter.stop_early,
}
