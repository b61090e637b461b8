r"""Tilted sums: the one primitive behind all aggregators, on three backends."""

from meanmax.kernels.attention import attention, edge_dot, row_softmax
from meanmax.kernels.autograd import tilted_aggregate
from meanmax.kernels.dropout import Drop, dropout
from meanmax.kernels.ends import neighbour_max, weighted_sum
from meanmax.kernels.form import Form
from meanmax.kernels.select import numba_serves, use_backend
from meanmax.kernels.sparse_product import sparse_product

__all__ = [
    "Drop",
    "Form",
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
