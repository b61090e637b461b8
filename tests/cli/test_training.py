"""meanmax train --batches, data pack, and predict from a graph folder."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner

from meanmax import NodeClassifier
from meanmax.cli import main
from meanmax.data import load, make_split
from meanmax.scale import open_folder

from .killing import epochs_before_the_kill

CLUSTERS = ("--batches", "clusters", "--parts", "4", "--parts-per-batch", "2", "--cut", "blocks")
NEIGHBOURS = ("--batches", "neighbours", "--fanout", "3,-1", "--batch-size", "5")
QUICK = ("--set", "epochs=6", "--set", "hidden=8")


def invoke(*args):
    return CliRunner().invoke(main, [str(arg) for arg in args])


def fine(*args):
    result = invoke(*args)
    assert result.exit_code == 0, result.output
    return result


def message(*args):
    result = invoke(*args)
    assert result.exit_code != 0 and isinstance(result.exception, SystemExit), result.exception
    return " ".join(result.stderr.split())


def weights(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.endswith(".npy")}


@pytest.mark.parametrize("how", [CLUSTERS, NEIGHBOURS], ids=["clusters", "neighbours"])
def test_scores_are_those_of_the_whole_graph(tmp_path, how):
    out = tmp_path / "m.zip"
    threads = torch.get_num_threads()
    result = fine("train", "--data", "wine", "--aggr", "lp", *how, *QUICK, "--out", out, "--json")
    facts, dataset = json.loads(result.stdout), load("wine")
    assert torch.get_num_threads() == threads and list(tmp_path.iterdir()) == [out]
    model, split = NodeClassifier.load(out), make_split(dataset)
    for name in ("train", "val", "test"):
        nodes = getattr(split, name)
        score = 100 * model.score(dataset.graph(), dataset.x, dataset.y, nodes)
        assert facts[f"{name}_score"] == pytest.approx(score)
    assert facts["batches"]["kind"] == how[1] == model.about_["batches"]["kind"]
    assert facts["epochs"] == 6 and facts["maxness"].keys() == {"layers.0", "layers.1"}


def test_packed_trained_and_predicted(tmp_path):
    folder, out, table = tmp_path / "g", tmp_path / "m.zip", tmp_path / "p.csv"
    packed = fine("data", "pack", "karate", folder, "--parts", "4", "--cut", "blocks")
    assert packed.stdout == f"34 nodes and 156 edges in {folder}\n"
    assert "there already" in message("data", "pack", "karate", folder)
    fine("train", "--data", folder, "--parts-per-batch", "2", *QUICK, "--out", out)
    result = fine("predict", out, "--data", folder, "--out", table, "--all")
    assert "training nodes included" in result.stdout
    rows = pd.read_csv(table).set_index("id")
    dataset, model = load("karate"), NodeClassifier.load(out)
    chance = model.predict_proba(dataset.graph(), dataset.x)
    names = [f"probability_{name}" for name in model.class_names_]
    np.testing.assert_allclose(rows.loc[np.arange(34), names].to_numpy(), chance, atol=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g", "m.zip", "p.csv"]


def test_clear_errors(tmp_path):
    folder, out = tmp_path / "g", ("--out", tmp_path / "m.zip")
    fine("data", "pack", "karate", folder, "--parts", "4", "--cut", "blocks")
    train = ("train", *out, *QUICK)
    assert "40 parts, none of them empty" in message(
        *train, "--data", "karate", "--batches", "clusters", "--parts", "40"
    )
    assert "'fanout' has 1 hops, but the model has 2 layers" in message(
        *train, "--data", "karate", "--batches", "neighbours", "--fanout", "5"
    )
    assert "such as 10,10 (got 'ten')" in message(
        *train, "--data", "karate", "--batches", "neighbours", "--fanout", "ten"
    )
    assert "cut into 4 parts already" in message(*train, "--data", folder, "--parts", "3")
    assert "leave out --split" in message(*train, "--data", folder, "--split", "balanced")
    assert "does not go with --distributed" in message(
        *train, "--data", "karate", "--distributed", *CLUSTERS
    )
    assert "whole graph" in message(*train, "--data", "karate", "--backbone", "cat", *CLUSTERS)
    (folder / "col.npy").write_bytes(b"\x93NUMPY")
    assert "col.npy is truncated or damaged" in message(*train, "--data", folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g"]


@pytest.mark.parametrize("kind", ["clusters", "neighbours", "folder"])
def test_killed_and_resumed_is_bit_for_bit_the_same(tmp_path, kind):
    source, how = "wine", CLUSTERS if kind == "clusters" else NEIGHBOURS
    if kind == "folder":
        source, how = tmp_path / "g", ("--parts-per-batch", "2")
        fine("data", "pack", "wine", source, "--parts", "4", "--cut", "blocks")
    args = ("--data", source, *how, "--set", "epochs=120", "--set", "patience=120")
    fine("train", *args, "--out", tmp_path / "whole.zip")
    out, state = tmp_path / "killed.zip", tmp_path / "killed.zip.checkpoint"
    kept = epochs_before_the_kill(state, *args, "--out", out)
    assert 0 < kept < 120 and not out.exists()
    result = fine("train", *args, "--out", out)
    assert f"resuming from {state}" in result.stderr
    assert weights(out) == weights(tmp_path / "whole.zip")
    assert not state.exists()
    left = [path.name for path in tmp_path.iterdir() if "scratch" in path.name]
    assert len(left) <= 1  # what the killed process could not delete


def test_a_checkpoint_of_other_batches_is_refused(tmp_path):
    out = ("--data", "karate", "--out", tmp_path / "m.zip", *QUICK)
    state = tmp_path / "m.zip.checkpoint"
    fine("train", *out, *CLUSTERS)
    from meanmax.train import Checkpoint

    Checkpoint(state, run="other").write({})
    said = message("train", *out, "--force", *CLUSTERS)
    assert "checkpoint" in said and "delete or move it" in said


def test_a_folder_opens_by_the_name_it_was_packed_under(tmp_path):
    fine("data", "pack", "karate", tmp_path / "g", "--split", "balanced", "--split-seed", "3")
    folder, dataset = open_folder(tmp_path / "g", verify=True), load("karate")
    split = make_split(dataset, "balanced", 3)
    assert torch.equal(folder.split.test, split.test) and folder.part_ptr is None
