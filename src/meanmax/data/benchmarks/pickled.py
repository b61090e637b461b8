r"""What a Planetoid pickle may name, and what is built for it: nothing is imported or called."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from meanmax.data.errors import DataError
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
