"""Files of classifiers: earlier ones, others, damaged ones."""

from __future__ import annotations

import json
import random
import stat
import zipfile

import numpy as np
import pytest

from meanmax import NodeClassifier
from meanmax.data import load, make_split


@pytest.fixture(scope="module")
def karate():
    dataset = load("karate")
    split = make_split(dataset)
    return dataset.graph(), dataset.x, dataset.y, split.train, split.val


@pytest.fixture
def saved(karate, tmp_path):
    model = NodeClassifier(hidden=4, epochs=3, schedule_options={"select": "score"}).fit(*karate)
    model.save(tmp_path / "model.zip", about={"data": "karate"})
    return model, tmp_path / "model.zip"


def changed(path, change):
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    facts = json.loads(entries["facts.json"])
    entries["facts.json"] = json.dumps(change(facts))
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def test_what_was_said_comes_back(saved):
    model, path = saved
    again = NodeClassifier.load(path)
    assert again.about_ == {"data": "karate"}
    assert again.schedule_options == {"select": "score"}
    assert again.class_names_ == ("0", "1", "2", "3")
    again.save(path)
    assert NodeClassifier.load(path).about_ == {"data": "karate"}


def test_files_of_the_first_version_are_read(saved, karate):
    model, path = saved

    def as_before(facts):
        del facts["class_names"], facts["about"]
        del facts["params"]["schedule_options"], facts["params"]["batch_graphs"]
        return facts

    changed(path, as_before)
    again = NodeClassifier.load(path)
    graph, x = karate[:2]
    np.testing.assert_array_equal(again.predict_proba(graph, x), model.predict_proba(graph, x))
    assert (again.about_, again.batch_graphs, again.class_names_[3]) == ({}, 2, "3")


def test_files_of_a_later_version_are_refused(saved):
    _, path = saved
    changed(path, lambda facts: facts | {"params": facts["params"] | {"depth": 3}})
    with pytest.raises(ValueError, match=r"another version of meanmax \(unknown: depth\)"):
        NodeClassifier.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: [facts],
        lambda facts: {"format": facts["format"]},
        lambda facts: facts | {"params": 3},
        lambda facts: facts | {"params": facts["params"] | {"hidden": 5}},
        lambda facts: facts | {"params": facts["params"] | {"backbone": "gnn"}},
        lambda facts: facts | {"classes": [0]},
        lambda facts: facts | {"history": {"epochs": 3}},
        lambda facts: facts | {"about": 7},
        lambda facts: facts | {"n_features_in": 33},
    ],
)
def test_facts_that_do_not_fit_are_damage(saved, change):
    _, path = saved
    changed(path, change)
    with pytest.raises(ValueError, match="was not saved by meanmax, or is damaged"):
        NodeClassifier.load(path)


def test_features_and_their_scaling_have_one_number(saved):
    _, path = saved
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name in entries:
            other = "model/layers.0.bias.npy" if name == "mean.npy" else name
            archive.writestr(name, entries[other])
    with pytest.raises(ValueError, match=r"its mean has the shape \[4\], but it declares"):
        NodeClassifier.load(path)


def test_random_damage_is_a_clear_error_or_none(saved):
    _, path = saved
    whole = path.read_bytes()
    rng, refused = random.Random(0), 0
    for _ in range(60):
        broken = bytearray(whole)
        for _ in range(rng.choice((1, 20))):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        path.write_bytes(broken[: rng.choice((len(broken), rng.randrange(len(broken))))])
        try:
            NodeClassifier.load(path)
        except ValueError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > 40


def test_others_may_read_the_file_as_the_umask_says(saved, tmp_path):
    plain = tmp_path / "plain"
    plain.touch()
    _, path = saved
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
