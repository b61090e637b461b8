r"""Layers that take any aggregator (GCN, Masked GCN, GAT, CAT, GraphSAGE, GIN and DeeperGCN's), one
that ignores the edges, and models of them.
"""

from meanmax.nn.acceleration import accelerate, accelerated, restore
from meanmax.nn.cat import CATConv, StructuralEmbedding, fit_structure, structure_loss
from meanmax.nn.gat import GATConv
from meanmax.nn.gcn import GCNConv
from meanmax.nn.gen import GENConv
from meanmax.nn.gin import GINConv
from meanmax.nn.graph_model import GraphModel
from meanmax.nn.linear import Linear
from meanmax.nn.masked_gcn import MaskedGCNConv
from meanmax.nn.mlp import DenseLayer
from meanmax.nn.model import NodeModel, Trainable
from meanmax.nn.pyg_baselines import PYG_BASELINES, PyGBaseline, build_pyg_baseline
from meanmax.nn.readout import Readout, readout
from meanmax.nn.registry import BACKBONES, LayerOptions, build_model
from meanmax.nn.sage import SAGEConv

__all__ = [
    "BACKBONES",
    "CATConv",
    "DenseLayer",
    "GATConv",
    "GCNConv",
    "GENConv",
    "GINConv",
    "GraphModel",
    "LayerOptions",
    "Linear",
    "MaskedGCNConv",
    "NodeModel",
    "PYG_BASELINES",
    "PyGBaseline",
    "Readout",
    "SAGEConv",
    "StructuralEmbedding",
    "Trainable",
    "accelerate",
    "accelerated",
    "build_model",
    "build_pyg_baseline",
    "fit_structure",
    "readout",
    "restore",
    "structure_loss",
]
