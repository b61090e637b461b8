"""Every function, form, dtype and backend on random inputs of every size, forward and backward.

Truth is the reference backend in float64. Where a backend disagrees with it, formulas written out
in numpy tell what cancels, and mpmath judges the worst entries. Errors are measured as the design
says: outputs by the larger of the output and the features' range (times what the weights multiply
it with), gradients by their norm, per graph.

A case is one graph with its input, function, options, dtype and backend, forward and backward.
Graphs of a batch are independent of each other, and are counted and compared one by one.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import torch

from meanmax import Graph, functional, use_backend
from meanmax.nn import readout

from .campaign import Failure
from .numerics_inputs import TYPES, Array, Call, Problem, draw_call, draw_problem
from .numerics_truth import Formula

CALLS = 4  # functions for each draw of a graph and features
WAYS = {  # dtypes that hold the features of a problem exactly, with the dtype of the parameters
    "float64": ("float64",),
    "float32": ("float32", "float64"),
    "half": ("half", "float32"),
    "bfloat16": ("bfloat16", "float32"),
}
OUTPUT = {"float64": 1e-9, "float32": 1e-4, "half": 2e-3, "bfloat16": 1e-2}
GRADIENT = {"float64": 1e-6, "float32": 1e-3, "half": 4e-3, "bfloat16": 2e-2}
CANCELLED = {"float64": 3e-14, "float32": 1e-6, "half": 1e-6, "bfloat16": 1e-6}
STEEPEST = 1e6  # the largest power whose gradients are compared; all have to be finite
JUDGED = 3  # entries of a gradient that mpmath looks at


def case(rng: np.random.Generator, counts: Counter[str]) -> Failure | None:
    """Draws a graph with features and weights, and compares some functions on it."""
    problem = draw_problem(rng)
    graph = graph_of(problem)
    failure = None
    for _ in range(CALLS):
        call = draw_call(rng, problem)
        want = evaluate(problem, graph, call, "float64", "reference")
        for dtype in WAYS[problem.dtype]:
            for backend in ("numba", "torch"):
                # The torch backend is slow on small graphs.
                if backend == "torch" and rng.random() < 0.6:
                    continue
                counts[f"{call.function} {dtype} {backend}"] += problem.num_graphs
                found = check(problem, graph, call, dtype, backend, want)
                if found is not None and failure is None:
                    failure = found
    return failure


def graph_of(problem: Problem) -> Graph:
    weight = None
    if problem.weight is not None and not problem.learned:
        narrow = "float64" if problem.dtype == "float64" else "float32"
        weight = torch.from_numpy(problem.weight).to(TYPES[narrow])
    batch = torch.from_numpy(problem.src_batch), torch.from_numpy(problem.dst_batch)
    return Graph.from_edge_index(
        torch.from_numpy(problem.edges), problem.sizes, weight,
        batch=batch if problem.num_graphs > 1 else None,
    )  # fmt: skip


def evaluate(
    problem: Problem, graph: Graph, call: Call, dtype: str, backend: str
) -> dict[str, Array]:
    """The output and the gradients, as float64."""
    narrow = "float64" if dtype == "float64" else "float32"

    def leaf(values: Array, name: str = narrow) -> torch.Tensor:
        return torch.from_numpy(np.asarray(values, np.float64)).to(TYPES[name]).requires_grad_()

    leaves = {"x": leaf(problem.x, dtype)}
    weight = None
    if problem.learned:
        weight = leaves["edge_weight"] = leaf(problem.weight)
    if call.function == "readout":
        out = _readout(problem, leaves, call.options["aggr"], weight, backend)
    elif call.theta is None:
        function = getattr(functional, call.function)
        out = function(leaves["x"], graph, edge_weight=weight, backend=backend)
    else:
        leaves["theta"] = leaf(call.theta)
        arguments: dict[str, Any] = dict(call.options)
        for name in ("beta", "mu"):
            if getattr(call, name) is not None:
                arguments[name] = leaves[name] = leaf(getattr(call, name))
        function = getattr(functional, call.function)
        out = function(
            leaves["x"], graph, leaves["theta"], edge_weight=weight, backend=backend, **arguments
        )
    above = torch.from_numpy(_upstream(problem, out.shape)).to(out.dtype)
    grads = torch.autograd.grad(out, list(leaves.values()), above, allow_unused=True)
    found = {"out": out.detach().double().numpy()}
    for name, value in zip(leaves, grads, strict=True):
        if value is not None:
            found[name] = value.double().numpy()
    return found


def _readout(problem: Problem, leaves: Any, aggr: str, weight: Any, backend: str) -> torch.Tensor:
    x = leaves["x"].flatten(1)
    if weight is not None:
        weight = weight.flatten()
        if not len(weight):
            weight = None
        else:
            weight = weight.repeat(-(-len(x) // len(weight)))[: len(x)]
    with use_backend(backend):
        return readout(
            x, torch.from_numpy(problem.src_batch), problem.num_graphs, aggr=aggr, weight=weight
        )


def _upstream(problem: Problem, shape: tuple[int, ...]) -> Array:
    if tuple(shape) == problem.upstream.shape:
        return problem.upstream
    return np.resize(problem.upstream, shape)


def check(
    problem: Problem, graph: Graph, call: Call, dtype: str, backend: str, want: dict[str, Array]
) -> Failure | None:
    """Compares a backend in a dtype with the reference."""
    kind = f"{call} {dtype} {backend}"
    try:
        got = evaluate(problem, graph, call, dtype, backend)
    except Exception as error:
        return Failure(f"{kind}: {type(error).__name__}", str(error), script(problem, call))
    for name in want:
        wrong = _compare(problem, call, dtype, name, got.get(name), want[name])
        if wrong:
            return Failure(f"{kind}: {name}", wrong, script(problem, call))
    return None


def _compare(
    problem: Problem, call: Call, dtype: str, name: str, got: Array | None, want: Array
) -> str | None:
    if got is None or got.shape != want.shape:
        return f"shape {None if got is None else got.shape}, not {want.shape}"
    limits = torch.finfo(TYPES[_dtype_of(name, dtype)])
    if name == "x" and dtype == "half":
        # Gradients in float16 are infinite beyond the range, for torch.amp.GradScaler.
        got = np.clip(got, -limits.max, limits.max)
    if not np.isfinite(got).all():
        return f"not finite: {got.tolist()} instead of {want.tolist()}"
    fits = np.isfinite(want) & (np.abs(want) < 0.01 * limits.max)
    if name == "edge_weight" and call.function != "readout" and (problem.weight == 0).any():
        # Where the reference bounds the tilt of what has no weight, the truth is larger still.
        fits &= ~Formula(problem, call).is_bounded.reshape(want.shape)
    error = np.abs(got - np.where(np.isfinite(want), want, 0.0))
    tiny = 4 * limits.tiny
    if name == "out":
        allowed = OUTPUT[dtype] * np.abs(want) + tiny
        if not ((error > allowed) & fits).any():
            return None
        formula = Formula(problem, call)
        unit = formula.output_unit.reshape(want.shape)
        exact = formula.aggr in ("max", "min")
        allowed = OUTPUT[dtype] * np.maximum(np.abs(want), 0.0 if exact else unit) + tiny
        bad = (error > allowed) & fits
        return _judge_output(formula, bad, got, want, allowed) if bad.any() else None
    if not got.size or _is_steep(call):
        return None
    owner = _owner(problem, call, name, want)
    size, wrong = _norm(want, owner), _norm(np.where(fits, error, 0.0), owner)
    # A norm in which some entries do not fit measures nothing.
    whole = np.ones(int(owner.max(initial=0)) + 1, bool)
    np.logical_and.at(whole, owner, fits.reshape(len(owner), -1).all(axis=1))
    tol = GRADIENT[dtype]
    allowed = tol * size + tiny
    if ((wrong <= allowed) | ~whole).all():
        return None
    formula = Formula(problem, call, wide=dtype == "float64")
    least = formula.cancelled(_upstream_of(problem, formula)).get(name)
    if name == "edge_weight" and call.function == "readout":  # weights are repeated
        least = np.bincount(np.arange(len(least)) % want.size, least.sum(axis=1), want.size)
    if name == "mu":
        allowed = allowed + tol * least
    elif least is not None and least.size:
        if name in ("theta", "beta"):
            least = CANCELLED[dtype] * _norm(least.reshape(-1, 1), np.zeros(least.size, np.int64))
        else:
            least = CANCELLED[dtype] * _norm(least.reshape(want.shape), owner)
        allowed = allowed + np.resize(least, allowed.shape)
    bad = (wrong > allowed) & whole
    if not bad.any():
        return None
    limit = allowed[owner].reshape(-1, *[1] * (want.ndim - 1)) if want.ndim else allowed[0]
    suspects = np.where(
        bad[owner].reshape(-1, *[1] * (want.ndim - 1)) if want.ndim else bad[0], error, 0.0
    )
    return _judge(formula, name, suspects, got, want, limit, _upstream_of(problem, formula))


def _is_steep(call: Call) -> bool:
    """Whether rounding of a power's logarithm leaves the gradients no digits."""
    return call.function in ("lp", "polynomial") and float(np.max(np.abs(call.theta))) > STEEPEST


def _dtype_of(name: str, dtype: str) -> str:
    if name in ("out", "x"):
        return dtype
    return "float64" if dtype == "float64" else "float32"


def _owner(problem: Problem, call: Call, name: str, values: Array) -> Array:
    """The graph of each row of a gradient."""
    if name == "x":
        return problem.src_batch
    if name == "edge_weight" and call.function != "readout":
        return problem.src_batch[problem.edges[0]]
    if name == "mu":
        return np.arange(len(values))
    return np.zeros(max(values.shape[0] if values.ndim else 1, 1), np.int64)


def _norm(values: Array, owner: Array) -> Array:
    """The Euclidean norm of the rows of each owner."""
    rows = np.abs(values).reshape(len(owner), int(values.size / max(len(owner), 1)))
    count = int(owner.max(initial=0)) + 1
    top = np.zeros(count)
    np.maximum.at(top, owner, rows.max(axis=1, initial=0.0))
    safe = np.where(top > 0, top, 1.0)
    total = np.zeros(count)
    np.add.at(total, owner, ((rows / safe[owner][:, None]) ** 2).sum(axis=1))
    with np.errstate(over="ignore"):
        return top * np.sqrt(total)


def _upstream_of(problem: Problem, formula: Formula) -> Array:
    return _upstream(problem, (formula.num_rows, formula.channels))


def _judge_output(
    formula: Formula, bad: Array, got: Array, want: Array, allowed: Array
) -> str | None:
    flat = bad.reshape(formula.num_rows, -1)
    for v, c in np.argwhere(flat)[:JUDGED]:
        truth = float(formula.output(int(v), int(c)).real)
        place = np.unravel_index(v * flat.shape[1] + c, want.shape)
        if not abs(got[place] - truth) <= allowed[place]:
            return f"{got[place]!r} at {place}, reference {want[place]!r}, mpmath {truth!r}"
    return None


def _judge(
    formula: Formula, name: str, error: Array, got: Array, want: Array, allowed: Any, above: Array
) -> str | None:
    order = np.argsort(error, axis=None)[::-1][:JUDGED]
    for flat in order:
        place = np.unravel_index(flat, error.shape)
        if not error[place] > 0:
            break
        truth = formula.derivative(name, tuple(int(i) for i in place), above)
        right = want[place] if truth is None else truth
        limit = np.broadcast_to(allowed, error.shape)[place]
        if not abs(got[place] - right) <= limit:
            said = "has no word" if truth is None else repr(truth)
            return (
                f"{got[place]!r} at {tuple(map(int, place))}, reference {want[place]!r}, mpmath "
                f"{said}; allowed {limit:.3g}"
            )
    return None


def script(problem: Problem, call: Call) -> str:
    """Python source that prints what the backends give."""
    lines = [
        "import numpy as np",
        "",
        "from tests.fuzz.numerics import report",
        "from tests.fuzz.numerics_inputs import Call, Problem",
        "",
    ]
    fields = ", ".join(f"{name}={_literal(value)}" for name, value in vars(problem).items())
    lines.append(f"problem = Problem({fields})")
    fields = ", ".join(f"{name}={_literal(value)}" for name, value in vars(call).items())
    lines.append(f"call = Call({fields})")
    lines.append("report(problem, call)")
    return "\n".join(lines) + "\n"


def _literal(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"np.array({value.tolist()!r}, np.{value.dtype}).reshape({value.shape})"
    return repr(value)


def report(problem: Problem, call: Call) -> None:
    """Prints the results of all backends and what is wrong with them; exits with 1 if any is."""
    graph, failed = graph_of(problem), False
    want = evaluate(problem, graph, call, "float64", "reference")
    for dtype in WAYS[problem.dtype]:
        for backend in ("numba", "torch"):
            wrong = check(problem, graph, call, dtype, backend, want)
            failed |= wrong is not None
            got = evaluate(problem, graph, call, dtype, backend)
            for name in want:
                print(f"{name} {dtype} {backend}: {got[name].tolist()}")
            print(f"  {wrong.kind}: {wrong.message}" if wrong else "  right")
    for name in want:
        print(f"{name} reference: {want[name].tolist()}")
    raise SystemExit(int(failed))
