"""The graph that layers and aggregators run on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from meanmax.graph.build import (
    EdgeList,
    Structure,
    build,
    build_from_csr,
    index_dtype,
    ranges,
)
from meanmax.graph.checks import Normalize, NumNodes, SelfLoops, as_index, as_weight
from meanmax.graph.convert import (
    check_numbers,
    edges_of_data,
    edges_of_networkx,
    edges_of_scipy,
    read_edge_list,
)
from meanmax.graph.handles import make_handle

if TYPE_CHECKING:
    import networkx

T = TypeVar("T")


def join_structures(parts: Sequence[Structure]) -> Structure:
    r"""Numbers the nodes and edges of each part after those of the parts before it."""
    sources = [0, *accumulate(part.num_src for part in parts)]
    targets = [0, *accumulate(part.num_dst for part in parts)]
    edges = [0, *accumulate(part.col.numel() for part in parts)]
    dtype = index_dtype(sources[-1], targets[-1], edges[-1])
    identity = all(part.perm is None for part in parts)
    return Structure(
        num_src=sources[-1],
        num_dst=targets[-1],
        rowptr=_join_pointers([part.rowptr for part in parts], edges, dtype),
        col=_join([part.col for part in parts], sources, dtype),
        perm=None if identity else _join([_order(part) for part in parts], edges, dtype),
        src_ptr=_join_pointers([part.src_ptr for part in parts], sources, torch.int64),
        dst_ptr=_join_pointers([part.dst_ptr for part in parts], targets, torch.int64),
    )


def join_weights(weights: Sequence[Tensor | None]) -> Tensor | None:
    r"""Joins the weights of all parts; raises if they differ in kind."""
    given = [weight for weight in weights if weight is not None]
    if not given:
        return None
    if len(given) < len(weights):
        raise ValueError(
            "graphs of a batch must all have weights or none "
            f"(got {len(given)} of {len(weights)} with weights)"
        )
    shapes = sorted({tuple(weight.shape[1:]) for weight in given})
    if len(shapes) > 1:
        raise ValueError(f"graphs of a batch must have equally many heads (got {shapes})")
    return torch.cat(given)


def select_graphs(structure: Structure, graphs: Tensor) -> tuple[Structure, Tensor]:
    r"""Some graphs of a batch, and their edges in CSR order."""
    # Only the entries of these graphs are read: a mini-batch costs as much as it holds.
    first, end = structure.dst_ptr[graphs], structure.dst_ptr[graphs + 1]
    first_edge, end_edge = structure.rowptr[first].long(), structure.rowptr[end].long()
    first_src = structure.src_ptr[graphs]
    src_ptr = pointer_of(structure.src_ptr[graphs + 1] - first_src)
    dst_ptr = pointer_of(end - first)
    edges = ranges(first_edge, end_edge - first_edge)
    shift = (src_ptr[:-1] - first_src).repeat_interleave(end_edge - first_edge)
    rows = ranges(first, end - first)
    dtype = index_dtype(int(src_ptr[-1]), int(dst_ptr[-1]), edges.numel())
    found = Structure(
        num_src=int(src_ptr[-1]),
        num_dst=int(dst_ptr[-1]),
        rowptr=pointer_of(structure.rowptr[rows + 1] - structure.rowptr[rows]).to(dtype),
        col=(structure.col[edges] + shift).to(dtype),
        perm=None,
        src_ptr=src_ptr,
        dst_ptr=dst_ptr,
    )
    return found, edges


def pointer_of(sizes: Tensor) -> Tensor:
    r"""Where each of the groups of these sizes begins, int64."""
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]).long()


def _order(part: Structure) -> Tensor:
    if part.perm is not None:
        return part.perm
    return torch.arange(part.col.numel(), device=part.col.device)


def _join(indices: Sequence[Tensor], offsets: Sequence[int], dtype: torch.dtype) -> Tensor:
    pairs = zip(indices, offsets, strict=False)  # the last offset is the total
    return torch.cat([index.to(dtype) + offset for index, offset in pairs])


def _join_pointers(ptrs: Sequence[Tensor], offsets: Sequence[int], dtype: torch.dtype) -> Tensor:
    end = ptrs[0].new_tensor(offsets[-1:], dtype=dtype)
    return torch.cat([_join([ptr[:-1] for ptr in ptrs], offsets, dtype), end])


class Graph:
    r"""One graph or a batch of graphs, directed from sources :math:`u` to targets :math:`v`, with
    optional weights :math:`a_{vu} \geq 0`: a layer aggregates over the edges of each target.

    Built once by one of the :obj:`from_...` methods and not changed afterwards. Edges are grouped
    by target (CSR) and, when first needed, by source (CSC). Sources and targets are the same nodes
    unless two sizes were given. Indices are int32 wherever the counts fit.

    Example:
        >>> graph = Graph.from_edge_index([[0, 1, 3], [1, 0, 0]], normalize="row", self_loops=True)
        >>> graph
        Graph(num_nodes=4, num_edges=7, weighted=True, num_graphs=1)
        >>> graph.rowptr.tolist(), graph.col.tolist()
        ([0, 3, 5, 6, 7], [1, 3, 0, 0, 1, 2, 3])
        >>> graph.weight
        tensor([0.3333, 0.3333, 0.3333, 0.5000, 0.5000, 1.0000, 1.0000])

    Attributes:
        num_src (int): The number of source nodes.
        num_dst (int): The number of target nodes.
        num_edges (int): The number of edges, multiple ones counted.
        num_graphs (int): The number of graphs in the batch.
        rowptr (Tensor): The first edge of each target, :obj:`[num_dst + 1]`.
        col (Tensor): The source of each edge in CSR order, :obj:`[num_edges]`. Edges of a target
            keep the order they were given in.
        perm (Tensor, optional): The position in :obj:`edge_index` of each edge in CSR order,
            :obj:`[num_edges]`; :obj:`None` if the two orders are the same.
        weight (Tensor, optional): Weights in CSR order, :obj:`[num_edges]` or
            :obj:`[num_edges, heads]`; :attr:`edge_weight` has them in the order of
            :attr:`edge_index`.
        src_ptr (Tensor): The first source node of each graph, int64, :obj:`[num_graphs + 1]`.
        dst_ptr (Tensor): The first target node of each graph, int64, :obj:`[num_graphs + 1]`.
        cache (dict): What kernels derive from the graph; never copied with it.
        handle (Tensor): What stands for the graph in compiled code.
    """

    def __init__(self, structure: Structure, weight: Tensor | None = None) -> None:
        r"""Wraps what :obj:`build` has checked; call a :obj:`from_...` method instead."""
        if not isinstance(structure, Structure):
            raise TypeError(
                "a Graph is built by Graph.from_edge_index, from_csr, from_data, from_scipy, "
                f"from_networkx, from_file or batch (got {type(structure).__name__})"
            )
        self._structure: Final = structure
        self.num_src: int = structure.num_src
        self.num_dst: Final = structure.num_dst
        self.num_edges: Final = structure.col.numel()
        self.num_graphs: Final = structure.src_ptr.numel() - 1
        self.rowptr: Final = structure.rowptr
        self.col: Final = structure.col
        self.perm: Final = structure.perm
        self.src_ptr: Final = structure.src_ptr
        self.dst_ptr: Final = structure.dst_ptr
        self.weight: Final = weight
        self.cache: Final[dict[Any, Any]] = {}
        self.handle: Final = make_handle(self)
        self._selected_from: tuple[Graph, Tensor, Tensor] | None = None  # graphs and edges of it

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Tensor | np.ndarray | Sequence[Sequence[int]],
        num_nodes: NumNodes | None = None,
        edge_weight: Tensor | np.ndarray | Sequence[float] | None = None,
        normalize: Normalize | None = None,
        self_loops: SelfLoops = False,
        *,
        batch: Tensor | tuple[Tensor, Tensor] | None = None,
    ) -> Graph:
        r"""Builds a graph from sources and targets of its edges. Multiple edges are kept.

        Args:
            edge_index (Tensor or EdgeIndex): Sources (row 0) and targets (row 1) as in PyG,
                :obj:`[2, num_edges]`, of any integer type. Edges that come sorted by target are
                not sorted again.
            num_nodes (int or tuple, optional): The number of nodes, or
                :obj:`(num_src, num_dst)` if sources and targets are different nodes. If
                :obj:`None`, taken from :obj:`batch`, the sizes of an :obj:`EdgeIndex`, or the
                largest index. (default: :obj:`None`)
            edge_weight (Tensor, optional): Finite weights :math:`a_{vu} \geq 0` in the order of
                :obj:`edge_index`, :obj:`[num_edges]` or :obj:`[num_edges, heads]`. Gradients flow
                back to them. (default: :obj:`None`)
            normalize (str, optional): :obj:`"sym"` divides each weight by the square roots of the
                summed incoming weights at both ends, as PyG's :obj:`gcn_norm`; :obj:`"row"` by
                their sum at the target. Missing weights count as ones. (default: :obj:`None`)
            self_loops (bool or str, optional): :obj:`True` or :obj:`"add"` gives each node one
                self-loop as PyG's :obj:`add_remaining_self_loops`: its own weight where there is
                one (of several, the last), else 1. :obj:`"replace"` gives weight 1 to all. Both
                put the self-loops last in :obj:`edge_index`. (default: :obj:`False`)
            batch (Tensor or tuple, optional): The sorted graph ids of the nodes, or a pair of them
                for sources and targets. (default: :obj:`None`)
        """
        given = EdgeList(edge_index, num_nodes, edge_weight, batch)
        return cls(*build(given, normalize, self_loops))

    @classmethod
    def from_csr(
        cls,
        rowptr: Tensor,
        col: Tensor,
        *,
        num_src: int | None = None,
        edge_weight: Tensor | None = None,
        copy: bool = True,
    ) -> Graph:
        r"""Builds a graph from edges that are grouped by target already.

        Args:
            rowptr (Tensor): The first edge of each target, :obj:`[num_dst + 1]`.
            col (Tensor): The source of each edge, :obj:`[num_edges]`.
            num_src (int, optional): The number of source nodes; if :obj:`None`, the number of
                targets. (default: :obj:`None`)
            edge_weight (Tensor, optional): The weight of each edge in this order.
                (default: :obj:`None`)
            copy (bool, optional): With :obj:`False` the graph shares the memory of what it is
                given, where types allow it. That memory must then never change: kernels rely on
                what was checked here, and entries that are changed afterwards can crash the
                process. (default: :obj:`True`)
        """
        return cls(*build_from_csr(rowptr, col, num_src, edge_weight, copy=copy))

    @classmethod
    def from_data(
        cls,
        data: Data,
        *,
        edge_weight: str | None = "edge_weight",
        normalize: Normalize | None = None,
        self_loops: SelfLoops = False,
    ) -> Graph:
        r"""Builds a graph from PyG's :obj:`Data` or a :obj:`Batch` of them.

        Args:
            data (Data): Its :obj:`edge_index`, :obj:`num_nodes` and, if it has them, :obj:`ptr` or
                :obj:`batch` are used.
            edge_weight (str, optional): The attribute that holds weights; the default one may be
                absent. (default: :obj:`"edge_weight"`)
            normalize, self_loops: See :meth:`from_edge_index`.
        """
        return cls(*build(edges_of_data(data, edge_weight), normalize, self_loops))

    @classmethod
    def from_scipy(
        cls, matrix: Any, *, normalize: Normalize | None = None, self_loops: SelfLoops = False
    ) -> Graph:
        r"""Builds a graph from a sparse matrix of any scipy format; it may be rectangular.

        Args:
            matrix (scipy.sparse.sparray): Entry :obj:`[i, j]` is the weight of the edge from i to
                j, as in PyG's :obj:`from_scipy_sparse_matrix`. Stored zeros are edges too.
            normalize, self_loops: See :meth:`from_edge_index`.
        """
        return cls(*build(edges_of_scipy(matrix), normalize, self_loops))

    @classmethod
    def from_networkx(
        cls,
        graph: networkx.Graph,
        *,
        edge_weight: str | None = None,
        normalize: Normalize | None = None,
        self_loops: SelfLoops = False,
    ) -> Graph:
        r"""Builds a graph from a networkx graph, directed or not, with multiple edges or not.

        Args:
            graph (networkx.Graph): Its nodes are numbered in the order of :obj:`graph.nodes`. An
                undirected edge points both ways, an undirected self-loop is one edge.
            edge_weight (str, optional): The attribute that holds the weight of each edge.
                (default: :obj:`None`)
            normalize, self_loops: See :meth:`from_edge_index`.
        """
        return cls(*build(edges_of_networkx(graph, edge_weight), normalize, self_loops))

    @classmethod
    def from_file(
        cls,
        path: str | PathLike[str],
        *,
        num_nodes: NumNodes | None = None,
        normalize: Normalize | None = None,
        self_loops: SelfLoops = False,
    ) -> Graph:
        r"""Builds a graph from a text file, possibly gzipped, with an edge
        :obj:`source target [weight]` on each line.

        Fields are separated by whitespace, tabs or commas. What follows :obj:`#` or :obj:`%` is
        ignored, and so is a first line of names.

        Args:
            path (str or PathLike): The file.
            num_nodes, normalize, self_loops: See :meth:`from_edge_index`. Without
                :obj:`num_nodes`, nodes whose numbers are far beyond what a file of that size could
                list are refused.
        """
        given = read_edge_list(path)
        if num_nodes is None:
            check_numbers(given.edge_index, path)
        return cls(*build(given._replace(num_nodes=num_nodes), normalize, self_loops))

    @classmethod
    def batch(cls, graphs: Sequence[Graph]) -> Graph:
        r"""Joins graphs, or batches of them, into one batch.

        Args:
            graphs (sequence of Graph): At least one; all have weights, with equally many heads,
                or none has.
        """
        given: object = graphs
        if not isinstance(given, Sequence):
            kind = type(given).__name__
            raise TypeError(f"'graphs' must be a list of meanmax.Graph (got {kind})")
        for place, graph in enumerate(given):
            if not isinstance(graph, Graph):
                kind = type(graph).__name__
                raise TypeError(f"'graphs' must hold meanmax.Graph (got {kind} at {place})")
        if len(graphs) == 0:
            raise ValueError("a batch needs at least one graph (got none)")
        if not all(graph.is_local for graph in graphs):
            raise ValueError("a part of a graph that is spread over processes cannot be batched")
        structure = join_structures([graph._structure for graph in graphs])
        return cls(structure, join_weights([graph.weight for graph in graphs]))

    def select(self, graphs: Tensor) -> Graph:
        r"""Some graphs of a batch as a batch, in the order asked for, with edges in CSR order.

        What layers prepare of it (self-loops, normalised weights) is taken from what they have
        prepared of the whole batch, so that mini-batches of a collection cost no more than a copy.

        Args:
            graphs (Tensor): The numbers of the graphs, int64.

        Example:
            >>> batch = Graph.from_edge_index([[0, 2], [1, 2]], batch=torch.tensor([0, 0, 1]))
            >>> batch.select(torch.tensor([1, 0])).edge_index.tolist()
            [[0, 1], [0, 2]]
        """
        graphs = as_index(graphs, "graphs").long()
        if graphs.dim() != 1 or not graphs.numel():
            raise ValueError(f"'graphs' must list at least one graph (got {list(graphs.shape)})")
        low, high = (int(end) for end in graphs.aminmax())
        if low < 0 or high >= self.num_graphs:
            raise ValueError(
                f"'graphs' must be numbers from 0 to {self.num_graphs - 1} (got {low} to {high})"
            )
        structure, edges = select_graphs(self._structure, graphs)
        found = Graph(structure, None if self.weight is None else self.weight[edges])
        found._selected_from = self, graphs, edges
        return found

    @property
    def num_nodes(self) -> int:
        r"""The number of nodes, where sources and targets are the same ones."""
        if self.num_src != self.num_dst:
            raise ValueError(
                f"a graph from {self.num_src} source to {self.num_dst} target nodes has no single "
                "'num_nodes'; use 'num_src' or 'num_dst'"
            )
        return self.num_dst

    # What views of a graph implement in their own way: see meanmax.graph.views.GraphView.

    @property
    def local(self) -> Graph:
        r"""The graph that kernels run on: itself."""
        return self

    @property
    def is_local(self) -> bool:
        r"""Whether the features of all sources are in this process."""
        return self.local is self

    @property
    def holds_all_nodes(self) -> bool:
        r"""Whether the features that layers are called with are those of all nodes."""
        return True

    @property
    def around_sources(self) -> Graph:
        r"""The view whose rows include the sources of this one's rows: itself."""
        return self

    def sources(self, x: Tensor) -> Tensor:
        r"""The features of the sources of :attr:`local`: :obj:`x` itself."""
        return x

    def minimum(self, x: Tensor) -> Tensor:
        r"""The smallest feature of each graph, with its gradient, :obj:`[num_graphs]`."""
        if self.num_graphs == 1 or x.numel() == 0:
            return x.amin().view(1) if x.numel() else x.new_zeros(self.num_graphs)
        of = torch.arange(self.num_graphs, device=x.device).repeat_interleave(self.src_ptr.diff())
        rows = x.reshape(len(x), -1)
        least = x.new_zeros(self.num_graphs).scatter_reduce(
            0, of, rows.detach().amin(dim=1), "amin", include_self=False
        )
        # The gradient is shared evenly among ties, as that of torch.amin is.
        ties = rows == least[of].unsqueeze(1)
        sums = [
            x.new_zeros(self.num_graphs).index_add(0, of, values.sum(dim=1))
            for values in (torch.where(ties, rows, 0.0), ties.to(x.dtype))
        ]
        mean = sums[0] / sums[1].clamp(min=1)
        return least + (mean - mean.detach())

    def mean(self, x: Tensor) -> Tensor:
        r"""The mean over all nodes, without gradient."""
        return x.detach().sum(dim=0) / max(len(x), 1)

    @property
    def colptr(self) -> Tensor:
        r"""The first edge of each source in CSC order, :obj:`[num_src + 1]`."""
        return self._structure.csc.colptr

    @property
    def row(self) -> Tensor:
        r"""The target of each edge in CSC order, :obj:`[num_edges]`."""
        return self._structure.csc.row

    @property
    def csc_to_csr(self) -> Tensor:
        r"""The CSR position of each edge in CSC order, :obj:`[num_edges]`."""
        return self._structure.csc.csc_to_csr

    @property
    def edge_index(self) -> Tensor:
        r"""Sources and targets of all edges in the order given, int64, :obj:`[2, num_edges]`. If
        self-loops were added or replaced, all of them come last, in node order. Computed at each
        use.
        """
        return self._structure.edge_index

    @property
    def edge_weight(self) -> Tensor | None:
        r"""The weights in the order of :obj:`edge_index`."""
        return None if self.weight is None else self._structure.to_given_order(self.weight)

    @property
    def has_learned_weight(self) -> bool:
        r"""Whether the weights carry a gradient, so that nothing made from them is cached."""
        return self.weight is not None and self.weight.requires_grad

    @property
    def device(self) -> torch.device:
        r"""The device of all tensors."""
        return self.rowptr.device

    def to_graph_order(self, values: Tensor) -> Tensor:
        r"""Takes values of edges from the order of :obj:`edge_index` to CSR order.

        Args:
            values (Tensor): :obj:`[num_edges]` or :obj:`[num_edges, heads]`.
        """
        if values.dim() == 0 or values.size(0) != self.num_edges:
            raise ValueError(
                f"'values' must hold one entry for each of {self.num_edges} edges "
                f"(got shape {list(values.shape)})"
            )
        return self._structure.to_graph_order(values)

    def with_weight(self, edge_weight: Tensor | Sequence[float] | None) -> Graph:
        r"""Returns the same graph with other weights, sharing the structure.

        Args:
            edge_weight (Tensor, optional): Weights in the order of :obj:`edge_index`,
                :obj:`[num_edges]` or :obj:`[num_edges, heads]`; :obj:`None` for no weights.
                Weights that are learned belong into a new graph for each step, or into a layer's
                :obj:`edge_weight`.
        """
        weight = as_weight(edge_weight, self.num_edges, self.device)
        return Graph(
            self._structure, None if weight is None else self._structure.to_graph_order(weight)
        )

    def prepared(self, normalize: Normalize | None = None, self_loops: SelfLoops = False) -> Graph:
        r"""Returns the graph that a layer aggregates over: with self-loops, with its weights
        normalised, and with :obj:`edge_index` in CSR order.

        It is cached for the next call, unless the weights carry a gradient.

        Args:
            normalize, self_loops: See :meth:`from_edge_index`.

        Example:
            >>> graph = Graph.from_edge_index([[0, 1], [1, 0]], normalize=None)
            >>> graph.prepared("sym", self_loops=True).weight
            tensor([0.5000, 0.5000, 0.5000, 0.5000])
        """
        if self.has_learned_weight:
            with torch.inference_mode(False):
                return self._prepare(normalize, self_loops)
        key = ("prepared", normalize, self_loops)
        return self.cached(key, lambda: self._prepare(normalize, self_loops))

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        r"""The result of :obj:`make`, kept in :attr:`cache` under :obj:`key`.

        Args:
            key (hashable): The key.
            make (callable): Called once, outside of inference mode, since what is cached may be
                trained with later.
        """
        if key not in self.cache:
            with torch.inference_mode(False):
                self.cache[key] = make()
        found: T = self.cache[key]
        return found

    def _prepare(self, normalize: Normalize | None, self_loops: SelfLoops) -> Graph:
        if self._selected_from is not None and not self.has_learned_weight:
            whole, graphs, edges = self._selected_from
            ready = whole.prepared(normalize, self_loops)
            if ready._structure is not whole._structure.in_csr_order:
                return ready.select(graphs)
            # The same edges with other weights share what kernels derive from the structure.
            weight = None if ready.weight is None else ready.weight[edges]
            return self if weight is self.weight else Graph(self._structure, weight)
        structure, weight = self._structure.in_csr_order, self.weight
        if normalize is None and self_loops is False:
            return self if structure is self._structure else Graph(structure, weight)
        given = EdgeList(structure.edge_index, (self.num_src, self.num_dst), weight)
        if self_loops is False:
            return Graph(structure, build(given, normalize, False)[1])
        looped, weight = build(given._replace(ptr=self.src_ptr), normalize, self_loops)
        return Graph(looped.in_csr_order, weight)

    def to(self, device: torch.device | str) -> Graph:
        r"""Returns the graph on :obj:`device`, itself if it is there already.

        Args:
            device (torch.device or str): The device.
        """
        structure = self._structure.to(device)
        if structure is self._structure:
            return self
        return Graph(structure, None if self.weight is None else self.weight.to(device))

    def __reduce__(self) -> tuple[type[Graph], tuple[Structure, Tensor | None]]:
        r"""Copies and pickles structure and weights, not the cache."""
        return Graph, (self._structure, self.weight)

    def __repr__(self) -> str:
        r"""Shows the sizes, and the device unless it is the CPU."""
        facts: dict[str, object] = {"num_src": self.num_src, "num_dst": self.num_dst}
        if self.num_src == self.num_dst:
            facts = {"num_nodes": self.num_nodes}
        facts |= {"num_edges": self.num_edges, "weighted": self.weight is not None}
        if self.weight is not None and self.weight.dim() == 2:
            facts["heads"] = self.weight.size(1)
        facts["num_graphs"] = self.num_graphs
        if self.device.type != "cpu":
            facts["device"] = str(self.device)
        return f"Graph({', '.join(f'{name}={value!r}' for name, value in facts.items())})"
