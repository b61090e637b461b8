r"""Training of models: the loop and its parts, and a classifier around them."""

from meanmax.train.files import (Checkpoint, CheckpointError)
from meanmax.train.classifier import NodeClassifier
from meanmax.train.history import History
from meanmax.train.loop import (evaluate, train)
from meanmax.train.nodes import Nodes
from meanmax.train.problem import (Problem, Sample)
from meanmax.train.schedule import Schedule
from meanmax.train.steps import TrainingError

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
