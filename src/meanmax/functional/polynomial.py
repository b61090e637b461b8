r"""The polynomial aggregator."""

from __future__ import annotations

from torch import Tensor

from meanmax.functional.tilted import tilted
from meanmax.graph import Graph
from meanmax.ops import Form
from meanmax.ops.spec import (Normalize, Sign)


def polynomial(
    x: Tensor,
    graph: Graph,
    alpha: float | Tensor,
    *,
    weight: Tensor | None = None,
    normalize: Normalize = "weighted",
    sign: Sign = "shift",
    mu: float | Tensor | None = None,
    backend: str | None = None,
) -> Tensor:
    r"""The polynomial mean over neighbours, from their weighted mean to their maximum.

    .. math::
        \mathrm{out}_v = \frac{\sum_u a_{vu} (z_u - \mu)^{\alpha + 1}}
        {\sum_u a_{vu} (z_u - \mu)^{\alpha}} + \mu,

    with :math:`\mu` the minimum of the graph's features. At :math:`\alpha = 0` it is the weighted
    mean, as :math:`\alpha \to \infty` the maximum, monotone in between. With
    :obj:`normalize="sum"` all of it is multiplied by :math:`A_v = \sum_u a_{vu}`: the weighted
    *sum* at :math:`\alpha = 0`, as a linear layer has it, and :math:`A_v \max` in the limit.

    A row without weight gives 0; one whose neighbours all sit at :math:`\mu` gives :math:`\mu`.

    Args:
        x (Tensor): Features of the sources, :obj:`[num_src, channels]` or
            :obj:`[num_src, heads, channels]`.
        graph (Graph): The graph; in a batch each graph has its own :math:`\mu`.
        alpha (float or Tensor): The parameter, at least 0: one for all, or what broadcasts to the
            features' shape per node (:obj:`[channels]`, :obj:`[heads, 1]`).
        weight (Tensor, optional): Edge weights in the order of :obj:`graph.edge_index`,
            :obj:`[num_edges]` or :obj:`[num_edges, heads]`. (default: the graph's own, or 1)
        normalize (str, optional): :obj:`"weighted"` or :obj:`"sum"`; :obj:`"paper"` (Eq. 12) is
            the same as :obj:`"weighted"`. (default: :obj:`"weighted"`)
        sign (str, optional): :obj:`"shift"` measures features from :math:`\mu`, :obj:`"abs"` takes
            :math:`|z|` and adds nothing back (Eq. 11). (default: :obj:`"shift"`)
        mu (float or Tensor, optional): :math:`\mu`, one or one per graph, at most the minimum.
            (default: the minimum)
        backend (str, optional): :obj:`"auto"`, :obj:`"numba"`, :obj:`"torch"` or
            :obj:`"reference"`. (default: see :class:`meanmax.use_backend`)

    Example:
        >>> import torch
        >>> graph = Graph.from_edge_index([[0, 1, 2], [3, 3, 3]], num_nodes=4)
        >>> x = torch.tensor([[1.0], [2.0], [6.0], [0.0]])
        >>> polynomial(x, graph, 0.0)[3], polynomial(x, graph, 100.0)[3]
        (tensor([3.]), tensor([6.]))
    """
    form = Form("polynomial", normalize=normalize)
    out: Tensor = tilted(x, graph, alpha, form, weight=weight, sign=sign, mu=mu, backend=backend)
    return out
