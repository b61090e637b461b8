"""The baseline's choice among the candidates of an aggregator: the same model, frozen."""

from __future__ import annotations

import pytest
import torch

from meanmax.data import Dataset, load, make_split
from meanmax.names import LEARNED
from meanmax.study.settings.search import Search, Trial
from meanmax.train import Settings
from meanmax.train.fit import GraphData, fit

from ...train.collection import collection

BACKBONES = ("gcn", "masked_gcn", "gat", "cat", "sage", "gin", "gen")
DEEP = {"layers": 3, "skip": "linear", "norm": "layer", "scale": "standard", "dropout": 0.2}


def directed():
    """A directed graph with weights, negative features and a node without any edge."""
    draw = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 39, (2, 160), generator=draw).unique(dim=1)
    return Dataset(
        "directed",
        torch.randn(40, 6, generator=draw),
        torch.arange(40) % 3,
        edges,
        torch.rand(edges.size(1), generator=draw) + 0.5,
        ("a", "b", "c"),
    )


def trained(dataset, backbone, aggr, settings):
    settings = Settings.from_dict(backbone, aggr, {**settings, "epochs": 5})
    data = GraphData.from_dataset(dataset, make_split(dataset, "balanced", 0), settings)
    model, history = fit(settings, data, seed=3)
    if backbone in ("gat", "cat"):  # attention is dropped too
        assert all(layer.dropout == settings.dropout for layer in model.layers)
    model.eval()
    with torch.no_grad():
        return history, data.problem.val.output(model)


@pytest.mark.parametrize(
    ("dataset", "drawn"), [(load("karate"), {}), (directed(), DEEP)], ids=["karate", "directed"]
)
@pytest.mark.parametrize("backbone", BACKBONES)
def test_the_frozen_candidate_is_the_baseline(backbone, dataset, drawn):
    search = Search(backbone, dataset.name, "accuracy", budget=3)
    base = Trial(0, "none", search.settings("none", drawn))
    assert base.settings["dropout"] > 0
    history, out = trained(dataset, backbone, "none", base.settings)
    for aggr in LEARNED:
        _, frozen = search.contained(base, aggr)
        assert (frozen.settings["learn"], frozen.settings["nonlinear"]) == (False, "first")
        own, found = trained(dataset, backbone, aggr, frozen.settings)
        torch.testing.assert_close(own.val_loss, history.val_loss, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(own.train_loss, history.train_loss, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found, out, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("readout", ["mean", "sum"])
@pytest.mark.parametrize("backbone", ["gcn", "gat", "sage", "gin", "gen"])
def test_the_frozen_candidate_of_graphs_is_the_baseline(backbone, readout):
    peaks = collection()
    search = Search(backbone, peaks.name, "accuracy", budget=3, level="graph")
    drawn = {"layers": 2, "hidden": 32, "readout": readout, "jump": "cat", "norm": "none"}
    base = Trial(0, "none", search.settings("none", drawn))

    def run(aggr, settings):
        own = Settings.from_dict(backbone, aggr, {**settings, "epochs": 3})
        model, history = fit(own, GraphData.from_dataset(peaks, make_split(peaks), own), seed=3)
        return model, torch.tensor(history.train_loss + history.val_loss)

    _, losses = run("none", base.settings)
    for aggr in LEARNED:
        _, frozen = search.contained(base, aggr)
        assert frozen.settings["nonlinear"] == "all" and frozen.settings["readout"] == readout
        model, own = run(aggr, frozen.settings)
        assert any(name.startswith("readout") for name in model.learned())
        torch.testing.assert_close(own, losses, rtol=1e-3, atol=1e-4)


def test_candidates_have_the_baselines_settings_and_those_of_the_aggregator():
    search = Search("gat", "karate", "accuracy", budget=3)
    base = Trial(2, "none", search.settings("none", {**DEEP, "lr": 0.03, "hidden": 32}))
    for aggr, start in (("lp", 1.05), ("poly", 0.1), ("softmax", 0.1)):
        learned, frozen = search.contained(base, aggr)
        assert [learned.number, frozen.number] == [3, 4]
        for one in (learned, frozen):
            assert one.aggr == aggr and base.settings.items() <= one.settings.items()
        assert learned.settings["learn"] is True and learned.settings["start"] == start
        assert frozen.settings["learn"] is False
        assert frozen.settings["start"] == (1.0 if aggr == "lp" else 0.0)
        assert not any(name.startswith("aggregator_") for name in frozen.settings)
    for aggr in ("max", "pna", "pyg-softmax"):
        assert search.contained(base, aggr) == []


@pytest.mark.parametrize("fixed", [{"start": 1.5}, {"learn": True}, {"shift": "paper"}])
def test_what_is_fixed_away_from_the_linear_end_is_not_called_so(fixed):
    search = Search("gcn", "karate", "accuracy", budget=3, fixed=fixed)
    (learned,) = search.contained(search.trials("none")[0], "lp")
    assert fixed.items() <= learned.settings.items()


@pytest.mark.parametrize("aggr", ["lp", "poly", "softmax"])
def test_a_fixed_beta_has_no_baseline_inside(aggr):
    search = Search("gcn", "karate", "accuracy", budget=3, fixed={"beta": 0.5})
    base = Trial(0, "none", search.settings("none", {}))
    (learned,) = search.contained(base, aggr)
    assert learned.settings["beta"] == 0.5 and "normalize" not in learned.settings
