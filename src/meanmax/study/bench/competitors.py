r"""What is timed: named pairs of closures over the same inputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import torch
from torch import Tensor
from torch_geometric.nn import aggr

from meanmax import functional
from meanmax.graph import Graph

FORWARD, TRAIN = "forward", "forward+backward"
PASSES = (FORWARD, TRAIN)
LINEAR = ("linear-numba", "linear-torch")

Passes = Mapping[str, Callable[[], object]]
Function = Callable[..., Tensor]


class Inputs:
    r"""The graph, features and incoming gradient that all competitors share."""

    def __init__(
        self, graph: Graph, channels: int, dtype: torch.dtype = torch.float32, seed: int = 0
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        size = (graph.num_nodes, channels)
        self.graph: Final = graph
        self.x: Final = torch.randn(size, generator=generator, dtype=dtype)
        self.grad: Final = torch.randn(size, generator=generator, dtype=dtype)

    @cached_property
    def wide(self) -> Tensor:
        r"""The features with a standard deviation of 3."""
        return 3 * self.x

    @cached_property
    def positive(self) -> Tensor:
        r"""The features' absolute values, as a power mean needs them."""
        return self.x.abs()

    @cached_property
    def ends(self) -> tuple[Tensor, Tensor]:
        r"""Source and target of every edge, sorted by target, int64."""
        degree = self.graph.rowptr.diff()
        return self.graph.col.long(), torch.arange(degree.numel()).repeat_interleave(degree)

    @cached_property
    def matrices(self) -> tuple[Tensor, Tensor]:
        r"""The weighted adjacency matrix and its transpose as PyTorch's CSR tensors."""
        graph, size = self.graph, (self.graph.num_nodes, self.graph.num_nodes)
        assert graph.weight is not None
        weight = graph.weight.to(self.x.dtype)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse", category=UserWarning)
            matrix = torch.sparse_csr_tensor(graph.rowptr, graph.col, weight, size)
            weight = weight[graph.csc_to_csr.long()]
            return matrix, torch.sparse_csr_tensor(graph.colptr, graph.row, weight, size)


@dataclass(frozen=True)
class Competitor:
    r"""Something to time."""

    name: str  # the key in the results
    label: str  # what tables call it
    # Makes the closures of both passes from the inputs. The forward pass records nothing for a
    # backward pass; the backward pass gives the gradients of features and parameter
    prepare: Callable[[Inputs], Passes]

    @property
    def is_pyg(self) -> bool:
        r"""Whether it holds messages of [edges, channels]."""
        return self.name.startswith("pyg-")


def _ours(function: Function, backend: str, *parameter: float, features: str = "x") -> Any:
    def prepare(inputs: Inputs) -> Passes:
        x = _leaf(getattr(inputs, features))
        theta = [torch.tensor(value, requires_grad=True) for value in parameter]
        call = lambda: function(x, inputs.graph, *theta, backend=backend)  # noqa: E731
        return _passes(call, (x, *theta), inputs.grad)

    return prepare


def _torch_csr(inputs: Inputs) -> Passes:
    matrix, transpose = inputs.matrices
    return {
        FORWARD: lambda: matrix @ inputs.x,
        TRAIN: lambda: (matrix @ inputs.x, transpose @ inputs.grad),
    }


def _pyg(make: Callable[..., aggr.Aggregation], features: str = "x", **start: float) -> Any:
    r"""An aggregation of PyG, learned if it has a value to start from."""
    learned: dict[str, Any] = {**start, "learn": True} if start else {}

    def prepare(inputs: Inputs) -> Passes:
        x, aggregation = _leaf(getattr(inputs, features)), make(**learned).to(inputs.x.dtype)
        source, target = inputs.ends
        nodes = inputs.graph.num_nodes
        call = lambda: aggregation(x[source], target, dim_size=nodes)  # noqa: E731
        return _passes(call, (x, *aggregation.parameters()), inputs.grad)

    return prepare


def _passes(call: Callable[[], Tensor], leaves: tuple[Tensor, ...], grad: Tensor) -> Passes:
    def forward() -> Tensor:
        with torch.no_grad():
            return call()

    return {FORWARD: forward, TRAIN: lambda: torch.autograd.grad(call(), leaves, grad)}


def _leaf(x: Tensor) -> Tensor:
    return x.detach().requires_grad_()


_AGGREGATORS: tuple[tuple[str, Function, str, float], ...] = (
    ("lp", functional.lp, "p", 2.0),
    ("polynomial", functional.polynomial, "alpha", 1.0),
    ("softmax", functional.softmax, "gamma", 1.0),
)

COMPETITORS: Final[dict[str, Competitor]] = {
    competitor.name: competitor
    for competitor in (
        Competitor("linear-numba", "linear sum (numba)", _ours(functional.sum, "numba")),
        Competitor("linear-torch", "linear CSR product (torch)", _torch_csr),
        *(
            Competitor(
                f"{name}-{backend}",
                f"{name} {parameter}={value:g} ({backend})",
                _ours(function, backend, value),
            )
            for backend in ("numba", "torch")
            for name, function, parameter, value in _AGGREGATORS
        ),
        *(
            Competitor(
                f"exact-{backend}",
                f"softmax exact, gamma=22, sd 3 ({backend})",
                _ours(functional.softmax, backend, 22.0, features="wide"),
            )
            for backend in ("numba", "torch")
        ),
        Competitor("max-numba", "max (numba)", _ours(functional.max, "numba")),
        Competitor("max-torch", "max (torch)", _ours(functional.max, "torch")),
        Competitor("pyg-softmax", "PyG softmax t=1", _pyg(aggr.SoftmaxAggregation, t=1.0)),
        Competitor(
            "pyg-powermean",
            "PyG power mean p=2",
            _pyg(aggr.PowerMeanAggregation, features="positive", p=2.0),
        ),
        Competitor("pyg-sum", "PyG sum, unweighted", _pyg(aggr.SumAggregation)),
        Competitor("pyg-max", "PyG max", _pyg(aggr.MaxAggregation)),
    )
}
r"""All competitors by name, in the order of the tables."""

OURS = ("lp-numba", "polynomial-numba", "softmax-numba")
SWEPT: Final = (*LINEAR, *OURS, "pyg-softmax", "pyg-powermean")
r"""Those that are timed over several sizes."""
