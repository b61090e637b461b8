r"""Training of models: the loop, one :func:`fit` for all kinds of data, and a classifier."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meanmax.train.checkpoint import Checkpoint, CheckpointError
    from meanmax.train.classifier import NodeClassifier
    from meanmax.train.loop import TrainingError, evaluate, train
    from meanmax.train.problem import LabeledNodes, Sample, TrainingProblem
    from meanmax.train.schedule import History, Schedule
    from meanmax.train.settings import Settings, SettingsError

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "History",
    "LabeledNodes",
    "NodeClassifier",
    "Sample",
    "Schedule",
    "Settings",
    "SettingsError",
    "TrainingError",
    "TrainingProblem",
    "evaluate",
    "train",
]

# Imported at first use: settings and stored rows need no PyTorch.
_MODULES = {
    "Checkpoint": "checkpoint",
    "CheckpointError": "checkpoint",
    "History": "schedule",
    "LabeledNodes": "problem",
    "NodeClassifier": "classifier",
    "Sample": "problem",
    "Schedule": "schedule",
    "Settings": "settings",
    "SettingsError": "settings",
    "TrainingError": "loop",
    "TrainingProblem": "problem",
    "evaluate": "loop",
    "train": "loop",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'meanmax.train' has no attribute {name!r}")
    value = getattr(import_module(f"meanmax.train.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
