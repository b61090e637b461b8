r"""What is timed: named pairs of closures over the same inputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import torch
from torch import Tensor
from torch_geometric.nn.aggr import (
    Aggregation,
    MaxAggregation,
    PowerMeanAggregation,
    SoftmaxAggregation,
    SumAggregation,
)

from meanmax import functional
from meanmax.graph import Graph

FORWARD, TRAIN = "forward", "forward+backward"
PASSES = (FORWARD, TRAIN)
LINEAR = ("linear-numba", "linear-torch")
PYG_SOFTMAX, PYG_POWER_MEAN = "pyg-softmax", "pyg-powermean"

Passes = Mapping[str, Callable[[], object]]
Function = Callable[..., Tensor]


class Inputs:
    r"""The graph, features and incoming gradient that all competitors share.

    Args:
        graph (Graph): The graph.
        channels (int): The number of channels.
        dtype (torch.dtype, optional): The type of the features. (default: :obj:`torch.float32`)
        seed (int, optional): The seed of the features. (default: :obj:`0`)
    """

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
            return (
                torch.sparse_csr_tensor(graph.rowptr, graph.col, weight, size),
                torch.sparse_csr_tensor(
                    graph.colptr, graph.row, weight[graph.csc_to_csr.long()], size
                ),
            )


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


def _ours(function: Function, value: float, backend: str, features: str = "x") -> Any:
    def prepare(inputs: Inputs) -> Passes:
        x, theta = _leaf(getattr(inputs, features)), torch.tensor(value, requires_grad=True)
        call = lambda: function(x, inputs.graph, theta, backend=backend)  # noqa: E731
        return _passes(call, (x, theta), inputs.grad)

    return prepare


def _end(function: Function, backend: str) -> Any:
    def prepare(inputs: Inputs) -> Passes:
        x = _leaf(inputs.x)
        return _passes(lambda: function(x, inputs.graph, backend=backend), (x,), inputs.grad)

    return prepare


def _torch_csr(inputs: Inputs) -> Passes:
    matrix, transpose = inputs.matrices
    return {
        FORWARD: lambda: matrix @ inputs.x,
        TRAIN: lambda: (matrix @ inputs.x, transpose @ inputs.grad),
    }


def _pyg(make: Callable[[], Aggregation], features: str = "x") -> Any:
    def prepare(inputs: Inputs) -> Passes:
        x, aggregation = _leaf(getattr(inputs, features)), make().to(inputs.x.dtype)
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
        Competitor("linear-numba", "linear sum (numba)", _end(functional.sum, "numba")),
        Competitor("linear-torch", "linear CSR product (torch)", _torch_csr),
        *(
            Competitor(
                f"{name}-{backend}",
                f"{name} {parameter}={value:g} ({backend})",
                _ours(function, value, backend),
            )
            for backend in ("numba", "torch")
            for name, function, parameter, value in _AGGREGATORS
        ),
        *(
            Competitor(
                f"exact-{backend}",
                f"softmax exact, gamma=22, sd 3 ({backend})",
                _ours(functional.softmax, 22.0, backend, "wide"),
            )
            for backend in ("numba", "torch")
        ),
        Competitor("max-numba", "max (numba)", _end(functional.max, "numba")),
        Competitor("max-torch", "max (torch)", _end(functional.max, "torch")),
        Competitor(
            PYG_SOFTMAX, "PyG softmax t=1", _pyg(lambda: SoftmaxAggregation(t=1.0, learn=True))
        ),
        Competitor(
            PYG_POWER_MEAN,
            "PyG power mean p=2",
            _pyg(lambda: PowerMeanAggregation(p=2.0, learn=True), "positive"),
        ),
        Competitor("pyg-sum", "PyG sum, unweighted", _pyg(SumAggregation)),
        Competitor("pyg-max", "PyG max", _pyg(MaxAggregation)),
    )
}
r"""All competitors by name, in the order of the tables."""

SWEPT: Final = (
    *LINEAR,
    "lp-numba",
    "polynomial-numba",
    "softmax-numba",
    PYG_SOFTMAX,
    PYG_POWER_MEAN,
)
r"""Those that are timed over several sizes."""
