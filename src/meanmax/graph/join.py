"""Several graphs side by side as one batch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from meanmax.graph.compress import index_dtype
from meanmax.graph.structure import Structure


def join_structures(parts: Sequence[Structure]) -> Structure:
    r"""Numbers the nodes and edges of each part after those of the parts before it.

    Args:
        parts (sequence of Structure): One graph or batch each.
    """
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
    r"""Joins the weights of all parts; raises if they differ in kind.

    Args:
        weights (sequence of Tensor, optional): The weights of each part in CSR order.
    """
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
