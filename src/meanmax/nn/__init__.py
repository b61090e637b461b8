r"""Layers that take any aggregator: GCN, Masked GCN, GAT, CAT, GraphSAGE and GIN."""

from meanmax.nn.cat_cat import CATConv
from meanmax.nn.gat import GATConv
from meanmax.nn.gcn import GCNConv
from meanmax.nn.gin import GINConv
from meanmax.nn.linear import Linear
from meanmax.nn.masked_gcn import MaskedGCNConv
from meanmax.nn.sage import SAGEConv
from meanmax.nn.cat import (StructuralEmbedding, fit_structure, structure_loss)

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
