r"""Training of models: the loop and its parts, and a classifier around them."""

from meanmax.training.checkpoint import Checkpoint, CheckpointError
from meanmax.training.classifier import NodeClassifier
from meanmax.training.history import History
from meanmax.training.loop import evaluate, train
from meanmax.training.nodes import Nodes
from meanmax.training.problem import Problem, Sample
from meanmax.training.schedule import Schedule
from meanmax.training.steps import TrainingError

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "History",
    "NodeClassifier",
    "Nodes",
    "Problem",
    "Sample",
    "Schedule",
    "TrainingError",
    "evaluate",
    "train",
]
