"""What a call computes, written out in numpy and mpmath: natural units of errors, and a judge.

Nothing is shared with the library. A signed parameter is resolved into a side, a factor of the
features and of the result, and readouts are rows whose neighbours are the nodes of a graph.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from mpmath import mp, mpf

from .numerics_inputs import LOWEST, Array, Call, Problem, lowest_features

DIGITS = 160
LARGEST_EXPONENT = 300  # of the reference
RELATIVE_STEP = mpf(10) ** -50
STEEP = 16  # the exponent from where softmax measures features from the top of their channel
# Rows whose largest term is smaller are measured from it: logarithms of 1e-13 in float32, and of
# 1e-100 in float64.
LOWEST_TERM = {False: 30.0, True: 230.3}


class Terms(NamedTuple):
    """Of each edge and channel, in its row's tilted sum."""

    part: Array  # its share
    rise: Array  # the derivative of the logarithm by its weight
    slope: Array  # the same by its feature, over its weight
    size: Array  # the magnitudes of what its distance from a mean is computed from


class Formula:
    """A call on a problem, per edge and channel; channels are heads times channels. Wide is one in
    float64.
    """

    def __init__(self, problem: Problem, call: Call, *, wide: bool = False) -> None:
        self.problem, self.call, self.wide = problem, call, wide
        x = problem.x.reshape(len(problem.x), -1)
        self.channels = x.shape[1]
        self.kind = call.function
        self.has_mu = self.kind in ("lp", "polynomial")
        options = call.options
        self.form = options.get("form", "weighted")
        edges, weight = problem.edges, problem.weight
        aggr = options.get("aggr", self.kind)
        if self.kind == "readout":
            weight = None if weight is None else np.resize(weight, len(x))
            edges = np.stack([np.arange(len(x)), problem.src_batch])
        self.col, self.row = edges
        self.num_rows = problem.num_graphs if self.kind == "readout" else problem.sizes[1]
        self.aggr = aggr if aggr in ("sum", "mean", "max", "min") else None
        heads = problem.x.shape[1] if problem.x.ndim == 3 and weight is not None else 1
        if weight is None:
            weight = np.ones(len(self.col))
        weight = weight.reshape(len(self.col), -1)
        self.heads = weight.shape[1]
        assert self.heads in (1, heads)
        self.a = np.repeat(weight, self.channels // self.heads, axis=1)
        self.side = np.ones(self.channels)
        self.theta = np.zeros(self.channels)
        if call.theta is not None:
            theta = np.broadcast_to(call.theta, problem.x.shape[1:]).reshape(-1)
            if options.get("signed"):
                self.side = np.where(theta < 0, -1.0, 1.0)
                theta = LOWEST[self.kind] + np.abs(theta)
            self.theta = theta
        if self.aggr == "min":
            self.side = -self.side
        self.z = x * self.side
        if options.get("sign") == "abs":
            self.z = np.abs(self.z)
        graph_of_row = np.arange(self.num_rows) if self.kind == "readout" else problem.dst_batch
        self.mu = np.zeros((self.num_rows, self.channels))  # per row, 0 where there is none
        if self.has_mu and options.get("sign") != "abs":
            low = call.mu
            if low is None:
                ends = [lowest_features(problem, side * problem.x) for side in (1.0, -1.0)]
                low = np.where(self.side > 0, ends[0][:, None], ends[1][:, None])
            shape = problem.num_graphs, self.channels
            low = np.broadcast_to(low.reshape(problem.num_graphs, -1), shape)
            self.mu = low[graph_of_row]
        self.origin_size = np.abs(self.mu)
        if self.has_mu and options.get("signed"):  # at 0 features are measured from both ends
            farthest = np.zeros(problem.num_graphs)
            np.maximum.at(farthest, problem.src_batch, np.abs(x).max(axis=1))
            both = (self.theta == LOWEST[self.kind]) * farthest[graph_of_row][:, None]
            self.origin_size = np.maximum(self.origin_size, both)

    @cached_property
    def total(self) -> Array:
        return self._row_sum(self.a)

    def _row_sum(self, values: Array) -> Array:
        total = np.zeros((self.num_rows, self.channels))
        np.add.at(total, self.row, values)
        return total

    @cached_property
    def factor(self) -> Array:
        """What the weights alone multiply a mean of features with."""
        a = np.where(self.total > 0, self.total, 1.0)
        if self.call.beta is not None:
            return a ** float(self.call.beta)
        if self.kind == "lp":
            return a ** (1 / self.theta)
        if self.aggr == "sum" or self.form == "sum":
            return a
        if self.kind == "softmax" and self.form == "paper":
            top = np.zeros_like(a)
            np.maximum.at(top, self.row, self.a)
            return top
        return np.ones_like(a)

    @cached_property
    def output_unit(self) -> Array:
        """The size of features from their origin, times the factor of the weights."""
        low = np.full((self.problem.num_graphs, self.channels), np.inf)
        top = -low
        np.minimum.at(low, self.problem.src_batch, self.z)
        np.maximum.at(top, self.problem.src_batch, self.z)
        of_row = np.arange(self.num_rows) if self.kind == "readout" else self.problem.dst_batch
        spread = (top - low)[of_row]
        if self.has_mu:
            spread = top[of_row] - self.mu
        if self.has_mu and self.call.options.get("signed"):  # both ends of all channels
            spread = np.broadcast_to(
                (top.max(axis=1) - low.min(axis=1))[of_row, None], spread.shape
            )
        return self.factor * spread

    @cached_property
    def share(self) -> Terms:
        """What each edge adds to the tilted sum of its row."""
        z, a = self.z[self.col], self.a
        y = z - self.mu[self.row]
        with np.errstate(all="ignore"):
            tilt = self.theta * (np.log(y) if self.has_mu else z)
            tilt = np.where(self.theta == 0, 0.0, tilt)
            lift = tilt + (0.0 if self.form == "paper" and not self.has_mu else np.log(a))
            top = np.full((self.num_rows, self.channels), -np.inf)
            np.maximum.at(top, self.row, lift)
            top = np.where(np.isfinite(top), top, 0.0)[self.row]
            part = np.exp(lift - top)
            below = self._row_sum(np.nan_to_num(part))
            below = np.where(below > 0, below, 1.0)[self.row]
            rise = np.exp(np.minimum(tilt - top, 600.0)) / below
            slope = (
                rise * self.theta / np.where(y > 0, y, 1.0) if self.has_mu else rise * self.theta
            )
            if self.has_mu:
                slope = np.where(self.theta == 1, np.exp(np.minimum(-top, 600.0)) / below, slope)
        return Terms(
            np.nan_to_num(part / below),
            np.nan_to_num(rise),
            np.nan_to_num(slope),
            np.abs(z) + self.origin_size[self.row] + self.typical[self.problem.src_batch[self.col]],
        )

    @cached_property
    def typical(self) -> Array:
        """What the features of each graph's channels are measured from: their median magnitude, or,
        where softmax is steep, how far below the top a row's largest term may lie.
        """
        batch = self.problem.src_batch
        graphs = [self.z[batch == g] for g in range(batch[-1] + 1)]
        found = np.stack([np.median(np.abs(z), axis=0) for z in graphs])
        if self.has_mu:
            return found
        top, low = (np.stack([end(z, axis=0) for z in graphs]) for end in (np.max, np.min))
        steep = self.theta * np.abs(top) > STEEP
        reach = LOWEST_TERM[self.wide] / np.where(steep, self.theta, 1.0)
        return np.where(steep, np.maximum(found, np.minimum(top - low, reach)), found)

    @cached_property
    def average(self) -> Array:
        """The average magnitude of the rows' means in each graph."""
        present = (self.total > 0).astype(float)
        sums, counts = np.zeros((2, self.problem.num_graphs, self.channels))
        mean = self._row_sum(self.share.part * np.abs(self.z[self.col]))
        np.add.at(sums, self.problem.dst_batch, mean * present)
        np.add.at(counts, self.problem.dst_batch, present)
        return sums / np.maximum(counts, 1)

    @cached_property
    def is_bounded(self) -> Array:
        """The edges whose tilt over that of their row is more than the reference's bound."""
        with np.errstate(all="ignore"):
            y = self.z[self.col] - self.mu[self.row]
            tilt = np.where(self.theta == 0, 0.0, self.theta * (np.log(y) if self.has_mu else y))
            present = (self.a > 0) | (self.form == "paper" and not self.has_mu)
            top = np.full((self.num_rows, self.channels), -np.inf)
            np.maximum.at(top, self.row, np.where(present, tilt, -np.inf))
            above = np.nan_to_num(tilt - top[self.row], nan=0.0, posinf=np.inf, neginf=-np.inf)
        above = above.reshape(len(self.col), self.heads, -1)
        return (above > 0.99 * LARGEST_EXPONENT).any(axis=2)

    def cancelled(self, upstream: Array) -> dict[str, Array]:
        """The size of what is subtracted in the gradients of weights and parameter."""
        with np.errstate(all="ignore"):
            found = self._cancelled(upstream)
        return {name: np.nan_to_num(value) for name, value in found.items()}

    def _cancelled(self, upstream: Array) -> dict[str, Array]:
        part, rise, slope, size = self.share
        mean = self._row_sum(part * size)
        g = np.abs(upstream.reshape(self.num_rows, -1)) * self.factor
        both = size + mean[self.row]
        total = np.where(self.total > 0, self.total, 1.0)
        edge = g[self.row] * rise * both
        if self.kind == "lp":
            edge = edge + (g * self.origin_size / total)[self.row]
        edge = edge.reshape(len(self.col), self.heads, -1).sum(axis=2)
        if not self.has_mu:
            # The backward pass measures means from their average over the graph.
            moved = part * both**2
            if self.kind == "softmax":
                moved = moved + part * self.average[self.problem.dst_batch[self.row]] ** 2
        else:
            y = self.z[self.col] - self.mu[self.row]
            logs = np.abs(np.log(np.where(y > 0, y, 1.0)))
            moved = part * both * (1 + logs)
        theta = (g[self.row] * moved).sum(axis=0)
        # The sum of a row's weights is rounded before its logarithm is taken.
        beta = (g * (mean + np.abs(self.mu)) * (1 + np.abs(np.log(total)))).sum(axis=0)
        found = {"edge_weight": edge, "theta": theta, "beta": beta}
        if self.kind == "lp":
            found["theta"] = theta + beta
        # A feature's gradient is a sum over rows, in which features at the origin lose what they
        # move it by; what the printed softmax's denominator takes, its numerator gives.
        of_node = np.zeros((len(self.z), self.channels))
        weight = 1.0 if self.form == "paper" and not self.has_mu else self.a
        np.add.at(of_node, self.col, g[self.row] * (part + weight * slope * both))
        found["x"] = of_node
        if self.call.mu is not None:  # what the outputs move by, less what the features move by
            found["mu"] = np.zeros(self.problem.num_graphs)
            np.add.at(found["mu"], self.problem.dst_batch, g.sum(axis=1))
        return found

    # ------------------------------------------------------------------ the judge

    def output(self, v: int, c: int, given: dict[Any, mpf] | None = None) -> mpf:
        """The output of a row and channel with a hundred digits and more; ``given`` replaces
        features ``("z", node)``, weights ``("a", edge)``, ``"theta"``, ``"beta"`` or ``"mu"``.
        """
        given = given or {}
        near = [
            (
                given.get(("a", e), mpf(float(self.a[e, c]))),
                given.get(("z", self.col[e]), mpf(float(self.z[self.col[e], c]))),
            )
            for e in np.flatnonzero(self.row == v)
        ]
        if "mu" in given and self.theta[c] not in (0.0, 1.0):
            # Features at the origin have no slope there: they stay at it.
            low = mpf(float(self.mu[v, c]))
            near = [(a, given["mu"] if z <= low else z) for a, z in near]
        total = sum((a for a, _ in near), mpf(0))
        if not any(a > 0 for a, _ in near):
            return mpf(0)
        theta = given.get("theta", mpf(float(self.theta[c])))
        mu = given.get("mu", mpf(float(self.mu[v, c])))
        beta = given.get("beta", None if self.call.beta is None else mpf(float(self.call.beta)))
        out = self._value(near, total, theta, mu, scaled=beta is not None)
        if beta is not None:
            out *= total**beta
        return mpf(float(self.side[c])) * out

    def _value(self, near: list, total: mpf, theta: mpf, mu: mpf, *, scaled: bool) -> mpf:
        if self.aggr:
            if self.aggr in ("max", "min"):
                return max(z for a, z in near if a > 0)
            summed = sum(a * z for a, z in near)
            return summed if self.aggr == "sum" else summed / total
        if self.kind == "softmax":
            top = max(z for _, z in near)
            tilts = [(a, z, mp.exp(theta * (z - top))) for a, z in near]
            above = sum(a * z * t for a, z, t in tilts)
            paper = self.form == "paper"
            mean = above / sum((1 if paper else a) * t for a, _, t in tilts)
        elif self.kind == "lp":
            norm = sum(a * (z - mu) ** theta for a, z in near)
            if scaled:
                return (norm / total) ** (1 / theta) + mu
            shift = 1 if self.call.options["shift"] == "paper" else total ** (1 / theta)
            return norm ** (1 / theta) + mu * shift
        else:
            above = sum(a * (z - mu) ** (theta + 1) for a, z in near)
            below = sum(a * (z - mu) ** theta for a, z in near)
            mean = (above / below if below > 0 else 0) + mu
        return total * mean if self.form == "sum" else mean

    def derivative(self, name: str, index: tuple[int, ...], upstream: Array) -> float | None:
        """One entry of a gradient from differences of the output; None where it has a kink that
        no convention covers, or where nothing is to be differentiated.
        """
        g = upstream.reshape(self.num_rows, -1)
        if self.aggr in ("max", "min") or self._at_kink(name, index):
            return None
        with mp.workdps(DIGITS):
            if name == "x":
                found = self._feature(index, g)
            elif name == "edge_weight" and self.kind != "readout":
                found = self._weight(index, g)
            elif name == "theta":
                found = self._theta(index, g)
            elif name == "mu":
                found = self._origin(index[0], 1.0, g)
            else:
                return None
            return None if found is None else float(found.real)

    def _at_kink(self, name: str, index: tuple[int, ...]) -> bool:
        """Whether a signed parameter is zero where it matters."""
        if not self.call.options.get("signed"):
            return False
        zero = np.broadcast_to(self.call.theta == 0, self.problem.x.shape[1:])
        if name == "x" and self.kind == "softmax":
            return bool(zero[index[1:]])
        return bool(zero.any())

    def _feature(self, index: tuple[int, ...], g: Array) -> mpf | None:
        u, c = index[0], int(np.ravel_multi_index(index[1:], self.problem.x.shape[1:]))
        x, sign = self.problem.x.reshape(len(self.z), -1), self.side[c]
        if self.call.options.get("sign") == "abs":
            if x[u, c] == 0:
                return None
            sign = np.sign(x[u, c])
        rows = np.unique(self.row[self.col == u])
        at_origin = self.has_mu and len(rows) > 0 and self.z[u, c] <= self.mu[rows[0], c]
        moves = not at_origin or self.theta[c] in (0.0, 1.0)
        total = mpf(0)
        if moves:
            pairs = [(v, c) for v in rows]
            total = self._slope(pairs, ("z", u), self.z[u, c], g, one_sided=at_origin) * sign
        if not self.has_mu or self.call.mu is not None or self.call.options.get("sign") == "abs":
            return total
        own = self.problem.src_batch == self.problem.src_batch[u]
        for side in np.unique(self.side):
            ties = side * x[own] == (side * x[own]).min()
            if side * x[u, c] == (side * x[own]).min():
                part = self._origin(self.problem.src_batch[u], side, g)
                total += side * part / int(ties.sum())
        return total

    def _origin(self, graph: int, side: float, g: Array) -> mpf:
        """The derivative by the origin of a graph, which moves down: features that lie there move
        along where their power has a slope.
        """
        rows = np.flatnonzero(self.problem.dst_batch == graph)
        pairs = [(v, c) for v in rows for c in np.flatnonzero(self.side == side)]
        if not pairs:
            return mpf(0)
        return self._slope(pairs, "mu", self.mu[pairs[0]], g, one_sided=True)

    def _weight(self, index: tuple[int, ...], g: Array) -> mpf | None:
        e, h = index[0], index[1] if len(index) > 1 else 0
        width = self.channels // self.heads
        channels = range(h * width, (h + 1) * width)
        value = self.a[e, channels[0]]
        if value == 0:
            return None
        return self._slope([(self.row[e], c) for c in channels], ("a", e), value, g)

    def _theta(self, index: tuple[int, ...], g: Array) -> mpf | None:
        theta = np.asarray(self.call.theta)
        own = np.arange(theta.size).reshape(theta.shape)
        of_channel = np.broadcast_to(own, self.problem.x.shape[1:]).reshape(-1)
        channels = np.flatnonzero(of_channel == own[index])
        sign = np.sign(theta[index]) if self.call.options.get("signed") else 1.0
        pairs = [(v, c) for v in range(self.num_rows) for c in channels]
        return sign * self._slope(pairs, "theta", self.theta[channels[0]], g)

    def _slope(
        self, pairs: list, key: Any, value: float, g: Array, *, one_sided: bool = False
    ) -> mpf:
        """The derivative of the weighted sum of outputs; one-sided: above, the origin's below."""
        value = mpf(float(value))
        step = RELATIVE_STEP * (abs(value) or mpf(1))
        if key == "mu" or (one_sided and not value):
            unit = [abs(self.z - self.mu.max()).max(), 1e-300]
            step = RELATIVE_STEP * mpf(float(max(unit)))
        ends = [value + step, value if one_sided else value - step]
        if key == "mu":
            ends = [value, value - step]
        sums = [mpf(0), mpf(0)]
        for v, c in pairs:
            if g[v, c]:
                outs = [self.output(int(v), int(c), {key: end}) for end in ends]
                for i in (0, 1):
                    sums[i] += mpf(float(g[v, c])) * outs[i]
        return (sums[0] - sums[1]) / (ends[0] - ends[1])
