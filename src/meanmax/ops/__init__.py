r"""Tilted sums: the one primitive behind all aggregators, on three backends."""

from meanmax.ops.attention import attention, edge_dot, row_softmax
from meanmax.ops.autograd import neighbour_max, tilted_aggregate, weighted_sum
from meanmax.ops.dispatch import numba_serves, use_backend
from meanmax.ops.dropout import Drop, dropout, sparse_product
from meanmax.ops.spec import AggregationSpec

__all__ = [
    "Drop",
    "AggregationSpec",
    "attention",
    "dropout",
    "edge_dot",
    "neighbour_max",
    "numba_serves",
    "row_softmax",
    "sparse_product",
    "tilted_aggregate",
    "use_backend",
    "weighted_sum",
]
