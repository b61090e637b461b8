r"""Linear maps and dropout of features that may be sparse."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, final

import torch
from torch import Tensor
from torch.nn import Module, Parameter, UninitializedParameter

from meanmax.graph import Graph, SparseFeatures
from meanmax.ops import Drop, numba_serves
from meanmax.ops import dropout as drop
from meanmax.ops import sparse_product as product
from meanmax.ops.library import operation

Features: TypeAlias = Tensor | SparseFeatures


class LazyParameters(Module):
    r"""A module whose parameters may take their shape from the first input, and may be copied,
    saved and loaded before that, as in PyG.
    """

    def materialize(self, name: str, shape: tuple[int, ...]) -> None:
        r"""Gives a lazy parameter its shape."""
        self._parameters[name].materialize(shape)  # type: ignore[union-attr]

    def _lazy(self) -> dict[str, Parameter | None]:
        found = self._parameters.items()
        return {name: one for name, one in found if isinstance(one, UninitializedParameter)}

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        lazy, whole = self._lazy(), self._parameters
        self._parameters = {name: one for name, one in whole.items() if name not in lazy}
        super()._save_to_state_dict(destination, prefix, keep_vars)
        self._parameters = whole
        destination.update({f"{prefix}{name}": one for name, one in lazy.items()})

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name in self._lazy():
            value = state_dict.get(f"{prefix}{name}")
            if isinstance(value, Tensor) and not isinstance(value, UninitializedParameter):
                self.materialize(name, tuple(value.shape))
        super()._load_from_state_dict(state_dict, prefix, *args)


@final
class Linear(LazyParameters, torch.nn.Linear):
    r"""A linear map :math:`x W^\top + b` of dense or sparse features.

    A product with sparse features costs what is stored, forward and backward.

    Args:
        in_channels (int): Channels of the input; -1 if the first call determines them.
        out_channels (int): Channels of the output.
        bias (bool, optional): Whether :math:`b` is added. (default: :obj:`True`)
        init (str, optional): :obj:`"glorot"` as PyG's GCN and GAT, or :obj:`"uniform"` as
            :class:`torch.nn.Linear`. (default: :obj:`"uniform"`)

    Example:
        >>> from meanmax import SparseFeatures
        >>> x = torch.eye(3)
        >>> layer = Linear(-1, 4)
        >>> torch.equal(layer(x), layer(SparseFeatures.from_dense(x)))
        True
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        bias: bool = True,
        init: Literal["glorot", "uniform"] = "uniform",
    ) -> None:
        self.init = init
        super().__init__(max(in_channels, 1), out_channels, bias)
        if in_channels == -1:
            self.in_features = -1
            self.weight = UninitializedParameter()

    def reset_parameters(self) -> None:
        r"""Draws new weights."""
        if self.is_lazy:
            return
        super().reset_parameters()
        if self.init == "glorot":
            torch.nn.init.xavier_uniform_(self.weight)

    def forward(self, x: Features) -> Tensor:
        r"""Maps :obj:`[num_nodes, in_channels]` to :obj:`[num_nodes, out_channels]`."""
        out = self.without_bias(x)
        return out if self.bias is None else out + self.bias

    @property
    def is_lazy(self) -> bool:
        r"""Whether the first call is still to determine the channels of the input."""
        return isinstance(getattr(self, "weight", None), UninitializedParameter)

    def without_bias(self, x: Features) -> Tensor:
        r"""The linear map alone."""
        if self.is_lazy:
            self.materialize("weight", (self.out_features, x.size(-1)))
            self.reset_parameters()
        self._check(x)
        if isinstance(x, Tensor):
            return torch.nn.functional.linear(x, self.weight)
        out: Tensor = sparse_product(x, self.weight)
        return out

    def materialize(self, name: str, shape: tuple[int, ...]) -> None:
        r"""Gives a lazy parameter its shape."""
        super().materialize(name, shape)
        self.in_features = shape[1]

    def _check(self, x: Features) -> None:
        if x.size(-1) != self.in_features:
            raise ValueError(
                f"'x' has {x.size(-1)} channels, but the layer was built for {self.in_features}"
            )
        if not x.dtype.is_floating_point:
            raise ValueError(f"'x' must be floating-point (got {x.dtype}): pass x.float()")
        same = x.dtype == self.weight.dtype or not isinstance(x, Tensor)
        if not same and not torch.is_autocast_enabled(self.weight.device.type):
            raise ValueError(
                f"'x' is {x.dtype}, but the layer's weights are {self.weight.dtype}: pass "
                f"x.to({self.weight.dtype}), or convert the model with model.to({x.dtype})"
            )


def sparse_product(x: SparseFeatures, weight: Tensor) -> Tensor:
    r""":math:`x W^\top` for a weight :obj:`[out_channels, in_channels]`, differentiable in it and
    in the stored values.
    """
    if torch.compiler.is_compiling():
        return _stored_product(x.value, x.graph, weight)
    dtype = weight.dtype if weight.dtype == torch.float64 else torch.float32
    with torch.autocast(weight.device.type, enabled=False):
        out = product(x, weight.t().to(dtype).contiguous())
    return out.to(weight.dtype)


@operation(
    "Tensor value, Graph graph, Tensor weight",
    lambda _, graph, weight: ((graph.num_dst, weight.size(0)), weight.dtype),
)
def _stored_product(value: Tensor, graph: Graph, weight: Tensor) -> Tensor:
    return sparse_product(SparseFeatures(graph, value), weight)


def dropout(x: Features, rate: float, training: bool) -> Features:
    r"""Dropout; of sparse features on the values that are stored."""
    if not training or rate == 0.0:
        return x
    if isinstance(x, Tensor):
        return fast_dropout(x, rate, training)
    if not torch.compiler.is_compiling() and numba_serves(x.stored):
        return SparseFeatures(x.graph, x.value, Drop.draw(rate))
    return x.with_value(fast_dropout(x.value, rate, training))


def fast_dropout(x: Tensor, rate: float, training: bool) -> Tensor:
    r"""Dropout of a dense tensor."""
    return drop(x, rate) if training and rate != 0.0 else x


def as_dense(x: Features) -> Tensor:
    r"""The features as a dense tensor."""
    return x if isinstance(x, Tensor) else x.to_dense()
