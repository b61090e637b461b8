r"""Rows that the common shift loses, recomputed edge by edge in float64, a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.chunks import (Chunk, budget_of, chunk_rows, head_of_channel)
from meanmax.ops.spec import Form
from meanmax.ops.gradients import Gradients
from meanmax.ops.reference import (aggregate_rows, per_node)


class ExactRows:
    r"""The rows :obj:`rows` of one aggregation, forward and backward.

    Args:
        x (Tensor): Features, :obj:`[num_src, channels]`.
        graph (Graph): The graph.
        theta (Tensor): The parameter, :obj:`[channels]`.
        weight (Tensor): Weights in CSR order, :obj:`[num_edges, heads]`.
        mu (Tensor): The origin of every graph.
        form (Form): What is computed.
        rows (Tensor): The rows.
    """

    def __init__(
        self, x: Tensor, graph: Graph, theta: Tensor, weight: Tensor, mu: Tensor, form: Form,
        rows: Tensor,
    ) -> None:  # fmt: skip
        self.x, self.graph, self.theta, self.weight = x, graph, theta, weight
        self.form, self.rows = form, rows
        self.mu_src, self.mu_dst = per_node(mu, graph)

    def forward(self, out: Tensor) -> None:
        r"""Writes the rows into :obj:`out`."""
        for chunk in self._chunks():
            part = self._aggregate(chunk, *self._inputs(chunk))
            out[chunk.rows, chunk.channels] = part.to(out.dtype)

    def backward(self, grad: Tensor, into: Gradients, graph_of_row: Tensor) -> None:
        r"""Adds to the gradients; that of the origin includes what the features' undo."""
        for chunk in self._chunks():
            leaves = [t.requires_grad_() for t in self._inputs(chunk)]
            with torch.enable_grad():
                out = self._aggregate(chunk, *leaves)
            above = grad[chunk.rows, chunk.channels].double()
            x, theta, weight, mu = torch.autograd.grad(out, leaves, above, allow_unused=True)
            into.x[:, chunk.channels].index_add_(0, self._col(chunk), x.to(into.x.dtype))
            into.theta[chunk.channels] += theta
            if into.weight is not None:
                heads = self._heads(chunk)
                part = into.weight.new_zeros(len(chunk.edges), into.weight.size(1))
                part.index_add_(1, heads, weight.to(part.dtype))
                into.weight.index_add_(0, chunk.edges, part)
            if into.mu is not None:
                into.mu.index_add_(0, graph_of_row[chunk.rows], mu)

    def _chunks(self) -> Iterator[Chunk]:
        return chunk_rows(self.graph, self.rows, self.x.size(1), budget_of(self.x))

    def _col(self, chunk: Chunk) -> Tensor:
        return self.graph.col[chunk.edges].long()

    def _heads(self, chunk: Chunk) -> Tensor:
        heads = head_of_channel(self.x.size(1), self.weight.size(1), self.x.device)
        return heads[chunk.channels]

    def _inputs(self, chunk: Chunk) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        x = self.x[self._col(chunk), chunk.channels].double()
        weight = self.weight[chunk.edges].double()[:, self._heads(chunk)]
        assert self.mu_dst is not None
        return x, self.theta[chunk.channels].double(), weight, self.mu_dst[chunk.rows].double()

    def _aggregate(
        self, chunk: Chunk, x: Tensor, theta: Tensor, weight: Tensor, mu: Tensor
    ) -> Tensor:
        edges = torch.arange(len(chunk.edges), device=x.device)
        return aggregate_rows(
            x, theta, weight, edges, chunk.target, len(chunk.rows), self.form,
            mu[chunk.target], mu,
        )  # fmt: skip
