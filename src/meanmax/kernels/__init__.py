r"""Tilted sums: the one primitive behind all aggregators, on three backends."""

from meanmax.kernels.attention import attention, edge_dot, row_softmax
from meanmax.kernels.autograd import tilted_aggregate
from meanmax.kernels.dropout import dropout
from meanmax.kernels.ends import neighbour_max, weighted_sum
from meanmax.kernels.form import Form
from meanmax.kernels.select import use_backend

__all__ = [
    "Form",
    "attention",
    "dropout",
    "edge_dot",
    "neighbour_max",
    "row_softmax",
    "tilted_aggregate",
    "use_backend",
    "weighted_sum",
]
