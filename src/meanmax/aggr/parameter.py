r"""The learnable parameter: how many there are, and how a raw value becomes one in its domain."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor
from torch.nn.functional import softplus

from meanmax.ops.spec import check_choice

Per = Literal["layer", "head", "channel"]
Reparam = Literal["projected", "softplus", "sigmoid"]
Start: TypeAlias = float | Sequence[float] | Tensor


@dataclass(frozen=True)
class Domain:
    r"""The map from a raw value, which is free, to the parameter :math:`\theta` of the formula.

    ============= ============================================ ===========================
    reparam       :math:`\theta`                               range
    ============= ============================================ ===========================
    "projected"   :math:`\max(\mathrm{raw}, l)`                :math:`[l, \infty)`
    "softplus"    :math:`l + \log(1 + e^{\mathrm{raw}})`       :math:`(l, \infty)`
    "sigmoid"     :math:`l + (h - l) \, \sigma(\mathrm{raw})`  :math:`(l, h)`
    ============= ============================================ ===========================

    The projection passes the gradient straight through, so that a parameter held at :math:`l`, the
    baseline, can leave it again.
    """

    name: str  # the parameter's name in the formula
    lower: float  # l, the value at which the aggregator is linear
    reparam: Reparam  # "projected", "softplus" or "sigmoid"
    upper: float | None = None  # h, for the sigmoid only

    def __post_init__(self) -> None:
        check_choice("reparam", self.reparam, get_args(Reparam))
        if self.reparam != "sigmoid":
            if self.upper is not None:
                raise ValueError(
                    f"'upper' bounds reparam='sigmoid' only (got upper={self.upper!r} with "
                    f"reparam={self.reparam!r}): leave it out or use reparam='sigmoid'"
                )
            return
        upper = 2.0 if self.upper is None else float(self.upper)
        if not self.lower < upper < math.inf:
            raise ValueError(
                f"'upper' must be finite and above {self.lower:g} (got {upper!r}): the authors use "
                f"upper=2.0"
            )
        object.__setattr__(self, "upper", upper)

    def value(self, raw: Tensor) -> Tensor:
        r"""The parameter of a raw value, differentiable."""
        if self.reparam == "projected":
            # Equals the projection exactly: raw + (projection - raw) may round to below it.
            return raw.detach().clamp(min=self.lower) + (raw - raw.detach())
        if self.reparam == "softplus":
            return self.lower + softplus(raw)
        assert self.upper is not None
        return self.lower + (self.upper - self.lower) * raw.sigmoid()

    def is_itself(self, raw: Tensor) -> bool:
        r"""Whether the parameter is the raw value, a single number whose domain it is in."""
        return (
            self.reparam == "projected"
            and raw.is_cpu
            and raw.numel() == 1
            and not torch.compiler.is_compiling()
            and raw.item() >= self.lower
        )

    def raw(self, value: Tensor) -> Tensor:
        r"""The raw value of a parameter; a :class:`ValueError` if there is none."""
        for each in value.reshape(-1).tolist():
            self._check(each)
        above = value - self.lower
        if self.reparam == "projected":
            return value
        if self.reparam == "softplus":
            return above + torch.log(-torch.expm1(-above))
        assert self.upper is not None
        return torch.logit(above / (self.upper - self.lower))

    def _check(self, value: float) -> None:
        if not abs(value) <= torch.finfo(torch.get_default_dtype()).max:
            raise ValueError(
                f"'{self.name}' must be finite (got {value}): start at "
                f"{max(self.lower, 0.0) + 1}, or use "
                f"meanmax.functional.max for the limit"
            )
        margin = 0.01 if self.upper is None else 0.01 * (self.upper - self.lower)
        near = self.lower if self.reparam == "projected" else self.lower + margin
        where = "the edge of its domain" if value == self.lower else f"below {self.lower:g}"
        inside = value > self.lower or (value == self.lower and self.reparam == "projected")
        if self.upper is not None and value >= self.upper:
            inside, near = False, self.upper - margin
            where = f"not below upper={self.upper!r}"
        if not inside:
            other = "" if self.reparam == "projected" else " or use reparam='projected'"
            raise ValueError(
                f"reparam={self.reparam!r} cannot start at {self.name}={value}, {where}: "
                f"start at {near:.6g}{other if value >= self.lower else ''}"
            )


def shape_of(per: Per, heads: int | None, channels: int | None) -> tuple[int, ...]:
    r"""The shape of the parameter: :obj:`[]`, :obj:`[heads]` or :obj:`[channels]`."""
    check_choice("per", per, get_args(Per))
    for name, count, needed_by in (("heads", heads, "head"), ("channels", channels, "channel")):
        if per == needed_by and count is None:
            raise ValueError(f"per={per!r} needs '{name}', the number of {name}: pass {name}=")
        if per != needed_by and count is not None:
            raise ValueError(
                f"'{name}' has no effect with per={per!r} (got {name}={count!r}): leave it out or "
                f"use per={needed_by!r}"
            )
    if per == "layer":
        return ()
    count = heads if per == "head" else channels
    try:
        size = operator.index(count)  # type: ignore[arg-type]
    except TypeError:
        size = 0
    if size < 1:
        raise ValueError(f"'{per}s' must be a positive integer (got {count!r})")
    return (size,)


def start_values(value: Start, shape: tuple[int, ...], name: str) -> Tensor:
    r"""A start value, or one for each, as a float64 tensor of the given shape."""
    size = math.prod(shape)
    try:
        start = torch.as_tensor(value, dtype=torch.float64, device="cpu").detach()
    except (TypeError, ValueError, RuntimeError):
        start = torch.empty(0, 0)
    if start.dim() > 1 or start.numel() not in (1, size):
        allowed = "a number" if size == 1 else f"a number or {size} of them"
        got = f"shape {list(value.shape)}" if isinstance(value, Tensor) else repr(value)
        raise ValueError(f"'{name}' must be {allowed} (got {got})")
    return start.reshape(-1).expand(size).reshape(shape).clone()
