"""Settings files of one's own."""

from __future__ import annotations

import pytest

from meanmax.study.runs.row import Row
from meanmax.study.settings.settings import SettingsError, read_rules, settings_for


@pytest.fixture
def written(tmp_path):
    def write(text, name="mine.toml"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def test_rules_of_ones_own_win_over_those_of_the_base(written):
    name = written(
        'base = "published"\n[default]\nlr = 1\n'
        '[[rule]]\nwhen = { aggr = ["lp"], data = ["cora"] }\nstart = 3.5\nhidden = 16\n'
    )
    given = settings_for(name, "gcn", "lp", "cora")
    base = settings_for("published", "gcn", "lp", "cora")
    assert given == {**base, "lr": 1.0, "start": 3.5, "hidden": 16}
    assert type(given["lr"]) is float  # as an equal run of another file has it
    assert settings_for(name, "gcn", "lp", "photo")["start"] == base["start"]
    assert settings_for(name, "gat", "none", "cora")["lr"] == 1.0


def test_a_file_may_stand_alone(written):
    assert settings_for(written("[default]\nlr = 0.5\n"), "gcn", "none", "cora") == {"lr": 0.5}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr = 0.1\n", "does not have the expected form: a settings file has a"),
        ("[[rule]]\nwhen = {}\n", "does not have the expected form"),
        ('base = "default"\n[[rule]]\nlr = 0.1\n', "does not have the expected form"),
        ('base = "default"\n[[rule]]\nwhen = { aggr = "lp" }\n', "does not have the expected form"),
        (
            'base = "default"\n[[rule]]\nwhen = { set = ["lp"] }\n',
            "does not have the expected form",
        ),
        ('base = "best"\n', "must be one of published, default"),
        ("[default\n", "cannot be read"),
        ("a." * 30_000 + "a = 1\n", "cannot be read .a key has more than 50 parts"),
        ("lr = " + "9" * 5000, "cannot be read"),
        ('base = "default"\n[default]\nlrr = 0.1\n', "did you mean 'lr'"),
        ('base = "default"\n[default]\nlr = "fast"\n', "'lr' must be of type float"),
        ('base = "default"\n[default]\nhidden = 1.5\n', "'hidden' must be of type int"),
        ('base = "default"\n[default]\nepochs = true\n', "'epochs' must be of type int"),
    ],
)
def test_wrong_files_say_what_to_do(written, text, message):
    with pytest.raises(SettingsError, match=message):
        settings_for(written(text), "gcn", "lp", "cora")


def test_names_that_are_none():
    with pytest.raises(SettingsError, match="one of published, default, graphs, or a file"):
        read_rules("best")
    with pytest.raises(SettingsError, match="there is no settings file 'best.toml'"):
        read_rules("best.toml")


def test_the_former_name_of_the_default_settings_is_known(written):
    new = settings_for("default", "gcn", "lp", "wine")
    assert settings_for("tuned", "gcn", "lp", "wine") == new
    assert settings_for(written('base = "tuned"\n'), "gcn", "lp", "wine") == new
    facts = {"status": "ok", "settings_name": "tuned", "key": "k", "data": "wine", "data_hash": "d"}
    facts |= {"split": "random", "split_seed": 0, "split_hash": "s", "seed": 0, "settings": new}
    row = Row.from_dict({**facts, "backbone": "gcn", "aggr": "lp"})
    assert row.settings_name == "default"
