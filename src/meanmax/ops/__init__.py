r"""Tilted sums: the one primitive behind all aggregators, on three backends."""

from meanmax.ops.attention import (attention, edge_dot, row_softmax)
from meanmax.ops.autograd import tilted_aggregate
from meanmax.ops.dropout import (Drop, dropout)
from meanmax.ops.ends import (neighbour_max, weighted_sum)
from meanmax.ops.spec import Form
from meanmax.ops.dispatch import (numba_serves, use_backend)
from meanmax.ops.sparse_product import sparse_product

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
