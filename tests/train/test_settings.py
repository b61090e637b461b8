from __future__ import annotations

import subprocess
import sys

import pytest

from meanmax import NodeClassifier
from meanmax.train import Schedule, Settings, SettingsError
from meanmax.train.settings import AGGREGATOR, KINDS, MODEL, OBJECTIVE, SCHEDULE


def test_every_setting_is_in_one_group():
    groups = [*MODEL, *AGGREGATOR, *SCHEDULE, *OBJECTIVE, "scale", "batch_graphs"]
    assert sorted(groups) == sorted(KINDS)


def test_stored_form_has_only_what_is_given_and_matters():
    given = {"lr": 1, "per": "head", "heads": 4, "start": 2.0, "sign": "abs", "norm": None}
    settings = Settings.from_dict("gcn", "softmax", given)
    assert settings.to_dict() == {"lr": 1.0, "per": "layer", "start": 2.0}
    assert Settings.from_dict("gcn", "softmax", settings.to_dict()) == settings
    assert Settings.from_dict("gat", "none", given).to_dict() == {"heads": 4, "lr": 1.0}


def test_wrong_settings_are_refused():
    with pytest.raises(SettingsError, match="did you mean 'weight_decay'"):
        Settings.from_dict("gcn", "lp", {"weight_deacy": 0.0})
    with pytest.raises(SettingsError, match="'layers' must be of type int"):
        Settings.from_dict("gcn", "lp", {"layers": 2.0})
    with pytest.raises(ValueError, match="'batch_graphs' must be a positive integer"):
        Settings(batch_graphs=0)
    with pytest.raises(SettingsError, match=r"'metric' must be one of 'accuracy', .*\(got 'auc'"):
        Settings.from_dict("gcn", "lp", {"metric": "auc"})
    with pytest.raises(SettingsError, match="'class_weight' must be one of 'balanced' or None"):
        Settings(class_weight="heavy")


def test_defaults_are_those_of_the_schedule():
    assert Settings().make_schedule() == Schedule()
    assert Settings(lr=0.5).make_schedule() == Schedule(lr=0.5, aggregator_lr=0.5)
    assert Settings(lr=0.5, aggregator_lr=0.1).make_schedule().aggregator_lr == 0.1


def test_a_classifier_has_the_settings_that_it_was_made_from():
    given = {"lr": 0.1, "skip": "linear", "start": 1.5, "select": "score", "scale": True}
    settings = Settings.from_dict("sage", "lp", given | {"pool": True})
    classifier = NodeClassifier.from_settings(settings, seed=3)
    assert classifier.model_options == {
        "aggr_options": {"start": 1.5},
        "pool": True,
        "skip": "linear",
    }
    again = classifier.settings()
    assert (again.skip, again.pool, again.select, again.lr) == ("linear", True, "score", 0.1)
    assert NodeClassifier.from_settings(again, seed=3).get_params() == classifier.get_params()


def test_metric_and_weights_are_stored_only_if_given():
    given = {"metric": "roc_auc", "class_weight": "balanced", "select": "score"}
    for method in (("gcn", "lp"), ("gat", "none"), ("sage", "pyg-softmax")):
        assert Settings.from_dict(*method, given).to_dict() == given
        assert Settings.from_dict(*method, {"metric": None}).to_dict() == {}
    settings = Settings.from_dict("gcn", "lp", given)
    classifier = NodeClassifier.from_settings(settings)
    assert (classifier.metric, classifier.class_weight) == ("roc_auc", "balanced")
    assert classifier.settings().given(OBJECTIVE) == settings.given(OBJECTIVE)


def test_settings_need_no_torch():
    code = "import meanmax.train.settings, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("aggr, kept", [("lp", True), ("none", False), ("pyg-softmax", False)])
def test_only_what_has_a_linear_end_is_pulled_to_it(aggr, kept):
    found = Settings.from_dict("gcn", aggr, {"aggregator_decay": 0.1})
    assert found.to_dict() == ({"aggregator_decay": 0.1} if kept else {})
    frozen = Settings.from_dict("gcn", "lp", {"aggregator_decay": 0.1, "learn": False})
    assert frozen.to_dict() == {"learn": False}


def test_the_extended_family_as_settings():
    given = {"signed": True, "beta": 1, "learn_beta": True, "normalize": "sum"}
    kept = {"signed": True, "beta": 1.0, "learn_beta": True}  # beta takes the place of the form
    for aggr, found in (("lp", kept), ("poly", kept), ("softmax", kept), ("none", {})):
        assert Settings.from_dict("sage", aggr, given).to_dict() == found
    spread = {"beta": 1.0, "learn_beta": True}  # signed in any case
    assert Settings.from_dict("sage", "spread", given).to_dict() == spread
