r"""Layers that take any aggregator: GCN, Masked GCN, GAT, CAT, GraphSAGE and GIN."""

from meanmax.layers.cat import CATConv
from meanmax.layers.gat import GATConv
from meanmax.layers.gcn import GCNConv
from meanmax.layers.gin import GINConv
from meanmax.layers.linear import Linear
from meanmax.layers.masked_gcn import MaskedGCNConv
from meanmax.layers.sage import SAGEConv
from meanmax.layers.structure import StructuralEmbedding, fit_structure, structure_loss

__all__ = [
    "CATConv",
    "GATConv",
    "GCNConv",
    "GINConv",
    "Linear",
    "MaskedGCNConv",
    "SAGEConv",
    "StructuralEmbedding",
    "fit_structure",
    "structure_loss",
]
