r"""What training asks of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from torch import Tensor
from torch.nn import Parameter

from meanmax.graph import Graph
from meanmax.nn.linear import Features


@runtime_checkable
class Trainable(Protocol):
    r"""A model that can be trained and compared: a :class:`~meanmax.nn.models_init.NodeModel`, a
    :class:`~meanmax.nn.models_init.PeerModel`, or any :class:`torch.nn.Module` with these members.
    """

    training: bool

    def __call__(
        self, x: Features, graph: Graph | Tensor, *, structure: Tensor | None = None
    ) -> Tensor:
        r"""The output of every node, :obj:`[num_nodes, out_channels]`."""

    def hidden(self, x: Features, graph: Graph, *, structure: Tensor | None = None) -> list[Tensor]:
        r"""What every hidden layer ends with."""

    def embed(
        self, x: Features, graph: Graph | Tensor, *, structure: Tensor | None = None
    ) -> Tensor:
        r"""The last hidden embedding of every node, without dropout and without gradient."""

    def maxness(
        self, x: Features, graph: Graph | Tensor, *, structure: Tensor | None = None
    ) -> dict[str, Tensor]:
        r"""Where between mean and max each layer stands, or nothing if that is not defined."""

    def learned(self) -> dict[str, Tensor]:
        r"""The values of the aggregators' parameters by name."""

    def aggregator_parameters(self) -> list[Parameter]:
        r"""What the aggregators learn."""

    def other_parameters(self) -> list[Parameter]:
        r"""All other parameters."""

    def extra_loss(self, graph: Graph) -> Tensor | None:
        r"""What training adds to the loss, if anything."""

    def reset_parameters(self) -> None:
        r"""Draws new weights."""

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        r"""See :class:`torch.nn.Module`."""

    def train(self, mode: bool = True) -> Any:
        r"""See :class:`torch.nn.Module`."""

    def eval(self) -> Any:
        r"""See :class:`torch.nn.Module`."""

    def state_dict(self) -> dict[str, Any]:
        r"""See :class:`torch.nn.Module`."""

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any:
        r"""See :class:`torch.nn.Module`."""
