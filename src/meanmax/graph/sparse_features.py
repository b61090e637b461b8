"""Features of which few are not zero, such as bags of words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from meanmax.graph.graph import Graph


@final
class SparseFeatures:
    r"""A feature matrix that stores only what is not zero: a bag of words.

    It is kept as the graph that it is, with an edge from each feature to each node that has it, so
    that its product with a weight matrix runs on the same kernels as an aggregation. Layers take
    it in place of a dense :obj:`x`.

    Example:
        >>> x = SparseFeatures.from_dense([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0]])
        >>> x
        SparseFeatures(num_nodes=2, num_features=3, stored=2)
        >>> x.to_dense()
        tensor([[0., 2., 0.],
                [1., 0., 0.]])

    Attributes:
        graph (Graph): From :obj:`num_features` sources to :obj:`num_nodes` targets, no weights.
        stored (Tensor): The stored values in CSR order of the graph, :obj:`[stored]`.
        pending (callable, optional): What is still to be applied to them, such as dropout: a
            product may apply it on the way.
    """

    def __init__(
        self, graph: Graph, value: Tensor, pending: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        r"""Joins a structure and its values; call a :obj:`from_...` method instead."""
        if not isinstance(value, Tensor) or value.shape != (graph.num_edges,):
            got = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(
                f"'value' must hold one number for each of {graph.num_edges} stored entries "
                f"(got {got})"
            )
        if not value.is_floating_point():
            raise ValueError(f"'value' must be floating-point (got {value.dtype})")
        self.graph: Final = graph
        self.stored: Final = value
        self.pending: Final = pending

    @classmethod
    def from_scipy(cls, matrix: Any, dtype: torch.dtype = torch.float32) -> SparseFeatures:
        r"""Takes a scipy sparse matrix or array, :obj:`[num_nodes, num_features]`. Duplicates are
        summed; stored zeros are dropped; the values are float32 unless :obj:`dtype` is given.
        """
        if not scipy.sparse.issparse(matrix) or matrix.ndim != 2:
            raise ValueError(
                f"'matrix' must be a two-dimensional scipy sparse matrix "
                f"(got {type(matrix).__name__})"
            )
        rows = scipy.sparse.csr_array(matrix, copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        value = torch.from_numpy(np.asarray(rows.data)).to(dtype)
        if value.numel() and not bool(torch.isfinite(value).all()):
            raise ValueError("sparse features must be finite: replace NaN and infinite entries")
        graph = Graph.from_csr(
            torch.from_numpy(rows.indptr),
            torch.from_numpy(rows.indices),
            num_src=rows.shape[1],
            copy=False,
        )
        return cls(graph, value)

    @classmethod
    def from_dense(cls, x: Any, dtype: torch.dtype = torch.float32) -> SparseFeatures:
        r"""Takes a dense tensor, array or list of rows, :obj:`[num_nodes, num_features]`; the
        values are float32 unless another :obj:`dtype` is given.
        """
        dense = torch.as_tensor(x).detach().cpu()
        if dense.dim() != 2:
            raise ValueError(f"'x' must be [num_nodes, num_features] (got {list(dense.shape)})")
        if dense.dtype in (torch.float16, torch.bfloat16):
            dense = dense.float()  # scipy has neither
        return cls.from_scipy(scipy.sparse.csr_array(dense.numpy()), dtype)

    @classmethod
    def from_torch(cls, x: Tensor, dtype: torch.dtype | None = None) -> SparseFeatures:
        r"""Takes a sparse tensor of PyTorch, in COO, CSR or CSC layout,
        :obj:`[num_nodes, num_features]`; the values keep its type unless :obj:`dtype` is given.
        """
        if x.layout == torch.strided or x.dim() != 2:
            raise ValueError(
                f"'x' must be a two-dimensional sparse tensor (got {x.layout}, {list(x.shape)})"
            )
        entries = x.detach().cpu().to_sparse_coo().coalesce()  # type: ignore[no-untyped-call]
        row, column = entries.indices().numpy()
        value = entries.values().double().numpy()
        matrix = scipy.sparse.coo_array((value, (row, column)), tuple(x.shape))
        return cls.from_scipy(matrix, dtype or x.dtype).to(x.device)

    @property
    def shape(self) -> torch.Size:
        r"""Nodes and features."""
        return torch.Size([self.graph.num_dst, self.graph.num_src])

    @property
    def value(self) -> Tensor:
        r"""The values in CSR order of the graph, :obj:`[stored]`, with :obj:`pending` applied."""
        return self.stored if self.pending is None else self.pending(self.stored)

    @property
    def dtype(self) -> torch.dtype:
        r"""The type of the values."""
        return self.stored.dtype

    @property
    def device(self) -> torch.device:
        r"""The device of all tensors."""
        return self.stored.device

    def size(self, dim: int) -> int:
        r"""The size of one dimension, as of a tensor."""
        return self.shape[dim]

    def with_value(self, value: Tensor) -> SparseFeatures:
        r"""The same entries with other values, :obj:`[stored]`, which may carry a gradient."""
        return SparseFeatures(self.graph, value)

    def to(self, target: torch.device | torch.dtype | str) -> SparseFeatures:
        r"""The features on another device or in another dtype, itself if nothing changes."""
        value = self.value.to(target)
        if value is self.value:
            return self
        return SparseFeatures(self.graph.to(value.device), value)

    def to_scipy(self) -> Any:
        r"""A scipy :obj:`csr_array`, sharing memory with the CPU's tensors."""
        parts = (self.value.detach().cpu(), self.graph.col.cpu(), self.graph.rowptr.cpu())
        return scipy.sparse.csr_array(tuple(part.numpy() for part in parts), tuple(self.shape))

    def to_dense(self) -> Tensor:
        r"""A dense tensor, :obj:`[num_nodes, num_features]`."""
        row = torch.arange(self.shape[0], device=self.device)
        row = row.repeat_interleave(self.graph.rowptr.diff(), output_size=self.value.numel())
        dense = self.value.new_zeros(self.shape)
        return dense.index_put((row, self.graph.col.long()), self.value)

    def __repr__(self) -> str:
        nodes, features = self.shape
        stored = self.stored.numel()
        return f"SparseFeatures(num_nodes={nodes}, num_features={features}, stored={stored})"
