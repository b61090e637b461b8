from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from meanmax import NodeClassifier
from meanmax.cli import main
from meanmax.data import load, make_split

from ..killing import epochs_before_the_kill

QUICK = ("--set", "epochs=8", "--set", "hidden=8")


def invoke(*args):
    return CliRunner().invoke(main, ["train", *map(str, args)])


def assert_message(result, *parts):
    assert result.exit_code != 0
    assert isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    text = " ".join(result.stderr.split())
    assert all(part in text for part in parts), text


def arrays(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.endswith(".npy")}


def test_a_model_is_trained_and_saved(tmp_path):
    out = tmp_path / "model.zip"
    threads = torch.get_num_threads()
    result = invoke("--data", "wine", "--aggr", "lp", "--out", out, "--json", *QUICK)
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert list(tmp_path.iterdir()) == [out]
    assert torch.get_num_threads() == threads
    model = NodeClassifier.load(out)
    dataset = load("wine")
    split = make_split(dataset)
    for name, nodes in (("train", split.train), ("val", split.val), ("test", split.test)):
        score = 100 * model.score(dataset.graph(), dataset.x, dataset.y, nodes)
        assert facts[f"{name}_score"] == pytest.approx(score)
    assert facts["learned"] == {"layers.0.p": [float(model.model_.learned()["layers.0.p"])]}
    assert facts["maxness"].keys() == {"layers.0", "layers.1"}
    assert (facts["epochs"], facts["best_epoch"]) == (8, model.history_.best_epoch)
    assert facts["settings"]["start"] == 1.05
    assert model.about_["spec"]["data_hash"] == facts["data_hash"]
    assert model.class_names_ == dataset.class_names


def test_a_model_without_the_graph(tmp_path):
    out = tmp_path / "model.zip"
    result = invoke("--data", "wine", "--backbone", "mlp", "--out", out, "--json", *QUICK)
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert (facts["aggr"], facts["learned"], facts["maxness"]) == ("none", {}, {})
    model, dataset = NodeClassifier.load(out), load("wine")
    found = model.predict_proba(dataset.graph(), dataset.x)
    assert np.array_equal(found, model.predict_proba([[], []], dataset.x))
    asked = ("--backbone", "mlp", "--aggr", "softmax")
    result = invoke("--data", "wine", *asked, "--out", tmp_path / "other.zip", *QUICK)
    assert_message(result, "mlp+softmax: backbone 'mlp' ignores the edges", "aggr=None")


def test_the_table_and_the_lines_on_the_way(tmp_path):
    result = invoke("--data", "karate", "--out", tmp_path / "m", "--set", "epochs=20")
    assert result.exit_code == 0, result.output
    rows = [line.split("│")[1:3] for line in result.stdout.splitlines() if line.startswith("│")]
    rows = {name.strip(): value.strip() for name, value in rows}
    assert rows["learned"].startswith("gamma 0.")
    assert rows["best epoch"].endswith(" of 20")
    assert rows["accuracy on test nodes"].endswith(" %")
    lines = result.stderr.splitlines()
    assert len(lines) == 10 and lines[0].startswith("epoch 2/20: loss 1."), lines
    history = NodeClassifier.load(tmp_path / "m").history_
    gamma = history.learned["layers.0.gamma"][1][0]
    assert lines[0].endswith(f"validation {100 * history.val_score[1]:.1f} %, gamma {gamma:.3f}")


def test_seeds_and_settings_count(tmp_path):
    def losses(*more):
        assert invoke("--data", "karate", "--out", tmp_path / "m", "--force", *QUICK, *more).stdout
        return NodeClassifier.load(tmp_path / "m").history_.val_loss

    first = losses()
    assert losses() == first
    assert losses("--seed", 1) != first
    assert losses("--split-seed", 1) != first
    assert losses("--set", "lr=0.02") != first
    assert losses("--settings", "published") != first


def test_settings_without_effect_are_named(tmp_path):
    more = ("--set", "aggregator_loss=val", "--set", "heads=4", "--set", "skip=none")
    result = invoke("--data", "karate", "--out", tmp_path / "m", *QUICK, *more)
    assert result.exit_code == 0, result.output
    assert "no effect on gcn+softmax with these settings: aggregator_loss, heads\n" in result.stderr


def test_labels_of_test_nodes_are_not_seen(tmp_path):
    rng = np.random.default_rng(0)
    np.savetxt(tmp_path / "edges.csv", rng.integers(0, 40, (90, 2)), "%d", ",")
    weights = []
    for garbled in (False, True):
        lines = ["id,f,g,label,split"]
        for node in range(40):
            label, part = node % 2, ("train", "val", "test")[node // 14]
            label = 1 - label if garbled and part == "test" and node < 36 else label
            lines.append(f"{node},{node % 2 + 0.1 * node},{node % 5},c{label},{part}")
        (tmp_path / "nodes.csv").write_text("\n".join(lines) + "\n")
        result = invoke("--data", tmp_path, "--out", tmp_path / f"{garbled}.zip", *QUICK)
        assert result.exit_code == 0, result.output
        weights.append(arrays(tmp_path / f"{garbled}.zip"))
    assert weights[0] == weights[1]


def test_without_validation_nodes_all_epochs_are_made(tmp_path):
    nodes = "id,f,label,split\n" + "".join(f"n{i},{i % 3},c{i % 2},train\n" for i in range(6))
    (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "edges.csv").write_text("source,target\nn0,n1\nn2,n3\n")
    result = invoke("--data", tmp_path, "--out", tmp_path / "m.zip", "--json", *QUICK)
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert (facts["val_score"], facts["test_score"], facts["best_epoch"]) == (None, None, 7)
    assert "no validation nodes: training runs through all epochs" in result.stderr


def test_curves_for_tensorboard(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logs = tmp_path / "logs"
    result = invoke("--data", "karate", "--out", tmp_path / "m", "--tensorboard", logs, *QUICK)
    assert result.exit_code == 0, result.output
    events = EventAccumulator(str(logs))
    events.Reload()
    history = NodeClassifier.load(tmp_path / "m").history_
    written = [event.value for event in events.Scalars("loss/val")]
    np.testing.assert_allclose(written, history.val_loss, rtol=1e-6)


def test_missing_tensorboard(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    result = invoke("--data", "karate", "--out", tmp_path / "m", "--tensorboard", tmp_path / "logs")
    assert_message(result, "pip install 'meanmax[tensorboard]'")
    assert list(tmp_path.iterdir()) == []


def test_a_split_that_trains_on_one_class_is_named(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,f,label,split\n1,1,a,train\n2,2,a,train\n3,3,b,val\n")
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n2,3\n")
    result = invoke("--data", tmp_path, "--out", tmp_path / "m.zip", *QUICK)
    assert_message(result, "split 'own' of", "trains on the one class 'a'")


def test_a_model_is_not_overwritten_unasked(tmp_path):
    (tmp_path / "m.zip").write_text("precious")
    result = invoke("--data", "karate", "--out", tmp_path / "m.zip", *QUICK)
    assert_message(result, "m.zip' exists: choose another --out, or give --force")
    assert (tmp_path / "m.zip").read_text() == "precious"
    assert invoke("--data", "karate", "--out", tmp_path / "m.zip", "--force", *QUICK).exit_code == 0
    NodeClassifier.load(tmp_path / "m.zip")


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (("--data", "karat"), ("no data set 'karat'", "did you mean 'karate'")),
        (("--data", "karate", "--set", "lrr=1"), ("no setting 'lrr'", "did you mean 'lr'")),
        (("--data", "karate", "--set", "lr=-1"), ("'lr' must be a number and not negative",)),
        (("--data", "karate", "--split", "amazon"), ("too few", "'balanced'")),
        (("--data", "karate", "--split", "fair"), ("'scheme' must be one of citation",)),
        (("--data", "karate", "--aggr", "median"), ("no aggregator 'median'", "softmax")),
        (("--data", "karate", "--backbone", "gat", "--set", "hidden=9"), ("multiple of 'heads'",)),
        (("--data", "karate", "--backbone", "cat", "--aggr", "pyg-softmax"), ("PyG has no layer",)),
        (("--data", "karate", "--directed"), ("'directed' is for graphs of your own",)),
        ((), ("Missing option '--data'",)),
    ],
)
def test_errors_say_what_to_do(args, parts, tmp_path):
    assert_message(invoke(*args, "--out", tmp_path / "m.zip"), *parts)
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written(tmp_path):
    args = ("--data", "karate", *QUICK, "--out")
    assert_message(invoke(*args, tmp_path / "no" / "m.zip"), "there is no folder")
    assert_message(invoke(*args, tmp_path), "is a folder: give --out the name of a file")
    for name in ("m" * 250, "m" * 300):
        assert_message(invoke(*args, tmp_path / name), "File name too long")
    if Path("/proc/self").exists():  # its permissions say that anybody who is root may write
        assert_message(invoke(*args, "/proc/m.zip"), "'/proc/m.zip' cannot be written")
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    state = tmp_path / "m.zip.checkpoint"
    state.write_bytes(b"not a checkpoint")
    args = ("--data", "karate", *QUICK, "--out", tmp_path / "m.zip")
    assert_message(invoke(*args), "checkpoint", "is damaged: delete or move it to start over")
    assert state.exists() and not (tmp_path / "m.zip").exists()
    assert invoke(*args, "--no-checkpoint").exit_code == 0
    assert state.exists()


@pytest.mark.parametrize("keeps", [True, False])
def test_after_an_interruption_only_what_is_kept_resumes(keeps, tmp_path, monkeypatch):
    def interrupted(*args, checkpoint, **kwargs):
        if checkpoint is not None:
            checkpoint.path.write_bytes(b"a state")
        raise KeyboardInterrupt

    monkeypatch.setattr(NodeClassifier, "fit", interrupted)
    kept = [] if keeps else ["--no-checkpoint"]
    result = invoke("--data", "karate", "--out", tmp_path / "m.zip", *kept)
    assert result.exit_code == 1 and "Stopped." in result.stderr
    assert ("same command resumes" in result.stderr) == keeps


def test_killed_and_resumed_is_bit_for_bit_the_same(tmp_path):
    args = ("--data", "wine", "--set", "epochs=200", "--set", "patience=200", "--set", "hidden=8")
    assert invoke(*args, "--out", tmp_path / "whole.zip").exit_code == 0
    out, state = tmp_path / "killed.zip", tmp_path / "killed.zip.checkpoint"
    args = (*args, "--out", out)
    kept = epochs_before_the_kill(state, *args)
    assert 0 < kept < 200 and not out.exists()

    result = invoke(*args)
    assert result.exit_code == 0, result.output
    assert f"resuming from {state}" in result.stderr
    lines = [line for line in result.stderr.splitlines() if line.startswith("epoch")]
    assert len(lines) == 10 - kept // 20
    assert arrays(out) == arrays(tmp_path / "whole.zip")
    whole, killed = (NodeClassifier.load(tmp_path / name) for name in ("whole.zip", "killed.zip"))
    assert killed.history_.val_loss == whole.history_.val_loss
    assert killed.history_.learned == whole.history_.learned
    assert not state.exists()


FOLDER = "{folder}"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--parts", 3), "--parts has no effect without --batches clusters: leave it out"),
        (("--parts-per-batch", 3), "--parts-per-batch has no effect without --batches clusters"),
        (("--fanout", 3), "--fanout has no effect without --batches neighbours"),
        (("--batch-size", 9, "--fanout", "3,3"), "--fanout, --batch-size have no effect without"),
        (("--batches", "clusters", "--fanout", "3,3"), "--fanout has no effect without"),
        (("--batches", "neighbours", "--parts", 3), "--parts has no effect without"),
        (("--cut", "blocks"), "--cut has no effect without --distributed or --batches clusters"),
        (
            ("--batches", "neighbours", "--fanout", "3,3,3"),
            "has 3 hops, but the model has 2 layers",
        ),
        (("--data", FOLDER, "--split-seed", 1), "--split-seed has no effect on a graph folder"),
        (("--data", FOLDER, "--directed"), "--directed has no effect on a graph folder"),
        (("--data", FOLDER, "--cut", "metis"), "--cut has no effect on a graph folder that is cut"),
    ],
)
def test_options_without_effect_are_refused(args, message, tmp_path):
    if FOLDER in args:
        folder = tmp_path / "packed"
        packed = ("data", "pack", "wine", str(folder), "--parts", "2", "--cut", "blocks")
        assert CliRunner().invoke(main, packed).exit_code == 0
        args = tuple(folder if arg == FOLDER else arg for arg in args)
    source = () if "--data" in args else ("--data", "karate")
    assert_message(invoke(*source, *args, *QUICK, "--out", tmp_path / "m.zip"), message)
    assert not (tmp_path / "m.zip").exists()


def test_lack_of_memory_is_a_sentence(tmp_path):
    out = ("--out", tmp_path / "model.zip")
    result = invoke("--data", "karate", *out, "--set", "hidden=100000000000000")
    assert_message(result, "there is not enough memory for this: choose a smaller model")


def test_threads_have_a_bound(tmp_path):
    """OpenMP ends the process where it cannot start that many."""
    result = invoke("--data", "karate", "--out", tmp_path / "m.zip", "--threads", 1000000)
    assert result.exit_code == 2 and "1000000 is not in the range 1<=x<=1024" in result.stderr
