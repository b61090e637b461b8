r"""What a backward pass hands back."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Gradients(NamedTuple):
    r"""The gradients of an aggregation.

    Args:
        x (Tensor): Of the features. Where :math:`\mu` is their minimum, its part is included.
        theta (Tensor): Of the parameter, float64, :obj:`[channels]`.
        weight (Tensor, optional): Of the edge weights in CSR order, if they were asked for.
        mu (Tensor, optional): Of the origin, float64, :obj:`[num_graphs]`, if the form has one.
    """

    x: Tensor
    theta: Tensor
    weight: Tensor | None
    mu: Tensor | None
