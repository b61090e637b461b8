r"""Training, and a classifier in the manner of scikit-learn."""

from meanmax.training.classifier import NodeClassifier
from meanmax.training.loop import History, Nodes, Schedule, TrainingError, train

__all__ = ["History", "NodeClassifier", "Nodes", "Schedule", "TrainingError", "train"]
