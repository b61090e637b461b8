r"""Models by name: a backbone, an aggregator, any depth; and their peers from PyTorch Geometric."""

from meanmax.models.backbones import BACKBONES
from meanmax.models.build import build_model
from meanmax.models.node_model import NodeModel
from meanmax.models.peer_model import PeerModel
from meanmax.models.peers import PEERS, build_peer
from meanmax.models.trainable import Trainable

__all__ = [
    "BACKBONES",
    "PEERS",
    "NodeModel",
    "PeerModel",
    "Trainable",
    "build_model",
    "build_peer",
]
