r"""Cora as it was first released: ``cora.content`` and ``cora.cites``.

The papers stand there in another order than in Planetoid's files. ``cora_order.txt`` lists the
paper of each of Planetoid's nodes. It was found by colour refinement: nodes start with their words
and class as colour and are told apart by the colours of their neighbours until nothing changes.
All but 25 of them then have a colour of their own in both releases; the 25 are ten groups of papers
with the same words, class and like neighbours, and were told apart one by one. The result was
checked to be an isomorphism: the same words, in the same columns, the same classes, the same edges.
"""

from __future__ import annotations

from importlib.resources import files as resources

import numpy as np
import scipy.sparse

from meanmax.data.errors import DataError
from meanmax.data.benchmarks.citation import (Citations, public_split)
from meanmax.data.refuse import refusing

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
    r"""Reads both files into Planetoid's order of nodes.

    Args:
        content (bytes): Lines of a paper's number, 1,433 zeros and ones, and its class.
        cites (bytes): Lines of two papers, the cited one first.
    """
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
