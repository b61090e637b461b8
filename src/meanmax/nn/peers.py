r"""Models that a user of PyTorch Geometric would take instead of ours, by name."""

from __future__ import annotations

from typing import Final

from meanmax.graph import Graph
from meanmax.nn.conv import (check_positive, check_rate)
from meanmax.nn.registry import BACKBONES
from meanmax.nn.peer_layers import (AGGREGATORS, EDGES, LAYERS, PeerPlan, pna)
from meanmax.nn.pyg_baselines import PeerModel

PEERS: Final = (*AGGREGATORS, "pna")
r"""What :func:`build_peer` knows."""


def build_peer(
    backbone: str,
    peer: str,
    in_channels: int,
    hidden: int,
    out_channels: int,
    layers: int = 2,
    heads: int | None = None,
    dropout: float = 0.5,
    *,
    graph: Graph,
) -> PeerModel:
    r"""Builds a model of PyTorch Geometric's own layers, with the depth, widths, activation and
    dropout that :func:`~meanmax.nn.models_init.build_model` gives its models.

    The peers :obj:`"pyg-softmax"` and :obj:`"pyg-powermean"` have PyG's
    :class:`SoftmaxAggregation` or :class:`PowerMeanAggregation`, learned, in the first layer; the
    others keep the layer's own aggregation. :obj:`"pna"` has :class:`PNAConv` in all layers, with
    mean, min, max and std, each as it is, amplified and attenuated by the degree. Between its
    layers stands a ReLU.

    Everything else is PyG's too. The power mean clamps messages and means to
    :math:`[10^{-4}, 100]`: negative messages count as :math:`10^{-4}` and get no gradient. A GAT
    has one parameter for all its heads. Only GCN takes the graph's weights into account. PNA forms
    messages of twice its input's channels for every edge, which is slow where features are many.

    Args:
        backbone (str): :obj:`"gcn"`, :obj:`"gat"`, :obj:`"sage"` or :obj:`"gin"`; :obj:`"pna"`
            takes any and ignores it.
        peer (str): One of :obj:`PEERS`.
        in_channels (int): Channels of the input.
        hidden (int): Channels of hidden layers, all heads together.
        out_channels (int): Channels of the output: classes, or labels.
        layers (int, optional): The number of layers. (default: :obj:`2`)
        heads (int, optional): Heads of the hidden layers of :obj:`"gat"`; :obj:`"pna"` ignores
            it. (default: :obj:`8` of :obj:`"gat"`)
        dropout (float, optional): Dropout of each layer's input and of attention.
            (default: :obj:`0.5`)
        graph (Graph): The graph, or the batch of graphs, to train on; PNA scales by its degrees.

    Example:
        >>> graph = Graph.from_edge_index([[0, 1], [1, 0]])
        >>> build_peer("gcn", "pyg-softmax", 1433, 64, 7, graph=graph).learned()
        {'layers.0.t': tensor(1.)}
    """
    _check_names(backbone, peer)
    check_positive(in_channels=in_channels, hidden=hidden, out_channels=out_channels, layers=layers)
    rate = check_rate(dropout)
    if not isinstance(graph, Graph):
        raise ValueError(
            f"'graph' must be a meanmax.Graph (got {type(graph).__name__}); make one with "
            f"Graph.from_edge_index(edge_index, num_nodes)"
        )
    if peer == "pna":
        make, count = pna(graph), 1
    else:
        make, count = LAYERS[backbone], _check_heads(backbone, heads, hidden, layers)
    plans = [
        PeerPlan(
            in_channels=hidden if index else in_channels,
            out_channels=out_channels if index == layers - 1 else hidden,
            hidden=hidden,
            heads=1 if index == layers - 1 else count,
            dropout=rate,
            aggr=None if index or peer == "pna" else AGGREGATORS[peer](learn=True),
        )
        for index in range(layers)
    ]
    return PeerModel(
        [make(plan) for plan in plans],
        in_channels=in_channels,
        activation="relu" if peer == "pna" else BACKBONES[backbone].activation,
        dropout=rate,
        edges="plain" if peer == "pna" else EDGES[backbone],
    )


def _check_names(backbone: object, peer: object) -> None:
    if peer not in PEERS:
        listed = ", ".join(repr(known) for known in PEERS)
        raise ValueError(f"unknown peer {peer!r}: 'peer' must be one of {listed}")
    if not isinstance(backbone, str) or backbone not in BACKBONES:
        listed = ", ".join(repr(known) for known in BACKBONES)
        raise ValueError(f"unknown backbone {backbone!r}: 'backbone' must be one of {listed}")
    if peer != "pna" and backbone not in LAYERS:
        listed = ", ".join(repr(known) for known in LAYERS)
        raise ValueError(
            f"PyG has no layer for backbone {backbone!r}, so there is no {peer!r} of it: use one "
            f"of {listed}, or peer 'pna', which has layers of its own"
        )


def _check_heads(backbone: str, heads: int | None, hidden: int, layers: int) -> int:
    usual = BACKBONES[backbone].heads
    if not usual:
        if heads not in (None, 1):
            raise ValueError(
                f"backbone {backbone!r} has no heads (got heads={heads!r}): leave them out, or "
                f"use 'gat'"
            )
        return 1
    heads = usual if heads is None else heads
    check_positive(heads=heads)
    if layers > 1 and hidden % heads:
        raise ValueError(
            f"'hidden' is the width of all heads together and must be a multiple of 'heads' (got "
            f"hidden={hidden}, heads={heads}): {heads} heads of 8 channels are hidden={8 * heads}"
        )
    return heads
