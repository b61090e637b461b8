r"""Training of models: the loop and its parts, and a classifier around them."""

from meanmax.train.classifier import NodeClassifier
from meanmax.train.files import Checkpoint, CheckpointError
from meanmax.train.loop import TrainingError, evaluate, train
from meanmax.train.problem import Nodes, Problem, Sample
from meanmax.train.schedule import History, Schedule

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
