"""What a graph accepts, checked once at construction; an error names what was got and allowed."""

from __future__ import annotations

import operator
import os
from functools import cache
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch_geometric import EdgeIndex, Index

Normalize: TypeAlias = Literal["sym", "row"]
SelfLoops: TypeAlias = bool | Literal["add", "replace"]
NumNodes: TypeAlias = int | tuple[int, int]

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
r"""What features and weights may be."""

_SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
_INTEGER = (*_SIGNED, torch.uint8, torch.uint16, torch.uint32, torch.uint64)


def not_a_graph(value: object) -> ValueError:
    r"""The error for an argument :obj:`graph` of another type."""
    return ValueError(
        f"'graph' must be a meanmax.Graph (got {type(value).__name__}); make one with "
        f"Graph.from_edge_index(edge_index, num_nodes)"
    )


@cache
def memory() -> int:
    r"""Bytes of memory, 16 GiB if the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 34


def check_count(count: int, name: str, what: str = "nodes") -> None:
    r"""Raises if an index of this many nodes, 8 bytes each, takes more than half of the memory."""
    if count > memory() // 16:
        raise ValueError(
            f"'{name}' asks for {count:,} {what}, and an index of as many takes more than half of "
            f"this machine's memory: number them from 0 without gaps"
        )


def check_floats(value: object, name: str) -> None:
    r"""Raises unless a value is a dense tensor of one of :obj:`FLOATS`."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        got = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"'{name}' must be a floating-point tensor (got {got})")
    if value.dtype not in FLOATS:
        raise ValueError(
            f"'{name}' must be float16, bfloat16, float32 or float64 (got {value.dtype}): pass "
            f"{name}.float()"
        )
    if value.layout != torch.strided or value.is_nested:
        layout = "nested" if value.is_nested else value.layout
        raise ValueError(
            f"'{name}' must be a dense tensor (got layout {layout}): pass {name}.to_dense(); "
            f"layers also take sparse features, as meanmax.SparseFeatures.from_torch({name})"
        )


def as_index(value: Any, name: str) -> Tensor:
    r"""Returns a dense tensor of signed integers from a tensor, an array or a (nested) list."""
    index: Tensor
    if isinstance(value, EdgeIndex | Index):
        index = value.as_tensor()
    elif isinstance(value, Tensor):
        index = value
    else:
        array = np.asarray(value)
        if array.size > 0 and array.dtype.kind not in "iu":
            raise ValueError(f"'{name}' must hold integers (got {array.dtype})")
        _check_unsigned(array, name)
        # A copy where torch could not share the memory: read-only, byte-swapped, reversed.
        index = torch.from_numpy(np.require(array, np.int64, ["C", "W"]))
    if index.layout != torch.strided:
        raise ValueError(f"'{name}' must be a dense tensor of indices (got {index.layout})")
    if index.dtype not in _INTEGER:
        raise ValueError(f"'{name}' must hold integers (got {index.dtype})")
    if index.dtype == torch.uint64:
        _check_unsigned(index.numpy(force=True), name)
    return index if index.dtype in _SIGNED else index.long()


def _check_unsigned(array: np.ndarray, name: str) -> None:
    if array.dtype.kind == "u" and array.itemsize == 8 and array.size and array.max() >= 2**63:
        raise ValueError(f"'{name}' holds {array.max()}, and indices are at most 2**63 - 1")


def as_edge_index(value: Any) -> Tensor:
    r"""Returns :obj:`value` as an integer tensor of shape :obj:`[2, num_edges]`."""
    edges = as_index(value, "edge_index")
    if edges.dim() != 2 or edges.size(0) != 2:
        transposed = edges.dim() == 2 and edges.size(1) == 2
        hint = "; pass edge_index.t()" if transposed else ""
        raise ValueError(
            f"'edge_index' must have shape [2, num_edges] (got {list(edges.shape)}){hint}"
        )
    return edges


def as_sizes(num_nodes: Any) -> tuple[int, int]:
    r"""Returns :obj:`(num_src, num_dst)` from a count or a pair of counts."""
    pair = num_nodes if isinstance(num_nodes, tuple | list) else (num_nodes, num_nodes)
    try:
        num_src, num_dst = (operator.index(size) for size in pair)
    except (TypeError, ValueError):
        num_src = num_dst = -1
    if num_src < 0 or num_dst < 0:
        raise ValueError(
            "'num_nodes' must be a non-negative integer or a pair (num_src, num_dst) of them "
            f"(got {num_nodes!r})"
        )
    check_count(max(num_src, num_dst), "num_nodes")
    return num_src, num_dst


def as_weight(value: Any, num_edges: int, device: torch.device) -> Tensor | None:
    r"""Returns finite, non-negative floating weights of shape :obj:`[num_edges]` or
    :obj:`[num_edges, heads]`, or :obj:`None` for :obj:`None`; integers and booleans take the
    default floating dtype.
    """
    if value is None:
        return None
    weight = value if isinstance(value, Tensor) else torch.tensor(value, device=device)
    if weight.dim() not in (1, 2) or weight.size(0) != num_edges:
        raise ValueError(
            f"'edge_weight' must have shape [{num_edges}] or [{num_edges}, heads], one entry per "
            f"edge (got {list(weight.shape)})"
        )
    if weight.device != device:
        raise ValueError(
            f"'edge_weight' must be on the graph's device {device} (got {weight.device})"
        )
    if weight.dtype == torch.bool or weight.dtype in _INTEGER:
        weight = weight.to(torch.get_default_dtype())
    if not weight.dtype.is_floating_point:
        raise ValueError(f"'edge_weight' must hold real numbers (got {weight.dtype})")
    if weight.numel() == 0:
        return weight
    low, high = (float(bound) for bound in weight.detach().aminmax())
    if low != low:  # aminmax propagates NaN
        raise ValueError("'edge_weight' must be finite (got NaN)")
    if low < 0:
        raise ValueError(f"'edge_weight' must not be negative (got {low:g})")
    if high == float("inf"):
        raise ValueError("'edge_weight' must be finite (got inf)")
    return weight


def check_range(index: Tensor, num_nodes: int, side: str, argument: str = "edge_index") -> None:
    r"""Raises if an entry of :obj:`index` is not a node in :obj:`[0, num_nodes)`."""
    if index.numel() == 0:
        return
    low, high = (int(bound) for bound in index.aminmax())
    if low < 0:
        raise ValueError(f"'{argument}': {side} indices must not be negative (got {low})")
    if high >= num_nodes:
        raise ValueError(
            f"'{argument}': {side} index {high} is too large for {num_nodes} {side} nodes; "
            "pass a larger 'num_nodes' or correct the edge"
        )


def check_pointer(ptr: Tensor, end: int, name: str) -> None:
    r"""Raises unless :obj:`ptr` rises from 0 to :obj:`end` without falling."""
    if ptr.dim() != 1 or ptr.numel() == 0:
        raise ValueError(f"'{name}' must be a non-empty vector (got shape {list(ptr.shape)})")
    first, last = int(ptr[0]), int(ptr[-1])
    if first != 0 or last != end:
        raise ValueError(f"'{name}' must run from 0 to {end} (got {first} to {last})")
    if not is_sorted(ptr):
        raise ValueError(f"'{name}' must not decrease")


def check_batch(ids: Tensor, num_nodes: int) -> None:
    r"""Raises unless :obj:`ids` holds one graph id per node, ascending from at least 0."""
    if ids.dim() != 1 or ids.numel() != num_nodes:
        raise ValueError(
            f"'batch' must hold one graph id for each of {num_nodes} nodes "
            f"(got shape {list(ids.shape)})"
        )
    if not is_sorted(ids):
        raise ValueError("'batch' must be sorted, so that each graph is a range of nodes")
    if num_nodes > 0 and int(ids[0]) < 0:
        raise ValueError(f"'batch' must not hold negative graph ids (got {int(ids[0])})")


def check_options(
    normalize: object, self_loops: object, num_src: int, num_dst: int
) -> Literal["add", "replace"] | None:
    r"""Checks both options against each other and the sizes; returns how to treat self-loops."""
    if normalize not in (None, "sym", "row"):
        raise ValueError(f"'normalize' must be None, 'sym' or 'row' (got {normalize!r})")
    if not (isinstance(self_loops, bool) or self_loops in ("add", "replace")):
        raise ValueError(
            f"'self_loops' must be False, True, 'add' or 'replace' (got {self_loops!r})"
        )
    if num_src != num_dst:
        reason = f"(got {num_src} source and {num_dst} target nodes)"
        if normalize == "sym":
            raise ValueError(
                "normalize='sym' needs source and target nodes to be the same, as it divides by "
                f"the degree at both ends {reason}; use 'row'"
            )
        if self_loops:
            raise ValueError(
                f"self_loops={self_loops!r} needs source and target nodes to be the same {reason}"
            )
    if not self_loops:
        return None
    return "replace" if self_loops == "replace" else "add"


def is_sorted(index: Tensor) -> bool:
    r"""Whether a vector never decreases."""
    return bool((index[1:] >= index[:-1]).all())
