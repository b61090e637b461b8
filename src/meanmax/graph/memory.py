r"""Graphs of an :obj:`edge_index`, kept as long as the tensor lives and is not changed in place."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Literal, TypeAlias, final

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary
from torch_geometric import EdgeIndex

from meanmax.graph.graph import Graph

Rule: TypeAlias = Literal["sum", "mean", "own", "row"]
r"""What an edge counts: its weight; that by the number of edges of its target; its weight, which
must not be negative; that by the sum of its target's weights.
"""

Sizes: TypeAlias = tuple[int, int]
Edges: TypeAlias = tuple[Tensor, Tensor | None]


@final
class Memory:
    r"""A dictionary for each tensor.

    It is found by the identity of the tensor, ends with the tensor, and starts empty once the
    tensor was changed in place. A value must not hold the tensor itself, or neither would end.
    Changes that PyTorch does not count, through a numpy array of the same memory or of the values
    of :obj:`tensor.data`, go unnoticed.

    Example:
        >>> import torch
        >>> memory, edge_index = Memory(), torch.tensor([[0, 1], [1, 0]])
        >>> memory.of(edge_index)["degree"] = 1
        >>> memory.of(edge_index)
        {'degree': 1}
        >>> edge_index[0, 0] = 1
        >>> memory.of(edge_index), len(memory)
        ({}, 1)
        >>> del edge_index
        >>> len(memory)
        0
    """

    def __init__(self) -> None:
        self._known: Final[Any] = WeakIdKeyDictionary()

    def of(self, tensor: Tensor) -> dict[Hashable, Any]:
        r"""What is known of a tensor, to be read and added to."""
        if tensor.is_inference():  # such tensors do not count their changes
            return {}
        state = tensor._version, tensor.data_ptr(), tensor.shape
        before, known = self._known.get(tensor, (None, None))
        if known is None or before != state:
            known = {}
            self._known[tensor] = state, known
        found: dict[Hashable, Any] = known
        return found

    def __len__(self) -> int:
        return len(self._known)


MEMORY: Final = Memory()
r"""The graphs of every :obj:`edge_index`, and the groups of every :obj:`index`."""


def edges_of(edge_index: Any) -> Tensor | None:
    r"""The tensor of an :obj:`edge_index`; :obj:`None` for other forms of a graph."""
    if isinstance(edge_index, EdgeIndex):
        edge_index = edge_index.as_tensor()
    fine = (
        type(edge_index) is Tensor
        and edge_index.layout == torch.strided
        and edge_index.dtype in (torch.int64, torch.int32)
        and edge_index.dim() == 2
        and edge_index.size(0) == 2
    )
    return edge_index if fine else None


def sizes_of(x: Tensor | tuple[Tensor, Tensor | None], size: Any) -> Sizes | None:
    r"""The numbers of sources and targets, as PyG finds them; :obj:`None` if they contradict."""
    ends: list[Any] = list(size) if size is not None else [None, None]
    parts = x if isinstance(x, tuple) else (x, None)
    for place, part in enumerate(parts):
        if part is not None:
            if ends[place] not in (None, len(part)):
                return None
            ends[place] = len(part)
    return int(ends[0]), int(ends[0] if ends[1] is None else ends[1])


def remembered_edges(
    edge_index: Tensor, edge_weight: Tensor | None, key: Hashable, make: Callable[[], Edges]
) -> Edges:
    r"""What a layer makes of an :obj:`edge_index` and weights before it sends messages.

    Args:
        edge_index (Tensor): As given to the layer.
        edge_weight (Tensor, optional): As given to the layer.
        key (hashable): What :obj:`make` does.
        make (callable): Returns edges, which do not depend on the weights, and new weights.
    """
    known, store = _memory_of(edge_index, edge_weight)
    if store is None or key not in store:
        with _not_inference(store):
            index, weight = make()
        # The memory must not hold its own key.
        known.setdefault(("edges", key), None if index is edge_index else index)
        if store is None:
            index = known["edges", key]
            return edge_index if index is None else index, weight
        store[key] = weight
    index = known["edges", key]
    return edge_index if index is None else index, store[key]


def remembered_graph(
    edge_index: Tensor, edge_weight: Tensor | None, sizes: Sizes, rule: Rule, dtype: torch.dtype
) -> tuple[Graph, Tensor | None]:
    r"""The graph of an :obj:`edge_index`, whose weights are what edges count, and weights in CSR
    order that take their place where these are learned.

    Args:
        edge_index (Tensor): The edges that messages run over.
        edge_weight (Tensor, optional): Their weights.
        sizes (tuple): The numbers of sources and targets.
        rule (str): What an edge counts.
        dtype (torch.dtype): That of the features.
    """
    known, store = _memory_of(edge_index, edge_weight)
    key = (sizes, rule, dtype)
    if store is not None and key in store:
        found: Graph = store[key]
        return found, None
    with _not_inference(store):
        if sizes not in known:
            known[sizes] = Graph.from_edge_index(edge_index, sizes)
        structure: Graph = known[sizes]
        if rule in ("own", "row"):
            graph = structure.with_weight(edge_weight)
            graph = graph.prepared("row" if rule == "row" else None)
        else:
            values = None if edge_weight is None else structure.to_graph_order(edge_weight)
            if rule == "mean":
                values = by_count(structure, values, dtype)
            if store is None and values is not None:
                return structure, values.unsqueeze(1)
            graph = Graph(structure._structure, values)
        if store is not None:
            store[key] = graph
    return graph, None


def _memory_of(
    edge_index: Tensor, edge_weight: Tensor | None
) -> tuple[dict[Hashable, Any], dict[Hashable, Any] | None]:
    r"""What is known of the edges, and of them with these weights, unless those are learned."""
    known = MEMORY.of(edge_index)
    if edge_weight is None:
        return known, known
    if edge_weight.requires_grad:
        return known, None
    return known, known.setdefault("weights", Memory()).of(edge_weight)


def _not_inference(store: object) -> AbstractContextManager[None]:
    r"""What is stored may be trained with later."""
    return nullcontext() if store is None else torch.inference_mode(False)


def by_count(graph: Graph, values: Tensor | None, dtype: torch.dtype) -> Tensor:
    r"""Values of edges in CSR order, or 1, divided by the number of edges of their target."""
    degree = graph.rowptr.diff()
    share = (1 / degree.clamp(min=1).to(dtype)).repeat_interleave(degree)
    return share if values is None else values * share
