from __future__ import annotations

import pytest
import torch

from meanmax import build_model
from meanmax.train import Schedule, train
from meanmax.train.loop import Steps
from tests.train.problems import small


def model(aggr="softmax", **options):
    torch.manual_seed(0)
    return build_model("gcn", aggr, 5, 8, 3, dropout=0.0, **options)


def watched(steps):
    r"""Notes which optimiser steps, and what it moves."""
    seen = []
    for name in ("main", "side"):
        optimizer = getattr(steps, name)
        if optimizer is not None:
            optimizer.register_step_post_hook(lambda *_, name=name: seen.append(name))
    return seen


def test_alternating_steps_on_the_parameter_then_on_the_weights():
    problem, net = small(), model()
    steps = Steps(net, Schedule(schedule="alternating", aggregator_steps=2, weight_steps=3))
    seen = watched(steps)
    steps(problem.samples[0], None)
    assert seen == ["side", "side", "main", "main", "main"]


def test_each_side_is_held_while_the_other_moves():
    problem, net = small(), model()
    steps = Steps(net, Schedule(schedule="alternating", aggregator_lr=0.1))
    weights = [weight.detach().clone() for weight in steps.weights]
    with torch.no_grad():
        gamma = net.learned()["layers.0.gamma"].clone()
    steps.side.register_step_post_hook(
        lambda *_: [
            torch.testing.assert_close(a, b, rtol=0, atol=0)
            for a, b in zip(steps.weights, weights, strict=True)
        ]
    )
    steps(problem.samples[0], None)
    after = net.learned()["layers.0.gamma"]
    assert after != gamma
    assert all(weight.requires_grad for weight in net.parameters())


@pytest.mark.parametrize("schedule", ["joint", "alternating"])
@pytest.mark.parametrize("aggr, start, linear", [("lp", 3.0, 1.0), ("poly", 2.0, 0.0)])
def test_a_penalty_pulls_the_parameter_to_the_linear_end(schedule, aggr, start, linear):
    problem, gradients, losses = small(), [], []
    for decay in (0.0, 0.5):
        net = model(aggr, aggr_options={"start": start})
        steps = Steps(net, Schedule(schedule=schedule, aggregator_decay=decay))
        optimizer = steps.side or steps.main
        (raw,) = net.aggregator_parameters()
        optimizer.register_step_pre_hook(lambda *_, raw=raw: gradients.append(float(raw.grad)))
        losses.append(steps(problem.samples[0], None))
    assert gradients[1] - gradients[0] == pytest.approx(0.5 * (start - linear), rel=1e-4)
    if schedule == "joint":
        assert losses[0] == losses[1], "the history has the loss without it"


def test_the_parameter_descends_the_loss_it_is_told_to():
    problem = small()
    gradients = {}
    for part, sample in (("train", problem.samples[0]), ("val", problem.val)):
        net = model()
        sample.nodes.loss(net(sample.x, sample.graph)).backward()
        gradients[part] = float(net.aggregator_parameters()[0].grad)
    for part, gradient in gradients.items():
        net = model()
        schedule = Schedule(schedule="alternating", aggregator_loss=part, aggregator_lr=0.5)
        Steps(net, schedule)(problem.samples[0], problem.val)
        moved = float(net.learned()["layers.0.gamma"]) - 1.0
        assert moved == pytest.approx(-0.5 * gradient, rel=1e-4)
    assert gradients["train"] != pytest.approx(gradients["val"])


def test_the_parameters_gradient_is_cut():
    problem, net = small(), model()
    schedule = Schedule(schedule="alternating", aggregator_clip=1e-3, aggregator_lr=1.0)
    Steps(net, schedule)(problem.samples[0], None)
    moved = abs(float(net.aggregator_parameters()[0].detach()) - 1.0)
    assert 0 < moved <= 1.001e-3


def test_a_baseline_makes_the_same_steps_in_both_schedules():
    weights = []
    for kind in ("joint", "alternating"):
        net = model(None)
        train(net, small(), Schedule(epochs=4, schedule=kind, weight_steps=2))
        weights.append(net.state_dict())
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name]), name


def test_a_fixed_parameter_takes_no_steps_of_its_own():
    net = model("lp", aggr_options={"learn": False})
    steps = Steps(net, Schedule(schedule="alternating"))
    assert steps.side is None
    steps(small().samples[0], None)
    assert float(net.learned()["layers.0.p"]) == 2.0


@pytest.mark.parametrize("kind", ["joint", "alternating"])
@pytest.mark.parametrize("aggr, options", [(None, {}), ("lp", {"aggr_options": {"learn": False}})])
def test_a_limit_on_gradients_that_are_not_there_changes_nothing(kind, aggr, options):
    weights = []
    for clip in (None, 3.0):
        net = model(aggr, **options)
        train(net, small(), Schedule(epochs=2, schedule=kind, aggregator_clip=clip))
        weights.append(net.state_dict())
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name]), name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "'epochs' must be a whole number from 1 on"),
        ({"weight_steps": 1.5}, "'weight_steps' must be a whole number"),
        ({"lr": float("nan")}, "'lr' must be a number and not negative"),
        ({"aggregator_clip": -1.0}, "'aggregator_clip' must be a number"),
        ({"schedule": "both"}, "'schedule' must be one of 'joint', 'alternating'"),
        ({"select": "test"}, "'select' must be one of 'loss', 'score', 'both'"),
        ({"aggregator_loss": "val"}, "needs schedule='alternating'"),
    ],
)
def test_wrong_schedules_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Schedule(**options)


def test_the_validation_loss_for_the_parameter_needs_validation_nodes():
    problem = small()
    alone = type(problem)(problem.samples)
    schedule = Schedule(schedule="alternating", aggregator_loss="val")
    with pytest.raises(ValueError, match="needs validation nodes"):
        train(model(), alone, schedule)
