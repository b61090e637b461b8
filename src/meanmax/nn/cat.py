r"""Structural embeddings: vectors of nodes whose inner products resemble the adjacency matrix."""

from __future__ import annotations

import zlib
from typing import final

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import torch
from torch import Tensor
from torch.nn import Module, Parameter

from meanmax import functional
from meanmax.graph import Graph
from meanmax.nn.conv import check_positive

GAIN = 1.414


@final
class StructuralEmbedding(Module):
    r"""Embeddings :math:`S \in R^{n \times C}` of the nodes of one graph, learned with a model.

    Drawn Xavier-normal with gain 1.414 (at 0 every gradient vanishes). :meth:`loss` pulls
    :math:`S S^\top` towards the adjacency matrix.

    Args:
        num_nodes (int): The number of nodes.
        channels (int): :math:`C`; the number of classes in the paper.
    """

    graph_key: Tensor

    def __init__(self, num_nodes: int, channels: int) -> None:
        super().__init__()
        check_positive(num_nodes=num_nodes, channels=channels)
        self.weight = Parameter(torch.empty(num_nodes, channels))
        self.register_buffer("graph_key", torch.full((3,), -1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Draws new embeddings and forgets which graph they belonged to."""
        torch.nn.init.xavier_normal_(self.weight, gain=GAIN)
        self.graph_key.fill_(-1)

    def forward(self, graph: Graph) -> Tensor:
        r"""The embeddings of the graph's nodes. They belong to the first graph they are asked
        for; for any other there are none, which is an error.
        """
        key = _key(graph)
        if int(self.graph_key[0]) == -1 and graph.num_nodes == self.weight.size(0):
            self.graph_key.copy_(torch.tensor(key))
        if tuple(self.graph_key.tolist()) != key:
            raise ValueError(
                f"this model learned structural embeddings for one graph of {self.weight.size(0)} "
                f"nodes and has none for this graph of {graph.num_nodes}: fit them with "
                f"meanmax.nn.fit_structure(graph, {self.weight.size(1)}) and pass them as "
                f"'structure', to a model that was trained in that way too (num_nodes=None; for a "
                f"NodeClassifier model_options={{'num_nodes': None}})"
            )
        return self.weight

    def extra_repr(self) -> str:
        r"""The sizes."""
        return f"{self.weight.size(0)}, {self.weight.size(1)}"


def structure_loss(structure: Tensor, graph: Graph) -> Tensor:
    r""":math:`\frac{1}{4} \| A - S S^\top \|_F^2`, with :math:`A` the adjacency matrix without
    self-loops, computed as :math:`\| A \|^2 - 2 \mathrm{tr}(S^\top A S) + \| S^\top S \|^2`.

    In a batch of graphs it is the sum of those of the graphs. CAT adds it with a factor
    :math:`\lambda = 0.01`.

    Args:
        structure (Tensor): :math:`S`, :obj:`[num_nodes, channels]`.
        graph (Graph): The graph as it is.
    """
    graph = _checked(graph)
    adjacency, square = _without_loops(graph)
    cross = (structure * functional.sum(structure, adjacency)).sum()
    bounds = graph.src_ptr.tolist()
    grams = [structure[lo:hi].T @ structure[lo:hi] for lo, hi in zip(bounds, bounds[1:])]  # noqa: B905
    gram = torch.stack([(gram * gram).sum() for gram in grams]).sum()
    return 0.25 * (square - 2 * cross + gram)


@torch.no_grad()
def fit_structure(graph: Graph, channels: int, *, seed: int = 0) -> Tensor:
    r"""The embeddings that bring :math:`\| A - S S^\top \|_F^2` to its minimum: the eigenvectors of
    the largest eigenvalues of the adjacency matrix (made symmetric), times the square root of
    those, 0 for negative ones.

    For graphs that a model was not trained on, and for training on several graphs. They do not
    depend on labels or features. Remembered with the graph.

    Args:
        graph (Graph): The graph as it is, or a batch, which is fitted graph by graph.
        channels (int): The number of channels.
        seed (int, optional): Of the vector that the iteration starts from. (default: :obj:`0`)

    Returns:
        :obj:`[num_nodes, channels]`, float32.
    """
    check_positive(channels=channels)
    graph = _checked(graph)
    key = ("structure", channels, seed)
    if key not in graph.cache:
        adjacency = _matrix(_without_loops(graph)[0])
        bounds = graph.src_ptr.tolist()
        blocks = [(lo, adjacency[lo:hi, lo:hi]) for lo, hi in zip(bounds, bounds[1:])]  # noqa: B905
        fitted = np.zeros((graph.num_nodes, channels))
        for first, block in blocks:
            part = _fit(block, channels, seed)
            fitted[first : first + len(part), : part.shape[1]] = part
        with torch.inference_mode(False):
            graph.cache[key] = torch.from_numpy(fitted).float().to(graph.device)
    structure: Tensor = graph.cache[key]
    return structure


def _checked(graph: object) -> Graph:
    if not isinstance(graph, Graph):
        raise ValueError(
            f"'graph' must be a meanmax.Graph (got {type(graph).__name__}); make one with "
            f"Graph.from_edge_index(edge_index, num_nodes)"
        )
    if graph.weight is not None and graph.weight.dim() == 2:
        raise ValueError("structural embeddings take one weight per edge (got weights per head)")
    return graph


def _fit(block: scipy.sparse.csr_array, channels: int, seed: int) -> np.ndarray:
    size = block.shape[0]
    symmetric = (block + block.T) / 2
    count = min(channels, size)
    if block.nnz == 0:
        return np.zeros((size, count))
    if count > size // 3 or size < 64:
        values, vectors = np.linalg.eigh(symmetric.toarray())
    else:
        start = np.random.default_rng(seed).standard_normal(size)
        try:
            values, vectors = scipy.sparse.linalg.eigsh(symmetric, count, which="LA", v0=start)
        except scipy.sparse.linalg.ArpackError:
            values, vectors = np.linalg.eigh(symmetric.toarray())
    largest = np.argsort(-values, kind="stable")[:count]
    values, vectors = values[largest], vectors[:, largest]
    sign = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(count)])
    fitted: np.ndarray = vectors * sign * np.sqrt(np.maximum(values, 0))
    return fitted


def _without_loops(graph: Graph) -> tuple[Graph, float]:
    r"""The graph without self-loops, and the squared norm of its matrix; both remembered."""
    if "without_loops" not in graph.cache:
        with torch.inference_mode(False):
            source, target = edges = graph.edge_index
            keep = source != target
            weight = graph.edge_weight
            weight = None if weight is None else weight.detach()[keep]
            batch = torch.arange(graph.num_graphs).repeat_interleave(graph.src_ptr.diff().cpu())
            found = Graph.from_edge_index(edges[:, keep], graph.num_nodes, weight, batch=batch)
            found = found.prepared()
        graph.cache["without_loops"] = (found, float((_matrix(found).data ** 2).sum()))
    known: tuple[Graph, float] = graph.cache["without_loops"]
    return known


def _matrix(graph: Graph) -> scipy.sparse.csr_array:
    r"""Its adjacency matrix, multiple edges added up, float64."""
    source, target = graph.edge_index.cpu().numpy()
    weight = np.ones(len(source)) if graph.edge_weight is None else graph.edge_weight.cpu().numpy()
    size = (graph.num_nodes, graph.num_nodes)
    return scipy.sparse.coo_array((weight.astype(np.float64), (target, source)), size).tocsr()


def _key(graph: Graph) -> tuple[int, int, int]:
    r"""What tells graphs apart: sizes and a checksum of the edges; remembered."""
    if "structure_key" not in graph.cache:
        source, target = graph.edge_index.cpu().numpy()
        order = np.lexsort((source, target))  # edges may come in another order
        crc = zlib.crc32(source[order].tobytes(), zlib.crc32(target[order].tobytes()))
        graph.cache["structure_key"] = (graph.num_nodes, graph.num_edges, crc)
    key: tuple[int, int, int] = graph.cache["structure_key"]
    return key
