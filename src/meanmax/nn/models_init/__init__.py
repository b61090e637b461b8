r"""Models by name: a backbone, an aggregator, any depth; and their peers from PyTorch Geometric."""

from meanmax.nn.registry import BACKBONES
from meanmax.nn.build import build_model
from meanmax.nn.model import NodeModel
from meanmax.nn.pyg_baselines import PeerModel
from meanmax.nn.peers import (PEERS, build_peer)
from meanmax.nn.trainable import Trainable

__all__ = [
    "BACKBONES",
    "PEERS",
    "NodeModel",
    "PeerModel",
    "Trainable",
    "build_model",
    "build_peer",
]
