r"""The conjoint attention layer, and the structural embeddings that it attends to."""

from __future__ import annotations

import zlib
from itertools import pairwise
from typing import Literal, TypeAlias, final, get_args

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import torch
from torch import Tensor
from torch.nn import Module, Parameter

from meanmax import functional
from meanmax.graph import Graph
from meanmax.graph.checks import not_a_graph
from meanmax.nn.conv import Aggr, Pair, as_graph, check_positive, check_rate, square_features
from meanmax.nn.gat import AttentionConv, attended, reweighted, scores
from meanmax.nn.linear import Features, fast_dropout
from meanmax.ops import edge_dot, row_softmax
from meanmax.ops.autograd import summed_weights
from meanmax.ops.library import operation
from meanmax.ops.spec import check_choice

GAIN = 1.414


@final
class StructuralEmbedding(Module):
    r"""Embeddings :math:`S \in R^{n \times C}` of the nodes of one graph, learned with a model.

    Drawn Xavier-normal with gain 1.414 (at 0 every gradient vanishes). :meth:`loss` pulls
    :math:`S S^\top` towards the adjacency matrix.

    Args:
        num_nodes (int): The number of nodes.
        channels (int): :math:`C`; the number of classes in the paper.

    Example:
        >>> graph = Graph.from_edge_index([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> structure = StructuralEmbedding(3, channels=2)
        >>> structure(graph).shape
        torch.Size([3, 2])
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
        r"""The embeddings of the graph's nodes. The embeddings belong to the first graph they are
        used with; any other graph raises an error.
        """
        self.graph_key.copy_(_matching_key(self.graph_key, graph, *self.weight.shape))
        return self.weight

    def extra_repr(self) -> str:
        r"""The sizes."""
        return f"{self.weight.size(0)}, {self.weight.size(1)}"


@operation(
    "Tensor known, Graph graph, SymInt num_nodes, SymInt channels",
    lambda known, *_: (known.shape, known.dtype),
    shared=True,
)
def _matching_key(known: Tensor, graph: Graph, num_nodes: int, channels: int) -> Tensor:
    r"""The key of a graph; an error if embeddings were learned for another one."""
    key = _key(graph)
    if int(known[0]) == -1 and graph.num_nodes == num_nodes:
        return torch.tensor(key)
    if tuple(known.tolist()) != key:
        raise ValueError(
            f"this model learned structural embeddings for one graph of {num_nodes} "
            f"nodes and has none for this graph of {graph.num_nodes}: fit them with "
            f"meanmax.nn.fit_structure(graph, {channels}) and pass them as "
            f"'structure', to a model that was trained in that way too (num_nodes=None; for a "
            f"NodeClassifier model_options={{'num_nodes': None}})"
        )
    return known


def structure_loss(structure: Tensor, graph: Graph) -> Tensor:
    r""":math:`\frac{1}{4} \| A - S S^\top \|_F^2`, with :math:`A` the adjacency matrix without
    self-loops, computed as :math:`\| A \|^2 - 2 \mathrm{tr}(S^\top A S) + \| S^\top S \|^2`.

    In a batch of graphs it is the sum of those of the graphs. CAT adds it with a factor
    :math:`\lambda = 0.01`.

    Args:
        structure (Tensor): :math:`S`, :obj:`[num_nodes, channels]`.
        graph (Graph): The graph as it is.

    Example:
        >>> graph = Graph.from_edge_index([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> structure_loss(torch.zeros(3, 2), graph) # a quarter of the four ones in A
        tensor(1.)
    """
    graph = _checked(graph)
    adjacency, square = _without_loops(graph)
    cross = (structure * functional.sum(structure, adjacency)).sum()
    parts = [structure[first:last] for first, last in pairwise(graph.src_ptr.tolist())]
    gram = torch.stack([(part.T @ part).square().sum() for part in parts]).sum()
    return 0.25 * (square - 2 * cross + gram)


@torch.no_grad()
def fit_structure(graph: Graph, channels: int, *, seed: int = 0) -> Tensor:
    r"""The embeddings that bring :math:`\| A - S S^\top \|_F^2` to its minimum: the eigenvectors of
    the largest eigenvalues of the adjacency matrix (made symmetric), times the square root of
    those, 0 for negative ones.

    For graphs that a model was not trained on, and for training on several graphs. They do not
    depend on labels or features. Cached with the graph.

    Args:
        graph (Graph): The graph as it is, or a batch, which is fitted graph by graph.
        channels (int): The number of channels.
        seed (int, optional): Of the vector that the iteration starts from. (default: :obj:`0`)

    Returns:
        :obj:`[num_nodes, channels]`, float32.

    Example:
        >>> graph = Graph.from_edge_index([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> structure = fit_structure(graph, channels=2)
        >>> bool(structure_loss(structure, graph) < structure_loss(0 * structure, graph))
        True
    """
    check_positive(channels=channels)
    return _fitted(_checked(graph), channels, seed)


@operation(
    "Graph graph, SymInt channels, SymInt seed",
    lambda graph, channels, _: ((graph.num_dst, channels), torch.float32),
    shared=True,
)
def _fitted(graph: Graph, channels: int, seed: int) -> Tensor:
    def fit() -> Tensor:
        adjacency = _matrix(_without_loops(graph)[0])
        fitted = np.zeros((graph.num_nodes, channels))
        for first, last in pairwise(graph.src_ptr.tolist()):
            part = _fit(adjacency[first:last, first:last], channels, seed)
            fitted[first:last, : part.shape[1]] = part
        return torch.from_numpy(fitted).float().to(graph.device)

    return graph.cached(("structure", channels, seed), fit)


def _checked(graph: object) -> Graph:
    if not isinstance(graph, Graph):
        raise not_a_graph(graph)
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
    r"""The graph without self-loops, and the squared norm of its matrix; both cached."""

    def make() -> tuple[Graph, float]:
        source, target = edges = graph.edge_index
        keep = source != target
        weight = None if graph.edge_weight is None else graph.edge_weight.detach()[keep]
        batch = torch.arange(graph.num_graphs).repeat_interleave(graph.src_ptr.diff().cpu())
        found = Graph.from_edge_index(edges[:, keep], graph.num_nodes, weight, batch=batch)
        found = found.prepared()
        return found, float((_matrix(found).data ** 2).sum())

    return graph.cached("without_loops", make)


def _matrix(graph: Graph) -> scipy.sparse.csr_array:
    r"""Its adjacency matrix, multiple edges added up, float64."""
    source, target = graph.edge_index.cpu().numpy()
    weight = np.ones(len(source)) if graph.edge_weight is None else graph.edge_weight.cpu().numpy()
    size = (graph.num_nodes, graph.num_nodes)
    return scipy.sparse.coo_array((weight.astype(np.float64), (target, source)), size).tocsr()


def _key(graph: Graph) -> tuple[int, int, int]:
    r"""Identifies a graph: sizes and a checksum of the edges; cached."""

    def make() -> tuple[int, int, int]:
        source, target = graph.edge_index.cpu().numpy()
        order = np.lexsort((source, target))  # edges may come in another order
        crc = zlib.crc32(source[order].tobytes(), zlib.crc32(target[order].tobytes()))
        return graph.num_nodes, graph.num_edges, crc

    return graph.cached("structure_key", make)


Conjunction: TypeAlias = Literal["implicit", "explicit"]


@final
class CATConv(AttentionConv):
    r"""The layer of `"Learning Conjoint Attentions for Graph Neural Nets"
    <https://arxiv.org/abs/2102.03147>`_ with any aggregator: attention to what neighbours are and
    to where they stand in the graph.

    .. math::
        h'_v &= \mathrm{AGG}(\alpha_v, W h) + \mathrm{Dropout}\Big(
        \frac{\mathrm{sigmoid}(\epsilon)}{d_v} W h_v \Big) + b \\
        \alpha_{vu} &= r_f f_{vu} + r_s s_{vu}, \qquad (r_f, r_s) = \mathrm{softmax}(g) \\
        s_{vu} &= \mathrm{softmax}_u (S_v \cdot S_u)

    for each head, with :math:`f` the attention of :class:`GATConv`, :math:`S` the structural
    embeddings (:class:`StructuralEmbedding`), :math:`g \in R^2` and :math:`\epsilon` learned from
    0 on. The explicit form is :math:`\alpha_{vu} \propto f_{vu} s_{vu}`.

    Our reading where the paper leaves a choice: :math:`S` is shared by heads and layers, the
    degree :math:`d_v` counts the self-loop, attention dropout masks :math:`\alpha`, and on a
    weighted graph :math:`\alpha` is multiplied with the weights and normalised again.

    Args:
        in_channels, out_channels, heads, concat, aggr, negative_slope, dropout, bias: As in
            :class:`GATConv`.
        conjunction (str, optional): :obj:`"implicit"` or :obj:`"explicit"`.
            (default: :obj:`"implicit"`)
        self_dropout (float, optional): Dropout of the node's own term. (default: :obj:`0.9`)

    Example:
        >>> graph = Graph.from_edge_index([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> structure = StructuralEmbedding(3, channels=2)(graph)
        >>> CATConv(8, 4, heads=2)(torch.randn(3, 8), graph, structure=structure).shape
        torch.Size([3, 8])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 1,
        *,
        concat: bool = True,
        aggr: Aggr = None,
        conjunction: Conjunction = "implicit",
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        self_dropout: float = 0.9,
        bias: bool = True,
    ) -> None:
        super().__init__(
            in_channels, out_channels, heads, concat, aggr, negative_slope, dropout, bias
        )
        check_choice("conjunction", conjunction, get_args(Conjunction))
        self.conjunction = conjunction
        self.self_dropout = check_rate(self_dropout, "self_dropout")
        self.mix = Parameter(torch.zeros(heads, 2)) if conjunction == "implicit" else None
        self.own = Parameter(torch.zeros(()))

    def forward(
        self,
        x: Features | Pair,
        edge_index: Graph | Tensor,
        edge_weight: Tensor | None = None,
        *,
        structure: Tensor | None = None,
    ) -> Tensor:
        r"""Runs the layer.

        Args:
            x, edge_index, edge_weight: As in :meth:`GCNConv.forward`.
            structure (Tensor): The structural embeddings :math:`S` of the graph's nodes,
                :obj:`[num_nodes, any]`, which the layer cannot do without.
        """
        graph = as_graph(edge_index, x, edge_weight)
        if not graph.is_local:
            raise ValueError(
                "CAT learns an embedding of every node and needs the whole graph in one process "
                "(got a part of it): choose another layer"
            )
        x = square_features(x, self.in_channels, graph, "CATConv")
        structure = _checked_structure(structure, graph)
        graph = graph.prepared(None, "replace")
        assert self.lin is not None
        h = self.lin(x).view(-1, self.heads, self.out_channels)
        alpha = fast_dropout(self._conjoint(h, graph, structure), self.dropout, self.training)
        degree = summed_weights(graph).to(h.dtype).unsqueeze(2)  # [num_nodes, heads or 1, 1]
        degree = degree.where(degree > 0, 1.0)  # a row that was left out has no edge
        own = fast_dropout(torch.sigmoid(self.own) * h / degree, self.self_dropout, self.training)
        return self.combine_heads(self.aggr(h, graph, alpha) + own)

    def _conjoint(self, h: Tensor, graph: Graph, structure: Tensor) -> Tensor:
        r"""Attention of every edge in CSR order, :obj:`[num_edges, heads]`."""
        of_source, of_target = scores(h, self.att_src, self.att_dst)
        by_feature = attended(of_source, of_target, graph, self.negative_slope)
        # [num_edges, 1]
        by_structure: Tensor = structural_attention(structure.to(by_feature.dtype), graph)
        if self.mix is None:
            alpha = reweighted(by_feature, graph, by_structure)
        else:
            share = self.mix.softmax(dim=1)  # [heads, 2]
            alpha = share[:, 0] * by_feature + share[:, 1] * by_structure
        return reweighted(alpha, graph, graph.weight)

    def extra_repr(self) -> str:
        r"""Channels, heads, dropout and form."""
        form = f"conjunction={self.conjunction!r}, self_dropout={self.self_dropout}"
        return f"{super().extra_repr()}, {form}"


@operation(
    "Tensor structure, Graph graph",
    lambda structure, graph: ((graph.num_edges, 1), structure.dtype),
)
def structural_attention(structure: Tensor, graph: Graph) -> Tensor:
    r"""Softmax over each target's edges of :math:`S_v \cdot S_u`, :obj:`[num_edges, 1]`."""
    with torch.autocast(structure.device.type, enabled=False):
        return row_softmax(edge_dot(structure, structure, graph), graph)


def _checked_structure(structure: object, graph: Graph) -> Tensor:
    if structure is None:
        raise ValueError(
            "CATConv needs structural embeddings: pass "
            "structure=StructuralEmbedding(num_nodes, channels)(graph) to learn them or "
            "structure=fit_structure(graph, channels), or use build_model('cat', ...)"
        )
    if not isinstance(structure, Tensor) or structure.dim() != 2:
        got = list(structure.shape) if isinstance(structure, Tensor) else type(structure).__name__
        raise ValueError(
            f"'structure' must be the graph's structural embeddings, [num_nodes, any] (got {got}); "
            f"fit them with meanmax.nn.fit_structure(graph, channels)"
        )
    if structure.size(0) != graph.num_nodes:
        raise ValueError(
            f"'structure' holds embeddings of {structure.size(0)} nodes, but the graph has "
            f"{graph.num_nodes}: for a graph that was not trained on, fit them with "
            f"meanmax.nn.fit_structure(graph, channels)"
        )
    return structure
