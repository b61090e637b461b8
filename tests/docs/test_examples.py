"""Public classes and functions have examples, which run as doctests."""

import inspect
from importlib import import_module

import pytest

PACKAGES = ("", ".aggr", ".data", ".functional", ".graph", ".nn", ".train")
WITHOUT = {
    # bases, protocols, errors, and parts of a training loop, which need a dozen lines
    "LearnableAggregation",
    "TiltedAggregation",
    "Trainable",
    "Checkpoint",
    "CheckpointError",
    "LabeledNodes",
    "Sample",
    "Settings",
    "SettingsError",
    "TrainingError",
    "evaluate",
    "train",
}


def public():
    found = {}
    for package in PACKAGES:
        module = import_module(f"meanmax{package}")
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                found[name] = value
    return found


@pytest.mark.parametrize("name", sorted(set(public()) - WITHOUT))
def test_has_an_example(name):
    value = public()[name]
    members = vars(value).values() if inspect.isclass(value) else ()
    texts = [value.__doc__ or "", *((getattr(one, "__doc__", None) or "") for one in members)]
    assert any(">>>" in text for text in texts)


def test_exceptions_exist():
    assert WITHOUT <= set(public())
