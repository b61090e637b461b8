"""Random graphs, features, weights and parameters of every size for the fuzzer of the numerics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

Array = np.ndarray
LOWEST = {"lp": 1.0, "polynomial": 0.0, "softmax": 0.0}
MAGNITUDES = (0.0, 1e-40, 1e-20, 1e-3, 0.5, 1.0, 2.0, 1e4, 1e10, 1e30)
TYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
}


@dataclass(frozen=True)
class Problem:
    """A graph or a batch with features, weights and the gradient of the output, in float64.

    ``dtype`` is the narrowest type that holds the features exactly.
    """

    edges: Array  # [2, num_edges]
    sizes: tuple[int, int]
    src_batch: Array
    dst_batch: Array
    x: Array  # [num_src, channels] or [num_src, heads, channels]
    weight: Array | None  # [num_edges] or [num_edges, heads]
    learned: bool  # whether the weights are an argument with a gradient, not the graph's own
    upstream: Array
    dtype: str

    @property
    def num_graphs(self) -> int:
        return int(self.src_batch[-1]) + 1


@dataclass(frozen=True)
class Call:
    """A function with its parameter and options."""

    function: str
    theta: Array | None = None
    options: dict[str, Any] = field(default_factory=dict)  # of plain values
    beta: Array | None = None
    mu: Array | None = None  # per graph

    def __str__(self) -> str:
        return "-".join([self.function, *(str(value) for value in self.options.values())])


def rounded(values: Array, dtype: str) -> Array:
    """The nearest numbers of a type, none beyond its range."""
    limit = torch.finfo(TYPES[dtype]).max
    found = torch.as_tensor(np.clip(values, -limit, limit)).to(TYPES[dtype])
    return found.double().clamp(-limit, limit).numpy()


def magnitude(rng: np.random.Generator, low: float, high: float) -> float:
    return float(10.0 ** rng.uniform(low, high))


def draw_problem(rng: np.random.Generator) -> Problem:
    dtype = str(rng.choice(["float32", "float64", "half", "bfloat16"], p=[0.66, 0.14, 0.1, 0.1]))
    graphs = int(rng.choice([1, rng.integers(2, 13), rng.integers(13, 65)], p=[0.3, 0.35, 0.35]))
    channels = int(rng.integers(1, 6))
    heads = int(rng.integers(1, 4)) if rng.random() < 0.25 else 0
    shape = (heads, channels) if heads else (channels,)
    kind, mixed = rng.random(), rng.random() < 0.5
    of_weight, owned = rng.random(), rng.random() < 0.3
    pieces, xs, weights = [], [], []
    square = rng.random() < 0.7
    weight_heads = heads if heads and rng.random() < 0.6 else 0
    num_src = num_dst = 0
    src_batch, dst_batch = [], []
    for number in range(graphs):
        n = int(rng.integers(1, 31 if graphs == 1 else 11))
        m = n if square else int(rng.integers(1, 9))
        edges = draw_edges(rng, n, m)
        pieces.append(edges + [[num_src], [num_dst]])
        pick = rng.random() if mixed else kind
        xs.append(draw_features(rng, n, heads * channels if heads else channels, pick, dtype))
        pick = rng.random() if mixed else of_weight
        weights.append(draw_weights(rng, edges, m, weight_heads or 1, pick))
        src_batch += [number] * n
        dst_batch += [number] * m
        num_src, num_dst = num_src + n, num_dst + m
    x = rounded(np.concatenate(xs), dtype)
    if float(x.max()) - float(x.min()) > 3.4e38 and dtype != "float64":
        x = rounded(x / 4, dtype)  # the spread has to fit as well
    weight = np.concatenate(weights)
    if not weight_heads:
        weight = weight[:, 0]
    weighted = of_weight >= 0.25 or mixed
    upstream = rng.standard_normal((num_dst, *shape))
    pick = rng.random()
    if pick < 0.2:
        upstream = np.ones_like(upstream)
    elif pick < 0.3:
        upstream *= magnitude(rng, -10, 10)
    return Problem(
        np.concatenate(pieces, axis=1),
        (num_src, num_dst),
        np.array(src_batch),
        np.array(dst_batch),
        x.reshape(num_src, *shape),
        rounded(weight, "float64" if dtype == "float64" else "float32") if weighted else None,
        weighted and not owned,
        rounded(upstream, dtype if dtype in ("half", "bfloat16") else "float32"),
        dtype,
    )


def draw_edges(rng: np.random.Generator, n: int, m: int) -> Array:
    """Multi-edges, empty rows and single neighbours come by themselves; hubs on demand."""
    pick = rng.random()
    if pick < 0.05:
        return np.zeros((2, 0), np.int64)
    if pick < 0.15:  # one edge for each target
        return np.stack([rng.integers(n, size=m), np.arange(m)])
    count = int(rng.integers(1, 4 * max(n, m) + 1))
    edges = np.stack([rng.integers(n, size=count), rng.integers(m, size=count)])
    if pick < 0.4:
        hub = np.full(n, rng.integers(m))
        edges = np.concatenate([edges, np.stack([np.arange(n), hub])], axis=1)
    if pick > 0.8:
        edges = edges[:, np.argsort(edges[1], kind="stable")]
    return edges


def draw_features(rng: np.random.Generator, n: int, width: int, pick: float, dtype: str) -> Array:
    half, wide = dtype in ("half", "bfloat16"), dtype == "float64"
    most = 4 if dtype == "half" else (150 if wide and rng.random() < 0.3 else 37)
    x = rng.standard_normal((n, width))
    kind = int(pick * 12)
    if kind == 1:
        x = np.maximum(x, 0)
    elif kind == 2:  # ties
        x = rng.integers(-2, 4, (n, width)) * magnitude(rng, -4, min(most, 6))
    elif kind == 3:
        x[...] = rng.choice([0.0, 1.0, -3.5, magnitude(rng, -30, most)])
    elif kind == 4:  # an offset
        x += rng.choice([-1.0, 1.0]) * magnitude(rng, 0, 2 if half else 6)
    elif kind in (5, 6):  # outliers
        if rng.random() < 0.3:
            x = np.abs(x)
        for _ in range(int(rng.integers(1, 3))):
            where = (int(rng.integers(n)), slice(None) if rng.random() < 0.5 else -1)
            x[where] = rng.choice([-1.0, 1.0]) * magnitude(rng, 2, min(most, rng.choice([8, 36])))
    elif kind == 7:  # all orders of magnitude
        low, high = (-4, 4) if rng.random() < 0.5 else (-44, most)
        x = np.sign(x) * 10.0 ** rng.uniform(low, high, (n, width))
    elif kind == 8:
        x *= magnitude(rng, min(3, most), most)
    elif kind == 9:
        x *= magnitude(rng, -44, -3)
    elif kind == 10:  # a few numbers
        some = rng.choice(MAGNITUDES, size=int(rng.integers(1, 5))) * rng.choice([-1.0, 1.0])
        x = rng.choice(some, (n, width))
    elif kind == 11:  # neighbours that differ in the last digits
        size = magnitude(rng, -3, 3)
        x = size * (1 + rng.integers(-3, 4, (n, width)) * (2.0**-50 if wide else 2.0**-22))
    if rng.random() < 0.15:
        x *= 10.0 ** rng.uniform(-6, 2, width)
    if rng.random() < 0.1:
        x = -np.abs(x)
    return x


def draw_weights(rng: np.random.Generator, edges: Array, m: int, heads: int, pick: float) -> Array:
    shape = (edges.shape[1], heads)
    a = rng.uniform(0.05, 1.5, shape)
    kind = int(pick * 12)
    if kind in (0, 1, 2, 3):
        a = np.ones(shape) if kind < 3 else a
    elif kind == 4:
        a[rng.random(shape) < 0.4] = 0.0
    elif kind == 5:
        a *= magnitude(rng, -44, -3)
    elif kind == 6:
        a *= magnitude(rng, 3, 37)
    elif kind == 7:
        a = 10.0 ** rng.uniform(-12, 12, shape)
    elif kind == 8:
        a = 10.0 ** rng.uniform(*sorted(rng.uniform(-44, 37, 2)), shape)
    elif kind == 9:
        a = rng.choice([0.0, 1e-38, 1e-12, 0.5, 1.0, 1e12], shape)
    elif kind == 10:  # normalised
        total = np.zeros((m, heads))
        np.add.at(total, edges[1], a)
        a /= total[edges[1]]
    if rng.random() < 0.1:
        a[edges[1] == rng.integers(m)] = 0.0
    return a


def draw_call(rng: np.random.Generator, problem: Problem) -> Call:
    pick = rng.random()
    if pick < 0.12:
        return Call(str(rng.choice(["sum", "mean", "max"])))
    if pick < 0.16:
        return Call("readout", options={"aggr": str(rng.choice(["mean", "sum", "max", "min"]))})
    function = str(rng.choice(["lp", "polynomial", "softmax"]))
    options: dict[str, Any] = {}
    signed, scaled = rng.random() < 0.2, rng.random() < 0.2
    if function == "lp":
        options["shift"] = str(rng.choice(["consistent", "paper"]))
        options["sign"] = str(rng.choice(["shift", "abs"]))
    else:
        options["form"] = str(rng.choice(["weighted", "sum", "paper"]))
        if function == "polynomial":
            options["sign"] = str(rng.choice(["shift", "abs"]))
    beta = None
    if signed or scaled:
        options["form" if function != "lp" else "shift"] = (
            "weighted" if function != "lp" else "consistent"
        )
        if signed and function != "softmax":
            options["sign"] = "shift"
        if scaled:
            beta = np.array(rng.choice([0.0, 0.25, 0.5, 1.0, -0.5]))
        options["signed"] = signed
    theta = draw_theta(rng, function, problem)
    if signed:
        theta = (theta - LOWEST[function]) * rng.choice([-1.0, 1.0], size=theta.shape)
    mu = None
    if function != "softmax" and options["sign"] == "shift" and not signed and rng.random() < 0.15:
        low = lowest_features(problem, problem.x)
        mu = low - rng.choice([0.0, 0.5, 3.0]) * np.abs(low)
        mu = rounded(mu, "float64" if problem.dtype == "float64" else "float32")
        mu = np.minimum(mu, low)
    narrow = "float64" if problem.dtype == "float64" else "float32"
    return Call(function, rounded(theta, narrow), options, beta, mu)


def draw_theta(rng: np.random.Generator, function: str, problem: Problem) -> Array:
    shape = ()
    if rng.random() < 0.5:
        shape = problem.x.shape[1:]
        if len(shape) == 2 and rng.random() < 0.5:
            shape = (shape[0], 1)
    size = float(np.median(np.abs(problem.x))) or 1.0

    def one() -> float:
        pick = rng.random()
        if function == "softmax":
            if pick < 0.45:
                return magnitude(rng, -3, 3.5) / max(size, 1e-30)
            if pick < 0.75:
                return float(rng.choice([0.0, 1e-3, 0.5, 1.0, 2.0, 5.0, 22.0, 1000.0]))
            return magnitude(rng, -5, 36)
        if pick < 0.8:
            some = [0.0, 0.0, 1e-3, 0.5, 1.0, 1.0, 2.0, 3.0, 7.0, 30.0, 100.0, 1000.0]
            return LOWEST[function] + float(rng.choice(some))
        if pick < 0.95:
            return LOWEST[function] + magnitude(rng, -6, 4)
        return magnitude(rng, 4, 30)

    values = [one() for _ in range(int(np.prod(shape, dtype=int)))]
    if len(values) > 1 and rng.random() < 0.3:  # of one size
        values = [values[0]] * len(values)
    return np.array(values).reshape(shape)


def lowest_features(problem: Problem, x: Array) -> Array:
    """The smallest feature of each graph."""
    rows = x.reshape(len(x), -1).min(axis=1)
    low = np.full(problem.num_graphs, np.inf)
    np.minimum.at(low, problem.src_batch, rows)
    return low
