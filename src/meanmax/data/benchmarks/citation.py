r"""Cora, Citeseer and Pubmed: Planetoid's files, and Cora's original text files."""

from __future__ import annotations

from importlib.resources import files as resources
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch

from meanmax.data.benchmarks.unpickle import unpickle
from meanmax.data.dataset import UNLABELLED, Dataset, Split
from meanmax.data.files import DataError, refusing
from meanmax.data.matrices import normalise_rows, undirected
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
    source = np.repeat(_integers(list(graph), what), [len(ends) for ends in graph.values()])
    target = _integers([end for ends in graph.values() for end in ends], what)
    for ends in (source, target):
        if ends.size and (ends.min() < 0 or ends.max() >= num_nodes):
            raise DataError(f"'{what}' cites a node outside the {num_nodes} nodes")
    return source, target


def _integers(values: list[Any], what: str) -> np.ndarray:
    if not all(type(value) is int for value in values):
        raise DataError(f"'{what}' must hold whole numbers")
    return np.array(values, np.int64)


CLASSES = (
    "Theory",
    "Reinforcement_Learning",
    "Genetic_Algorithms",
    "Neural_Networks",
    "Probabilistic_Methods",
    "Case_Based",
    "Rule_Learning",
)
_TRAINED, _FIRST_TEST = 140, 1708


def read_cora_text(content: bytes, cites: bytes) -> Citations:
    r"""Reads :obj:`cora.content` and :obj:`cora.cites` into Planetoid's order of nodes."""
    with refusing("cora.content"):
        papers = [line.split(b"\t") for line in content.decode("ascii").encode().splitlines()]
        place = _places(papers)
        words = _words(papers)[place]
        label = np.array([CLASSES.index(paper[-1].decode()) for paper in papers])[place]
    with refusing("cora.cites"):
        node = {papers[row][0]: index for index, row in enumerate(place)}
        ends = np.array([[node[end] for end in line.split()] for line in cites.splitlines()])
        if ends.ndim != 2 or ends.shape[1] != 2:
            raise DataError("'cora.cites' must hold two papers on each line")
    split = public_split(_TRAINED, np.arange(_FIRST_TEST, len(papers)))
    return Citations(words, label, ends[:, 0], ends[:, 1], split)


def _places(papers: list[list[bytes]]) -> np.ndarray:
    """The line of each node, in Planetoid's order."""
    order = resources("meanmax.data.benchmarks").joinpath("cora_order.txt").read_bytes().split()
    line = {paper[0]: number for number, paper in enumerate(papers)}
    if line.keys() != set(order) or len(papers) != len(order):
        raise DataError("'cora.content' must hold each of Cora's 2708 papers once")
    return np.array([line[paper] for paper in order])


def _words(papers: list[list[bytes]]) -> scipy.sparse.csr_array:
    flags = np.frombuffer(b"".join(b"".join(paper[1:-1]) for paper in papers), np.uint8)
    table = flags.reshape(len(papers), -1) - np.uint8(ord("0"))
    if {len(paper) for paper in papers} != {table.shape[1] + 2} or table.max(initial=0) > 1:
        raise DataError("'cora.content' must hold the same number of zeros and ones on each line")
    return scipy.sparse.csr_array(table.astype(np.float32))


_CLASSES = {
    "cora": CLASSES,
    "citeseer": ("AI", "ML", "IR", "DB", "Agents", "HCI"),
    "pubmed": ("Experimental", "Type 1", "Type 2"),
}
_NOTES = (
    "Features divided by their sum in each row.",
    "Undirected; duplicate citations and self-citations removed.",
)


def read_citation(name: str, files: dict[str, bytes]) -> Dataset:
    r"""Prepares a citation graph: rows of features sum to 1, each edge is stored once in each
    direction, self-loops are removed. Nodes are in Planetoid's order for both kinds of files.
    """
    if "cora.content" in files:
        raw = read_cora_text(files["cora.content"], files["cora.cites"])
    else:
        raw = read_planetoid(name, files)
    if raw.y.size == 0 or raw.y.max() >= len(_CLASSES[name]):
        raise DataError(f"the files of '{name}' must have {len(_CLASSES[name])} classes")
    return Dataset(
        name,
        SparseFeatures.from_scipy(normalise_rows(raw.x)),
        torch.from_numpy(raw.y),
        undirected(raw.source, raw.target, raw.y.size),
        class_names=_CLASSES[name],
        split=raw.split,
        notes=_NOTES,
        scheme="citation",
    )
