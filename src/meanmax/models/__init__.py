r"""Models by name: a backbone, an aggregator, any depth."""

from meanmax.models.backbones import BACKBONES
from meanmax.models.build import build_model
from meanmax.models.node_model import NodeModel

__all__ = ["BACKBONES", "NodeModel", "build_model"]
