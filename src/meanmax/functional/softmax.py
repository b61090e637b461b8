r"""The softmax aggregator."""

from __future__ import annotations

from torch import Tensor

from meanmax.functional.tilted import tilted
from meanmax.graph import Graph
from meanmax.ops import Form
from meanmax.ops.spec import Normalize


def softmax(
    x: Tensor,
    graph: Graph,
    gamma: float | Tensor,
    *,
    weight: Tensor | None = None,
    normalize: Normalize = "weighted",
    backend: str | None = None,
) -> Tensor:
    r"""The softmax-weighted mean over neighbours, from their weighted mean to their maximum.

    .. math::
        \mathrm{out}_v = \frac{\sum_u a_{vu} e^{\gamma z_u} z_u}{\sum_u a_{vu} e^{\gamma z_u}}

    At :math:`\gamma = 0` it is the weighted mean, as :math:`\gamma \to \infty` the maximum,
    monotone in between. With :obj:`normalize="sum"` it is multiplied by
    :math:`A_v = \sum_u a_{vu}`: the weighted *sum* at :math:`\gamma = 0`, as a linear layer has
    it, and :math:`A_v \max` in the limit. As printed (Eq. 15 of the paper,
    :obj:`normalize="paper"`) the denominator has no weight; with normalised weights it then
    divides by the degree twice, and neither end of the path holds.

    A row without weight gives 0.

    Args:
        x (Tensor): Features of the sources, :obj:`[num_src, channels]` or
            :obj:`[num_src, heads, channels]`.
        graph (Graph): The graph.
        gamma (float or Tensor): The parameter, at least 0: one for all, or what broadcasts to the
            features' shape per node (:obj:`[channels]`, :obj:`[heads, 1]`).
        weight (Tensor, optional): Edge weights in the order of :obj:`graph.edge_index`,
            :obj:`[num_edges]` or :obj:`[num_edges, heads]`. (default: the graph's own, or 1)
        normalize (str, optional): :obj:`"weighted"`, :obj:`"sum"` or :obj:`"paper"`.
            (default: :obj:`"weighted"`)
        backend (str, optional): :obj:`"auto"`, :obj:`"numba"`, :obj:`"torch"` or
            :obj:`"reference"`. (default: see :class:`meanmax.use_backend`)

    Example:
        >>> import torch
        >>> graph = Graph.from_edge_index([[0, 1, 2], [3, 3, 3]], num_nodes=5)
        >>> x = torch.tensor([[0.0], [1.0], [2.0], [0.0], [1000.0]])
        >>> softmax(x, graph, 1.0)[3]
        tensor([1.5752])
    """
    form = Form("softmax", normalize=normalize)
    out: Tensor = tilted(x, graph, gamma, form, weight=weight, backend=backend)
    return out
