"""Edges grouped by target (CSR) and by source (CSC), in linear time on the CPU."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from meanmax.graph.checks import is_sorted


class Csr(NamedTuple):
    r"""Edges grouped by target, in their given order within a target."""

    rowptr: Tensor
    """[num_dst + 1]"""
    col: Tensor
    """[num_edges], the source of each edge."""
    perm: Tensor | None
    """[num_edges], the given position of each edge; None if it is unchanged."""


class Csc(NamedTuple):
    r"""Edges grouped by source, in CSR order within a source."""

    colptr: Tensor
    """[num_src + 1]"""
    row: Tensor
    """[num_edges], the target of each edge."""
    csc_to_csr: Tensor
    """[num_edges], the CSR position of each edge."""


def index_dtype(*sizes: int) -> torch.dtype:
    r"""The narrowest of int32 and int64 that counts up to each of :obj:`sizes`."""
    return torch.int32 if max(sizes) < 2**31 else torch.int64


def to_csr(src: Tensor, dst: Tensor, num_dst: int) -> Csr:
    r"""Groups edges by target; the result has the dtype of :obj:`src` and :obj:`dst`."""
    if is_sorted(dst):
        return Csr(pointer(dst, num_dst), src, None)
    if _on_cpu(dst):
        one_row = dst.new_tensor([0, dst.numel()])
        rowptr, _, perm = _transpose_with_scipy(one_row, dst, num_dst)
    else:
        rowptr, perm = pointer(dst, num_dst), _stable_order(dst)
    return Csr(rowptr, src.index_select(0, perm), perm)


def to_csc(rowptr: Tensor, col: Tensor, num_src: int) -> Csc:
    r"""Transposes CSR to CSC; the result has the dtype of :obj:`rowptr` and :obj:`col`."""
    if _on_cpu(col):
        return Csc(*_transpose_with_scipy(rowptr, col, num_src))
    csc_to_csr = _stable_order(col)
    return Csc(pointer(col, num_src), expand(rowptr).index_select(0, csc_to_csr), csc_to_csr)


def expand(ptr: Tensor) -> Tensor:
    r"""Returns the group of each element: :obj:`[0, 2, 5]` becomes :obj:`[0, 0, 1, 1, 1]`."""
    groups = torch.arange(ptr.numel() - 1, dtype=ptr.dtype, device=ptr.device)
    return groups.repeat_interleave(ptr.diff())


def pointer(index: Tensor, size: int) -> Tensor:
    r"""Returns where each group starts once sorted: :obj:`[0, 1, 0]` becomes :obj:`[0, 2, 3]`."""
    ptr = index.new_zeros(size + 1)
    ptr[1:] = torch.bincount(index, minlength=size).cumsum(0)
    return ptr


def _on_cpu(index: Tensor) -> bool:
    return index.is_cpu


def _stable_order(index: Tensor) -> Tensor:
    return index.sort(stable=True).indices.to(index.dtype)


def _transpose_with_scipy(ptr: Tensor, index: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    # scipy's transposition is a counting sort: stable, linear, and it carries the positions along.
    # Of torch's and numpy's stable sorts none was faster above 10,000 edges.
    positions = np.arange(index.numel(), dtype=index.numpy().dtype)
    matrix = csr_array((positions, index.numpy(), ptr.numpy()), shape=(ptr.numel() - 1, size))
    csc = matrix.tocsc()
    parts = (csc.indptr, csc.indices, csc.data)
    new_ptr, group, order = (torch.from_numpy(part).to(index.dtype) for part in parts)
    return new_ptr, group, order
