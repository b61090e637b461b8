r"""What the forward pass leaves for the backward pass."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.spec import Form
from meanmax.ops.precision import Precision
from meanmax.ops.torch.exact import ExactRows
from meanmax.ops.torch.table import NodeTable


@dataclass(frozen=True, eq=False)
class State:
    r"""Inputs and intermediate results of one aggregation.

    :obj:`total` is :math:`A`, :obj:`below` :math:`S = \sum a T`, :obj:`ratio` the tilted mean in
    units of the channel; all :obj:`[num_dst, channels]`, and :obj:`below` is 0 in rows without
    weight, without a neighbour above the origin, or recomputed as :obj:`exact`. Lp has no
    :obj:`ratio`.
    """

    form: Form
    graph: Graph
    limits: Precision
    x: Tensor
    weight: Tensor
    nodes: NodeTable
    total: Tensor
    below: Tensor
    ratio: Tensor
    exact: ExactRows | None = None
