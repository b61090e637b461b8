r"""The Lp-norm aggregator."""

from __future__ import annotations

from torch import Tensor

from meanmax.functional.tilted import tilted
from meanmax.graph import Graph
from meanmax.ops import Form
from meanmax.ops.spec import (Shift, Sign)


def lp(
    x: Tensor,
    graph: Graph,
    p: float | Tensor,
    *,
    weight: Tensor | None = None,
    shift: Shift = "consistent",
    sign: Sign = "shift",
    mu: float | Tensor | None = None,
    backend: str | None = None,
) -> Tensor:
    r"""The weighted Lp norm over neighbours, from their weighted sum to their maximum.

    .. math::
        \mathrm{out}_v = \Big( \sum_{u \in \mathcal{N}(v)} a_{vu} (z_u - \mu)^p \Big)^{1/p}
        + \mu A_v^{1/p}, \qquad A_v = \sum_u a_{vu},

    with :math:`\mu` the minimum of the graph's features. At :math:`p = 1` it is the weighted sum,
    as :math:`p \to \infty` the maximum. As printed (Eq. 7 of the paper, :obj:`shift="paper"`) it
    adds :math:`\mu`, which is the weighted sum at :math:`p = 1` only where :math:`A_v = 1`. In
    between it is monotone in :math:`p` where :math:`A_v = 1`.

    A row without weight gives 0; one whose neighbours all sit at :math:`\mu` gives the shift.

    Args:
        x (Tensor): Features of the sources, :obj:`[num_src, channels]` or
            :obj:`[num_src, heads, channels]`.
        graph (Graph): The graph; in a batch each graph has its own :math:`\mu`.
        p (float or Tensor): The parameter, at least 1: one for all, or what broadcasts to the
            features' shape per node (:obj:`[channels]`, :obj:`[heads, 1]`).
        weight (Tensor, optional): Edge weights in the order of :obj:`graph.edge_index`,
            :obj:`[num_edges]` or :obj:`[num_edges, heads]`. (default: the graph's own, or 1)
        shift (str, optional): :obj:`"consistent"` or :obj:`"paper"`.
            (default: :obj:`"consistent"`)
        sign (str, optional): :obj:`"shift"` measures features from :math:`\mu`, :obj:`"abs"` takes
            :math:`|z|` and adds nothing back (Eq. 6). (default: :obj:`"shift"`)
        mu (float or Tensor, optional): :math:`\mu`, one or one per graph, at most the minimum.
            (default: the minimum)
        backend (str, optional): :obj:`"auto"`, :obj:`"numba"`, :obj:`"torch"` or
            :obj:`"reference"`. (default: see :class:`meanmax.use_backend`)

    Example:
        >>> import torch
        >>> graph = Graph.from_edge_index([[0, 1, 2], [3, 3, 3]], num_nodes=4)
        >>> x = torch.tensor([[1.0], [2.0], [4.0], [0.0]])
        >>> lp(x, graph, 1.0)[3], lp(x, graph, 100.0)[3]
        (tensor([7.]), tensor([4.]))
    """
    form = Form("lp", shift=shift)
    out: Tensor = tilted(x, graph, p, form, weight=weight, sign=sign, mu=mu, backend=backend)
    return out
