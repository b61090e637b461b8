r"""Training of models: the loop, one :func:`fit` for all kinds of data, classifiers and regressors
of nodes and of graphs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meanmax.train.checkpoint import Checkpoint, CheckpointError
    from meanmax.train.classifier import GraphClassifier, NodeClassifier
    from meanmax.train.loading import load_model
    from meanmax.train.loop import TrainingError, evaluate, train
    from meanmax.train.problem import LabeledNodes, Sample, TrainingProblem
    from meanmax.train.regressor import GraphRegressor, NodeRegressor
    from meanmax.train.schedule import History, Schedule
    from meanmax.train.settings import Settings, SettingsError

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "GraphClassifier",
    "GraphRegressor",
    "History",
    "LabeledNodes",
    "NodeClassifier",
    "NodeRegressor",
    "Sample",
    "Schedule",
    "Settings",
    "SettingsError",
    "TrainingError",
    "TrainingProblem",
    "evaluate",
    "load_model",
    "train",
]

# Imported at first use: settings and stored rows need no PyTorch.
_MODULES = {
    "checkpoint": ("Checkpoint", "CheckpointError"),
    "classifier": ("GraphClassifier", "NodeClassifier"),
    "loading": ("load_model",),
    "loop": ("TrainingError", "evaluate", "train"),
    "problem": ("LabeledNodes", "Sample", "TrainingProblem"),
    "regressor": ("GraphRegressor", "NodeRegressor"),
    "schedule": ("History", "Schedule"),
    "settings": ("Settings", "SettingsError"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            globals()[name] = value = getattr(import_module(f"meanmax.train.{module}"), name)
            return value
    raise AttributeError(f"module 'meanmax.train' has no attribute {name!r}")
