r"""The rows that the common shift loses, and their part in the backward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from meanmax.ops.spec import Form
from meanmax.ops.numba import (exact, extended)
from meanmax.ops.numba.exact_forward import (exact_mean_forward, exact_norm_forward)
from meanmax.ops.numba.plan import (ROW_COST, Array, Plan, Weights, blocks_of)
from meanmax.ops.scaling import Channel

if TYPE_CHECKING:
    from meanmax.ops.numba.backend import State


@dataclass(frozen=True, eq=False)
class Exact:
    r"""What the exact forward pass leaves, one row of each array per row of :obj:`chosen`.

    For the means, :obj:`ratio` is the mean from the :obj:`anchor`, for Lp the norm. What
    :obj:`extra` holds depends on the form; the kernels say.
    """

    chosen: Array
    graph_of: Array
    blocks: Array
    mantissa: Array
    exponent: Array
    peak: Array
    anchor: Array
    inverse: Array
    ratio: Array
    extra: Array

    def backward(self, state: State, g: Array, dx: Array) -> tuple[Array, Array]:
        r"""Adds to :obj:`dx`; returns the parameter's gradient and :obj:`dx`'s sum per block."""
        plan, x = state.plan, state.x
        theta = np.zeros((len(plan.source_blocks), x.shape[1]))
        moved = np.zeros(len(plan.source_blocks))
        slot = np.full(plan.num_dst, -1, np.int64)
        slot[self.chosen] = np.arange(len(self.chosen))
        exact.exact_backward(
            plan.source_blocks, plan.colptr, plan.row, state.weights.transposed, slot, x,
            self.mantissa, self.exponent, state.table, kind_code(state.form), _limit(state),
            self.peak, self._pulled(state, g), self.anchor, self.ratio, self.extra,
            dx, theta, moved,
        )  # fmt: skip
        if state.form.kind == "lp":
            summed = theta.sum(axis=0) / state.table[0, Channel.THETA].astype(np.float64) ** 2
        else:
            scale = state.table[plan.source_blocks[:, 2], Channel.SCALE].astype(np.float64)
            power = 2 if state.form.kind == "softmax" else 1
            summed = (theta * scale**power).sum(axis=0)
        return summed, moved

    def weight_backward(self, state: State, g: Array, weight_grad: Array) -> None:
        r"""Writes the gradient of the weights of these rows."""
        plan, form = state.plan, state.form
        exact.exact_weight_backward(
            self.blocks, self.chosen, self.graph_of, plan.rowptr, plan.col, state.x,
            self.mantissa, self.exponent, state.table, kind_code(form),
            form.shift == "consistent", form.times_weight, _limit(state), state.weights.total,
            self.peak, self._pulled(state, g), self.anchor, self.ratio, g, state.out, weight_grad,
        )  # fmt: skip

    def _pulled(self, state: State, g: Array) -> Array:
        pulled = g[self.chosen]
        pulled *= self.inverse
        if state.form.kind == "lp":
            pulled *= self.ratio
        if state.form.times_weight:
            total = state.weights.total[self.chosen]
            pulled *= np.repeat(total, pulled.shape[1] // total.shape[1], axis=1)
        return pulled


def exact_forward(
    plan: Plan, weights: Weights, x: Array, table: Array, form: Form, lost: Array, out: Array
) -> Exact:
    r"""Recomputes the rows that are :obj:`lost` and writes them into :obj:`out`."""
    chosen = np.flatnonzero(lost)
    graph_of = np.searchsorted(plan.dst_bounds, chosen, side="right") - 1
    degree = (plan.rowptr[chosen + 1] - plan.rowptr[chosen]).astype(np.int64)
    cost = np.concatenate([[0], np.cumsum(degree + ROW_COST)])
    blocks = blocks_of(cost, np.array([0, len(chosen)]))
    mantissa, exponent = np.empty((2, *x.shape), x.dtype)
    extend = extended.extend_softmax if form.kind == "softmax" else extended.extend_power
    extend(plan.node_blocks, x, table, mantissa, exponent)
    peak, inverse, ratio, extra = np.empty((4, len(chosen), x.shape[1]), x.dtype)
    # Lp has no mean, so nothing to measure it from.
    anchor = peak if form.kind == "lp" else np.empty_like(peak)
    shared = (
        blocks, chosen, graph_of, plan.rowptr, plan.col, weights.edge, x, mantissa, exponent,
        table, weights.total,
    )  # fmt: skip
    if form.kind == "lp":
        exact_norm_forward(*shared, form.shift == "consistent", peak, inverse, ratio, extra, out)
    else:
        exact_mean_forward(
            *shared, form.kind == "softmax", weights.delicate, form.unit_denominator,
            form.times_weight,
            peak, anchor, inverse, ratio, extra, out,
        )  # fmt: skip
    return Exact(chosen, graph_of, blocks, mantissa, exponent, peak, anchor, inverse, ratio, extra)


def kind_code(form: Form) -> int:
    r"""The kernels' number for the form."""
    if form.unit_denominator:
        return exact.PRINTED_SOFTMAX
    codes = {
        "softmax": exact.SOFTMAX,
        "polynomial": exact.POLYNOMIAL,
        "lp": exact.LP,
    }
    return codes[form.kind]


def _limit(state: State) -> np.floating:
    limit: np.floating = state.x.dtype.type(state.limits.largest)
    return limit
