from __future__ import annotations

import pytest

from meanmax.graph import Graph
from meanmax.nn import BACKBONES
from meanmax.study.settings.settings import (
    KINDS,
    NAMES,
    SettingsError,
    parse_overrides,
    read_rules,
    read_settings,
    settings_for,
)


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_of_the_files_is_known_and_of_its_type(name):
    content = read_rules(name)
    tables = [content["default"], *content["rule"]]
    for table in tables:
        for key, value in table.items():
            if key != "when":
                assert isinstance(value, KINDS[key]), key
    for rule in content["rule"]:
        assert set(rule["when"]) <= {"backbone", "aggr", "data"}


def test_published_is_what_the_paper_and_its_code_give():
    gcn = settings_for("published", "gcn", "softmax", "cora")
    assert (gcn["epochs"], gcn["aggregator_steps"], gcn["weight_steps"]) == (400, 1, 2)
    assert (gcn["lr"], gcn["weight_decay"], gcn["dropout"], gcn["hidden"]) == (0.01, 5e-4, 0.5, 64)
    assert (gcn["aggregator_optimizer"], gcn["aggregator_momentum"]) == ("sgd", 0.9)
    assert (gcn["aggregator_lr"], gcn["aggregator_clip"], gcn["start"]) == (0.01, 3.0, 1.0)
    assert settings_for("published", "gcn", "lp", "photo")["weight_decay"] == 1e-5
    assert settings_for("published", "gcn", "lp", "cora")["start"] == 2.0
    gat = settings_for("published", "gat", "poly", "pubmed")
    assert (gat["heads"], gat["hidden"], gat["dropout"], gat["lr"]) == (8, 64, 0.6, 0.005)
    assert (gat["epochs"], gat["weight_steps"], gat["per"]) == (500, 3, "head")
    ppi = settings_for("published", "gat", "none", "ppi")
    assert (ppi["layers"], ppi["hidden"], ppi["heads"], ppi["out_heads"]) == (3, 1024, 4, 6)
    rebuilt = settings_for("published", "gat", "none", "ppi-go")
    assert (rebuilt["layers"], rebuilt["hidden"], rebuilt["heads"]) == (3, 64, 4)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("aggr", ["none", "lp", "poly", "softmax", "max"])
@pytest.mark.parametrize("data", ["cora", "photo", "ppi-go", "my graph"])
def test_every_combination_can_be_built_and_scheduled(name, backbone, aggr, data):
    settings = read_settings(name, backbone, aggr, data)
    assert settings.to_dict() == settings_for(name, backbone, aggr, data)
    graph = Graph.from_edge_index([[0, 1], [1, 0]], 2)
    level = "graph" if name == "graphs" else "node"
    sizes = {"num_nodes": 2, "graph": graph, "level": level}
    refused = None
    if backbone == "mlp" and aggr != "none" and level == "node":  # else it is in the readout
        refused = "'mlp' ignores the edges and takes no aggregator"
    elif backbone == "cat" and level == "graph":
        refused = "use 'gat' for task='graph'"
    if refused is not None:
        with pytest.raises(ValueError, match=refused):
            settings.build_model(4, 3, **sizes)
        return
    model = settings.build_model(4, 3, **sizes)
    layers = model.encoder.layers if level == "graph" else model.layers
    assert len(layers) == settings.layers
    assert bool(model.learned()) == (aggr in ("lp", "poly", "softmax"))
    assert settings.make_schedule().epochs == settings.epochs


def test_a_baseline_does_not_depend_on_what_is_asked_of_aggregators():
    asked = {"start": 3.0, "aggregator_lr": 1.0, "normalize": "sum", "per": "channel"}
    plain = settings_for("published", "gcn", "none", "cora")
    assert settings_for("published", "gcn", "none", "cora", asked) == plain
    assert settings_for("published", "gcn", "softmax", "cora", asked)["start"] == 3.0
    assert "shift" not in settings_for("published", "gcn", "softmax", "cora")


def test_overrides_are_parsed_by_type():
    given = ["lr=1e-3", "layers=3", "learn=no", "select=both", "aggregator_clip=none"]
    assert parse_overrides(given) == {
        "lr": 0.001,
        "layers": 3,
        "learn": False,
        "select": "both",
        "aggregator_clip": None,
    }


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("lr", "NAME=VALUE"),
        ("weight_deacy=1", "did you mean 'weight_decay'"),
        ("layers=two", "must be a whole number"),
        ("lr=fast", "must be a number"),
        ("learn=maybe", "must be true or false"),
    ],
)
def test_wrong_overrides_say_what_to_do(pair, message):
    with pytest.raises(SettingsError, match=message):
        parse_overrides([pair])


def test_the_ways_to_scale_features():
    assert parse_overrides(["scale=rows"]) == {"scale": "rows"}
    assert parse_overrides(["scale=standard"]) == {"scale": "standard"}
    assert parse_overrides(["scale=yes"]) == {"scale": True}
    assert settings_for("default", "gcn", "none", "karate", {"scale": "rows"})["scale"] == "rows"
    with pytest.raises(SettingsError, match="true or false, or one of rows, standard"):
        parse_overrides(["scale=columns"])
