"""Compares a model with its accelerated copy: outputs and all gradients."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

import meanmax
from tests.nn.graphs import awkward_edges, features

CHANNELS = 6


def leaves(values):
    """Copies of the floating-point tensors among arguments, which get gradients."""
    if isinstance(values, Tensor):
        learns = values.is_floating_point() and values.layout == torch.strided
        return values.detach().clone().requires_grad_() if learns else values
    if isinstance(values, tuple | list):
        return type(values)(leaves(value) for value in values)
    return values


def flat(values):
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from flat(value)


def assert_same(plain, *args, fast=None, train=True, tolerance=1e-5, **options):
    """The accelerated copy gives what the model gives. Returns that copy."""
    plain = plain.train(train)
    if fast is None:
        fast = meanmax.accelerate(copy.deepcopy(plain))
    assert all(row.by for row in meanmax.accelerated(fast)), meanmax.accelerated(fast)
    sides = []
    for model in (plain, fast):
        torch.manual_seed(0)
        given, named = leaves(args), {name: leaves(value) for name, value in options.items()}
        out = model(*given, **named)
        factor = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
        inputs = [x for x in flat([*given, *named.values()]) if x.requires_grad]
        learned = [p for p in model.parameters() if p.requires_grad]
        if out.requires_grad and out.numel():
            grads = torch.autograd.grad(
                (out * factor).sum(), [*inputs, *learned], allow_unused=True
            )
        else:
            grads = ()
        sides.append([out, *grads])
    assert len(sides[0]) == len(sides[1])
    for expected, found in zip(*sides, strict=True):
        if expected is None:
            assert found is None or not found.any()
            continue
        assert found.dtype == expected.dtype
        scale = max(1.0, float(expected.detach().abs().max()) if expected.numel() else 1.0)
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance * scale)
    return fast


def example(dtype=torch.float32):
    return features(CHANNELS, dtype=dtype), awkward_edges()
