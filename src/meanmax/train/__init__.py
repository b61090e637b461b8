r"""Training of models: the loop and its parts, and a classifier around them."""

from meanmax.train.checkpoint import Checkpoint, CheckpointError
from meanmax.train.classifier import NodeClassifier
from meanmax.train.loop import TrainingError, evaluate, train
from meanmax.train.problem import LabeledNodes, Sample, TrainingProblem
from meanmax.train.schedule import History, Schedule

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "History",
    "NodeClassifier",
    "LabeledNodes",
    "TrainingProblem",
    "Sample",
    "Schedule",
    "TrainingError",
    "evaluate",
    "train",
]
