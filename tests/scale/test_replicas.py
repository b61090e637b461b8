"""Processes that share the batches of an epoch and average their gradients."""

import os
import subprocess
import sys

import pytest
import torch

from meanmax import NodeClassifier
from meanmax.scale.sampling import Draws
from meanmax.train import LabeledNodes
from tests.scale.launch import on_ranks
from tests.scale.replicated import classifier, resumed, shares, source, trained

CLUSTERS = {"kind": "clusters", "parts": 4, "parts_per_batch": 2, "cut": "blocks"}
NEIGHBOURS = {"kind": "neighbours", "fanout": (4, 3), "batch_size": 9}
EVERYTHING = {"kind": "clusters", "parts": 1}


def same(first, second, tolerance=0.0):
    assert first.keys() == second.keys()
    for name, value in first.items():
        torch.testing.assert_close(second[name], value, rtol=tolerance, atol=tolerance)


def test_shares_go_round_and_epochs_are_drawn_together():
    first, second = on_ranks(shares, 2, 5)
    assert first[0] == [0, 2, 4] and second[0] == [1, 3, 0]
    assert first[1] == second[1]
    assert Draws().share([7, 8]) == [7, 8]


def test_equal_batches_train_as_one_process_does():
    alone = trained(None, EVERYTHING, 4, 0.0)
    for found in on_ranks(trained, 2, EVERYTHING, 4, 0.0):
        same(alone[0], found[0], 1e-6)
        torch.testing.assert_close(torch.tensor(found[1]), torch.tensor(alone[1]))
        torch.testing.assert_close(torch.tensor(found[2]), torch.tensor(alone[2]))


def test_two_batches_make_one_step_along_their_mean():
    """One epoch of two batches: a step of Adam along the mean gradient of both."""
    given = source()
    settings = classifier(1, 0.0, "none").settings()
    torch.manual_seed(0)
    model = settings.build_model(given.num_features, 4, num_nodes=None, graph=given.whole[1])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    x = given.scaled(given.scaling())
    half = trained_batches(x, given)
    sum(nodes.loss(model.train()(part, graph)) for part, graph, nodes in half).div(2).backward()
    optimizer.step()
    first, second = on_ranks(
        trained, 2, CLUSTERS | {"parts": 2, "parts_per_batch": 1}, 1, 0.0, "none"
    )
    same(first[0], second[0])
    same(model.state_dict(), first[0], 1e-5)


def trained_batches(x, given):
    """The two halves, as blocks make them."""
    from meanmax.scale import Batches

    nodes = LabeledNodes(given.split.train, torch.from_numpy(given.y)[given.split.train])
    how = Batches("clusters", 2, 1, "blocks")
    problem = how.problem(x, given.edges, nodes, None, layers=2)
    samples = [problem.sample([0], 2), problem.sample([1], 2)]
    return [(sample.x, sample.graph, sample.nodes) for sample in samples]


def test_replicas_end_with_the_same_model_and_resume(tmp_path):
    for number, batches in enumerate((CLUSTERS, NEIGHBOURS)):
        plain = on_ranks(trained, 2, batches, 6, 0.5)
        again = on_ranks(resumed, 2, batches, tmp_path / f"state{number}")
        same(plain[0][0], plain[1][0])
        for before, after in zip(plain, again, strict=True):
            same(before[0], after[0])
            assert before[1:] == after[1:]


@pytest.mark.extra
def test_the_command_under_torchrun(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    command += ["2", "-m", "meanmax", "train", "--data", "karate", "--batches", "clusters"]
    command += ["--parts", "4", "--parts-per-batch", "1", "--cut", "blocks", "--out", "m.zip"]
    done = subprocess.run(
        [*command, "--set", "epochs=5"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "MEANMAX_RANK_TIMEOUT": "600"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("accuracy on test nodes") == 1
    assert NodeClassifier.load(tmp_path / "m.zip").history_.epochs == 5
    assert [path.name for path in tmp_path.iterdir()] == ["m.zip"]
