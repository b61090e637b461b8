r"""The operations as :func:`torch.compile` sees them: ops of :mod:`torch.library`.

Outside of compiled code an operation is a plain function of tensors and a graph. Inside, the same
function runs as one op, :obj:`torch.ops.meanmax.*`, with all checks of its data at run time:

* A graph goes in as a :class:`TracedGraph`: the handle of a :class:`~meanmax.Graph`, and what is
  to be done with that (self-loops, normalised weights) before the op computes.
* The op records its own autograd tape and returns, beside the result, a handle of it. One op,
  :obj:`meanmax::pull_back`, runs any tape backwards.

The number of edges with self-loops is unknown while code is traced. So compiled code holds values
of edges in tensors of as many rows as there may be edges; ops ignore the rest and fill it with 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast, final

import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.graph.checks import Normalize, SelfLoops
from meanmax.graph.handles import keep, lookup

Call = TypeVar("Call", bound=Callable[..., Any])
Result = tuple[Sequence[int], torch.dtype]  # shape and dtype

_SCHEMA = {
    "Graph": "Tensor {0}, Tensor? {0}_weight, str {0}_steps, SymInt {0}_edges",
    "Edges": "Tensor {0}",  # values of edges, cut to those that there are
    "Edges?": "Tensor? {0}",
}
_LOOPS: dict[str, SelfLoops] = {"True": True, "False": False, "add": "add", "replace": "replace"}
_NORMALIZE: dict[str, Normalize | None] = {"None": None, "sym": "sym", "row": "row"}
STEPS: dict[str, Callable[..., Graph]] = {
    "own": lambda graph, weight: Graph(graph._structure, weight),
    "given": lambda graph, weight: graph.with_weight(weight),
    "prepared": lambda graph, _, normalize, loops: graph.prepared(
        _NORMALIZE[normalize], _LOOPS[loops]
    ),
}
r"""What may be done with a graph before an op computes: functions of the graph, the weights that
go with it, and options.
"""


@final
class TracedGraph(Graph):
    r"""A graph in compiled code, where only its sizes and what its weights are like is known.

    Args:
        handle (Tensor): The handle of the graph that it is made from.
        own (Tensor, optional): Weights for that graph.
        steps (str): What is done with it, separated by commas.
        sizes (tuple): The number of sources, of targets, and of edges at most.
        trailing (tuple, optional): The shape of one edge's weight; :obj:`None` without weights.
        dtype (torch.dtype): That of the weights.
        device (torch.device): That of the graph.
    """

    def __init__(
        self,
        handle: Tensor,
        own: Tensor | None,
        steps: str,
        sizes: tuple[int, int, int],
        trailing: tuple[int, ...] | None,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.handle = handle  # type: ignore[misc]
        self.own = own
        self.steps = steps
        self.num_src, self.num_dst, self.num_edges = sizes  # type: ignore[misc]
        self.trailing = trailing
        self.dtype = dtype
        self.on = device

    def then(
        self, step: str, sizes: tuple[int, int, int], trailing: tuple[int, ...] | None
    ) -> TracedGraph:
        r"""The graph after one step more."""
        steps = f"{self.steps},{step}" if self.steps else step
        return TracedGraph(self.handle, self.own, steps, sizes, trailing, self.dtype, self.on)

    def prepared(
        self, normalize: Normalize | None = None, self_loops: SelfLoops = False
    ) -> TracedGraph:
        r"""See :meth:`Graph.prepared`."""
        loops = self.num_dst if self_loops else 0
        trailing = () if normalize is not None and self.trailing is None else self.trailing
        sizes = (self.num_src, self.num_dst, self.num_edges + loops)
        return self.then(f"prepared {normalize} {self_loops}", sizes, trailing)

    def with_weight(self, edge_weight: Any) -> TracedGraph:
        r"""See :meth:`Graph.with_weight`. Before any other step: layers do this first."""
        if self.steps not in ("", "own"):
            raise ValueError("in compiled code weights belong to the graph as it was given")
        sizes = (self.num_src, self.num_dst, self.num_edges)
        if edge_weight is None:
            edge_weight, trailing = None, None
        else:
            trailing = tuple(edge_weight.shape[1:])
        dtype = _weight_dtype(edge_weight)
        return TracedGraph(self.handle, edge_weight, "given", sizes, trailing, dtype, self.on)

    def __getattr__(self, name: str) -> Any:
        r"""What only the graph itself knows, for functions that compiled code does not trace."""
        if torch.compiler.is_compiling() or name.startswith("__"):
            raise AttributeError(
                f"compiled code does not know the '{name}' of a graph: read it in a function with "
                f"the decorator torch.compiler.disable"
            )
        return getattr(resolve(self.handle, self.own, self.steps), name)

    @property  # type: ignore[misc]
    def weight(self) -> Tensor | None:
        r"""The weights in CSR order."""
        return None if self.trailing is None else _csr_weight(self)

    @property
    def edge_weight(self) -> Tensor | None:
        r"""The weights in the order of the edges."""
        return None if self.trailing is None else _edge_weight(self)

    @property
    def has_learned_weight(self) -> bool:
        r"""Whether the weights carry a gradient."""
        return self.own is not None and self.own.requires_grad

    @property
    def device(self) -> torch.device:
        r"""The device of the graph."""
        return self.on


def traced(graph: Graph) -> TracedGraph | None:
    r"""A graph for compiled code; :obj:`None` for views, which compiled code does without."""
    if isinstance(graph, TracedGraph):
        return graph
    if type(graph) is not Graph:
        return None
    weight = graph.weight
    learned = weight is not None and weight.requires_grad
    return TracedGraph(
        graph.handle,
        weight if learned else None,
        "own" if learned else "",
        (graph.num_src, graph.num_dst, graph.num_edges),
        None if weight is None else tuple(weight.shape[1:]),
        _weight_dtype(weight),
        graph.rowptr.device,
    )


def resolve(handle: Tensor, weight: Tensor | None, steps: str) -> Graph:
    r"""The graph that a :class:`TracedGraph` stands for."""
    graph: Graph = lookup(handle)
    for step in steps.split(",") if steps else ():
        name, *options = step.split(" ")
        graph = STEPS[name](graph, weight, *options)
    return graph


def builder(name: str, schema: str) -> Callable[[Callable[..., Graph]], Any]:
    r"""Registers a function that builds a graph as an op that returns its handle. The graph lives
    as long as that.
    """

    def register(function: Callable[..., Graph]) -> Any:
        @torch.library.custom_op(
            f"meanmax::{name}", mutates_args=(), schema=f"({schema}) -> Tensor"
        )
        def op(*args: Any) -> Tensor:
            return keep(function(*args))

        op.register_fake(lambda *_: torch.empty((), dtype=torch.float64))
        return getattr(torch.ops.meanmax, name).default

    return register


def active_transforms() -> list[str]:
    r"""The names of the :mod:`torch.func` transforms that run: grad, which stands for vjp and
    jacrev too, jvp, vmap.
    """
    stack = torch._C._functorch.get_interpreter_stack()
    return [] if stack is None else [level.key().name.lower() for level in stack]


class Tape(NamedTuple):
    r"""What an op leaves for its backward pass."""

    out: Tensor
    inputs: list[Tensor]  # those that need a gradient


def operation(
    arguments: str,
    result: Callable[..., Result],
    *,
    before: Callable[..., tuple[Any, ...]] | None = None,
    shared: bool = False,
) -> Callable[[Call], Call]:
    r"""Makes a function an op in compiled code.

    Args:
        arguments (str): The function's arguments, all positional, in the form of a schema of
            :mod:`torch.library`, with the types :obj:`Graph` and :obj:`Edges` besides.
        result (callable): Takes the same arguments, with each graph traced; returns shape and
            dtype of the result.
        before (callable, optional): Brings the arguments into the types of the schema.
            (default: :obj:`None`)
        shared (bool, optional): Whether the result may be kept elsewhere, so that compiled code
            must get a copy. (default: :obj:`False`)
    """
    parsed = [argument.split(" ") for argument in arguments.split(", ")]
    kinds = tuple(kind for kind, _ in parsed)
    place = kinds.index("Graph") if "Graph" in kinds else 0
    schema = ", ".join(_SCHEMA.get(kind, f"{kind} {{0}}").format(name) for kind, name in parsed)

    def register(function: Call) -> Call:
        name = function.__name__.strip("_")
        op = _define(name, schema, kinds, function, shared)
        disabled: Any = torch.compiler.disable(function)  # type: ignore[no-untyped-call]

        @wraps(function)
        def call(*args: Any) -> Any:
            if not (torch.compiler.is_compiling() or isinstance(args[place], TracedGraph)):
                try:
                    return function(*args)
                except RuntimeError as error:
                    if "vmap" not in active_transforms():
                        raise
                    raise RuntimeError(
                        "torch.func.vmap, which jacfwd uses, does not reach through meanmax's "
                        "operations, which look at the values they get: call them once for each "
                        "value, or give each channel or head a parameter of its own"
                    ) from error
            if before is not None:
                args = before(*args)
            flat, seen = [], []
            for kind, value in zip(kinds, args, strict=True):
                if kind == "Graph":
                    value = traced(value)
                    if value is None:
                        return disabled(*args)
                    flat += [value.handle, value.own, value.steps, value.num_edges]
                else:
                    flat.append(value)
                seen.append(value)
            size, dtype = result(*seen)
            device = next(one.device for one in seen if isinstance(one, Tensor | Graph))
            learns = torch.is_grad_enabled()
            needs = [learns and isinstance(one, Tensor) and one.requires_grad for one in flat]
            return op(*flat, size, dtype, device, needs)[0]

        return cast(Call, call)

    return register


def _define(
    name: str, schema: str, kinds: tuple[str, ...], function: Callable[..., Tensor], shared: bool
) -> Any:
    result = "SymInt[] size, ScalarType dtype, Device device, bool[] needs"
    full = f"({schema}, {result}) -> (Tensor, Tensor)"

    @torch.library.custom_op(f"meanmax::{name}", mutates_args=(), schema=full)
    def op(*flat: Any) -> tuple[Tensor, Tensor]:
        *given, size, _, _, needs = flat
        with _recording(any(needs)):
            leaves = [
                one.detach().requires_grad_(need) if isinstance(one, Tensor) else one
                for one, need in zip(given, needs, strict=True)
            ]
            out = function(*_arguments(kinds, leaves))
        inputs = [one for one, need in zip(leaves, needs, strict=True) if need]
        fitted = _fit(out.detach(), size, shared)
        return fitted, keep(Tape(out, inputs)) if inputs else _no_tape()

    @op.register_fake
    def _(*flat: Any) -> tuple[Tensor, Tensor]:
        *_, size, dtype, device, _ = flat
        return torch.empty(size, dtype=dtype, device=device), _no_tape()

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        out, tape = output
        ctx.mark_non_differentiable(tape)
        *given, _, _, _, needs = inputs
        places = [place for place, one in enumerate(given) if isinstance(one, Tensor)]
        ctx.count, ctx.places, ctx.needs = len(inputs), places, [needs[place] for place in places]
        # The tape uses the memory of all of them: saved, nothing else is written there.
        ctx.save_for_backward(tape, out, *(given[place] for place in places))

    def backward(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
        tape, out, *inputs = ctx.saved_tensors
        found = iter(pull_back(tape, grad, out, inputs, ctx.needs))
        grads: list[Tensor | None] = [None] * ctx.count
        for place, need in zip(ctx.places, ctx.needs, strict=True):
            grads[place] = next(found) if need else None
        return tuple(grads)

    op.register_autograd(backward, setup_context=setup_context)
    return getattr(torch.ops.meanmax, name).default


@torch.library.custom_op(
    "meanmax::pull_back",
    mutates_args=(),
    schema="(Tensor tape, Tensor grad, Tensor out, Tensor[] inputs, bool[] needs) -> Tensor[]",
)
def _pull_back(
    tape: Tensor, grad: Tensor, out: Tensor, inputs: list[Tensor], needs: list[bool]
) -> list[Tensor]:
    r"""The gradients of those inputs of an op that need one."""
    known: Tape = lookup(tape)
    found: Sequence[Tensor | None] = [None] * len(known.inputs)
    if known.out.requires_grad:
        with _recording(True):
            found = torch.autograd.grad(
                known.out, known.inputs, grad[: len(known.out)], retain_graph=True,
                allow_unused=True,
            )  # fmt: skip
    # An op returns memory of its own.
    return [
        torch.zeros_like(one, memory_format=torch.contiguous_format)
        if value is None
        else value.clone(memory_format=torch.contiguous_format)
        if _same_memory(value, grad)
        else value.contiguous()
        for value, one in zip(found, known.inputs, strict=True)
    ]


@_pull_back.register_fake
def _(
    tape: Tensor, grad: Tensor, out: Tensor, inputs: list[Tensor], needs: list[bool]
) -> list[Tensor]:
    found = zip(inputs, needs, strict=True)
    return [one.new_empty(one.shape) for one, need in found if need]


pull_back = torch.ops.meanmax.pull_back.default


def _arguments(kinds: tuple[str, ...], flat: Sequence[Any]) -> list[Any]:
    r"""The arguments of the function from those of its op."""
    rest, found = iter(flat), []
    count = most = -1
    for kind in kinds:
        value = next(rest)
        if kind == "Graph":
            value = resolve(value, next(rest), next(rest))
            count, most = value.num_edges, next(rest)
        found.append(value)
    return [
        value[:count]
        if kind.startswith("Edges") and value is not None and len(value) == most
        else value
        for kind, value in zip(kinds, found, strict=True)
    ]


def _fit(out: Tensor, size: Sequence[int], shared: bool) -> Tensor:
    r"""The result in memory of its own, with rows of 0 where there are edges less than at most."""
    if len(out) < size[0]:
        return torch.cat([out, out.new_zeros(size[0] - len(out), *size[1:])])
    return out.clone() if shared else out.contiguous()


def _no_tape() -> Tensor:
    return torch.zeros((), dtype=torch.float64)


def _same_memory(one: Tensor, other: Tensor) -> bool:
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


@contextmanager
def _recording(learns: bool) -> Iterator[None]:
    r"""Ops run below autograd; this brings it back."""
    autograd = torch._C.DispatchKey.AutogradFunctionality
    with torch._C._SetExcludeDispatchKeyGuard(autograd, False), torch.set_grad_enabled(learns):
        yield


def _weight_dtype(weight: Tensor | None) -> torch.dtype:
    floating = weight is not None and weight.is_floating_point()
    return weight.dtype if floating else torch.get_default_dtype()  # type: ignore[union-attr]


def _weight_result(graph: TracedGraph) -> Result:
    assert graph.trailing is not None
    return (graph.num_edges, *graph.trailing), graph.dtype


@operation("Graph graph", _weight_result, shared=True)
def _csr_weight(graph: Graph) -> Tensor:
    assert graph.weight is not None
    return graph.weight


@operation("Graph graph", _weight_result, shared=True)
def _edge_weight(graph: Graph) -> Tensor:
    assert graph.edge_weight is not None
    return graph.edge_weight


_from_edge_index = builder("from_edge_index", "Tensor edge_index, SymInt num_src, SymInt num_dst")(
    lambda edge_index, num_src, num_dst: Graph.from_edge_index(edge_index, (num_src, num_dst))
)


def from_edge_index(
    edge_index: Tensor, sizes: tuple[int, int], edge_weight: Tensor | None
) -> Graph:
    r""":meth:`Graph.from_edge_index`, in compiled code too."""
    if not torch.compiler.is_compiling():
        return Graph.from_edge_index(edge_index, sizes, edge_weight)
    handle = _from_edge_index(edge_index, *sizes)
    # The op checks the shape.
    both, on = (*sizes, edge_index.size(-1)), edge_index.device
    graph = TracedGraph(handle, None, "", both, None, torch.get_default_dtype(), on)
    return graph if edge_weight is None else graph.with_weight(edge_weight)
