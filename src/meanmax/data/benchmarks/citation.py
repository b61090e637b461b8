r"""Cora, Citeseer and Pubmed: Planetoid's files, and Cora's original text files.

Planetoid's files are Python 2 pickles, and a pickle is a program. Before it is run,
:mod:`pickletools` decodes it, and any instruction or name that Planetoid's files do not use is
refused. Then :class:`pickle.Unpickler` runs it, but finds inert classes of this module in place of
the six names, so nothing is ever imported or called.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Iterable
from importlib.resources import files as resources
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch

from meanmax.data.dataset import UNLABELLED, Dataset, Split
from meanmax.data.files import DataError, refusing
from meanmax.data.matrices import csr_problem, undirected
from meanmax.graph import SparseFeatures

_MOST_GAPS = 1000  # of the test ids; Citeseer has 15


class Citations(NamedTuple):
    r"""A citation graph as released, before preparation."""

    x: Any  # csr_array, the words of each paper
    y: np.ndarray  # its class, -1 if none is known
    source: np.ndarray
    target: np.ndarray
    split: Split


def read_planetoid(name: str, files: dict[str, bytes]) -> Citations:
    r"""Reads the eight files :obj:`ind.NAME.*`. The rows of test nodes go where :obj:`test.index`
    says; an id that is missing there (15 in Citeseer) is a node without words and label.
    """
    parts = {key.removeprefix(f"ind.{name}."): content for key, content in files.items()}
    with refusing(f"ind.{name}.*", "get the eight files again"):
        allx, tx = (_matrix(parts[key], f"ind.{name}.{key}") for key in ("allx", "tx"))
        ally, ty = (_classes(parts[key], f"ind.{name}.{key}") for key in ("ally", "ty"))
        trained = _classes(parts["y"], f"ind.{name}.y").size
        test = _test_ids(parts["test.index"], ally.size, f"ind.{name}.test.index")
        if (allx.shape[0], tx.shape[0], tx.shape[0]) != (ally.size, ty.size, test.size):
            raise DataError(f"the files ind.{name}.* disagree on the number of nodes")
        num_nodes = max(ally.size, int(test.max(initial=-1)) + 1)
        row = np.full(num_nodes, ally.size + ty.size)  # a row of zeros, for missing ids
        row[: ally.size] = np.arange(ally.size)
        row[test] = ally.size + np.arange(test.size)
        blank = scipy.sparse.csr_array((1, allx.shape[1]), dtype=allx.dtype)
        x = scipy.sparse.csr_array(scipy.sparse.vstack([allx, tx, blank]))[row]
        y = np.concatenate([ally, ty, [UNLABELLED]])[row]
        ends = _citations(parts["graph"], num_nodes, f"ind.{name}.graph")
        return Citations(x, y, *ends, public_split(trained, np.sort(test)))


def public_split(trained: int, test: np.ndarray) -> Split:
    r"""Planetoid's split: the first nodes train, the next 500 validate."""
    train, val = torch.arange(trained), torch.arange(trained, trained + 500)
    return Split(train, val, torch.from_numpy(test), "public")


def _matrix(content: bytes, what: str) -> Any:
    matrix = unpickle(content, what)
    if not isinstance(matrix, scipy.sparse.csr_array):
        raise DataError(f"'{what}' must hold a sparse matrix (got {type(matrix).__name__})")
    return matrix


def _classes(content: bytes, what: str) -> np.ndarray:
    one_hot = unpickle(content, what)
    if not isinstance(one_hot, np.ndarray) or one_hot.ndim != 2 or one_hot.shape[1] == 0:
        raise DataError(f"'{what}' must hold a matrix of classes")
    total = one_hot.sum(axis=1)
    if not np.isin(one_hot, (0, 1)).all() or (total > 1).any():
        raise DataError(f"'{what}' must have at most one 1 in each row and zeros elsewhere")
    return np.where(total == 1, one_hot.argmax(axis=1), UNLABELLED).astype(np.int64)


def _test_ids(content: bytes, first: int, what: str) -> np.ndarray:
    words = content.split()
    if not all(word.isdigit() and len(word) < 10 for word in words):
        raise DataError(f"'{what}' must hold one whole number on each line")
    ids = np.array([int(word) for word in words], np.int64)
    if np.unique(ids).size != ids.size or ids.min(initial=first) < first:
        raise DataError(f"'{what}' must hold distinct numbers from {first} on")
    if ids.max(initial=first) >= first + ids.size + _MOST_GAPS:
        raise DataError(f"'{what}' skips more than {_MOST_GAPS} nodes")
    return ids


def _citations(content: bytes, num_nodes: int, what: str) -> tuple[np.ndarray, np.ndarray]:
    graph = unpickle(content, what)
    if not isinstance(graph, dict) or not all(isinstance(ends, list) for ends in graph.values()):
        raise DataError(f"'{what}' must hold a dictionary of lists")
    cited = [end for ends in graph.values() for end in ends]
    if not all(type(node) is int for node in (*graph, *cited)):
        raise DataError(f"'{what}' must hold whole numbers")
    source = np.repeat(np.array(list(graph), np.int64), [len(ends) for ends in graph.values()])
    target = np.array(cited, np.int64)
    for ends in (source, target):
        if ends.size and (ends.min() < 0 or ends.max() >= num_nodes):
            raise DataError(f"'{what}' cites a node outside the {num_nodes} nodes")
    return source, target


CLASSES = tuple(
    "Theory Reinforcement_Learning Genetic_Algorithms Neural_Networks Probabilistic_Methods "
    "Case_Based Rule_Learning".split()
)


def read_cora_text(content: bytes, cites: bytes) -> Citations:
    r"""Reads :obj:`cora.content` and :obj:`cora.cites` into Planetoid's order of nodes."""
    with refusing("cora.content"):
        papers = [line.split(b"\t") for line in content.decode("ascii").encode().splitlines()]
        order = resources("meanmax.data.benchmarks").joinpath("cora_order.txt").read_bytes().split()
        line_of = {paper[0]: number for number, paper in enumerate(papers)}
        if line_of.keys() != set(order) or len(papers) != len(order):
            raise DataError("'cora.content' must hold each of Cora's 2708 papers once")
        place = np.array([line_of[paper] for paper in order])  # in Planetoid's order
        flags = np.frombuffer(b"".join(b"".join(paper[1:-1]) for paper in papers), np.uint8)
        words = flags.reshape(len(papers), -1) - np.uint8(ord("0"))
        if {len(paper) for paper in papers} != {words.shape[1] + 2} or words.max(initial=0) > 1:
            message = "'cora.content' must hold the same number of zeros and ones on each line"
            raise DataError(message)
        x = scipy.sparse.csr_array(words[place].astype(np.float32))
        label = np.array([CLASSES.index(paper[-1].decode()) for paper in papers])[place]
    with refusing("cora.cites"):
        node = {papers[row][0]: index for index, row in enumerate(place)}
        ends = np.array([[node[end] for end in line.split()] for line in cites.splitlines()])
        if ends.ndim != 2 or ends.shape[1] != 2:
            raise DataError("'cora.cites' must hold two papers on each line")
    split = public_split(140, np.arange(1708, len(papers)))
    return Citations(x, label, ends[:, 0], ends[:, 1], split)


_CLASSES = {
    "cora": CLASSES,
    "citeseer": ("AI", "ML", "IR", "DB", "Agents", "HCI"),
    "pubmed": ("Experimental", "Type 1", "Type 2"),
}


def read_citation(name: str, files: dict[str, bytes]) -> Dataset:
    r"""Prepares a citation graph: rows of features sum to 1, each edge is stored once in each
    direction, self-loops are removed. Nodes are in Planetoid's order for both kinds of files.
    """
    text = [files[file] for file in ("cora.content", "cora.cites") if file in files]
    raw = read_cora_text(*text) if text else read_planetoid(name, files)
    if raw.y.size == 0 or raw.y.max() >= len(_CLASSES[name]):
        raise DataError(f"the files of '{name}' must have {len(_CLASSES[name])} classes")
    words = scipy.sparse.csr_array(raw.x, dtype=np.float64)
    total = np.asarray(words.sum(axis=1)).ravel()
    scale = np.divide(1.0, total, out=np.zeros_like(total), where=total != 0)
    return Dataset(
        name,
        SparseFeatures.from_scipy(scipy.sparse.csr_array(scipy.sparse.diags_array(scale) @ words)),
        torch.from_numpy(raw.y),
        undirected(raw.source, raw.target, raw.y.size),
        class_names=_CLASSES[name],
        split=raw.split,
        notes=(
            "Features divided by their sum in each row.",
            "Undirected; duplicate citations and self-citations removed.",
        ),
        scheme="citation",
    )


_INSTRUCTIONS = frozenset(
    "PROTO GLOBAL REDUCE NEWOBJ BUILD STOP BINPUT LONG_BINPUT BINGET LONG_BINGET MARK NONE "
    "EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_DICT SETITEMS EMPTY_LIST APPEND APPENDS "
    "BININT BININT1 BININT2 BINSTRING SHORT_BINSTRING NEWTRUE NEWFALSE".split()
)


def unpickle(content: bytes, what: str) -> Any:
    r"""Reads an array, a scipy :obj:`csr_array`, a dict, list, tuple, number or bytes."""
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
        native = np.frombuffer(data, dtype.value).astype(dtype.value.newbyteorder("="), copy=False)
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
