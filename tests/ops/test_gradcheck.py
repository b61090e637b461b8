"""Analytic against numerical derivatives, in float64 on a graph without ties."""

import pytest
import torch
from torch.autograd import gradcheck

from meanmax import Graph

from .cases import LOWER, every_backend, every_form, normal

EDGES = torch.tensor([[0, 1, 2, 3, 4, 1, 1, 2, 3, 4], [0, 0, 0, 1, 1, 2, 2, 2, 4, 3]])
WEIGHT = torch.tensor([0.4, 1.1, 0.3, 0.7, 0.6, 0.9, 1.4, 0.5, 0.8, 1.2], dtype=torch.float64)


def leaf(values):
    return values.double().clone().requires_grad_()


def inputs(form, offset):
    x = leaf(normal(6, 2, seed=11))
    theta = leaf(LOWER[form.kind] + offset + torch.tensor([0.0, 0.4]))
    given = [leaf(x.detach().min() - 0.7)] if form.takes_mu else []
    return x, theta, leaf(WEIGHT), *given


@every_backend
@every_form
def test_with_the_minimum_as_origin(form, backend):
    graph = Graph.from_edge_index(EDGES, 6)
    x, theta, weight, *_ = inputs(form, 1.3)
    assert gradcheck(
        lambda *leaves: form(leaves[0], graph, leaves[1], edge_weight=leaves[2], backend=backend),
        (x, theta, weight),
    )


@pytest.mark.parametrize("offset", [0.1, 2.0])
@every_backend
@every_form
def test_with_a_given_origin(form, backend, offset):
    graph = Graph.from_edge_index(EDGES, 6)

    def aggregate(x, theta, weight, mu=None):
        given = {} if mu is None else {"mu": mu}
        return form(x, graph, theta, edge_weight=weight, backend=backend, **given)

    assert gradcheck(aggregate, inputs(form, offset), fast_mode=True)


@every_backend
@every_form
def test_with_rows_on_the_exact_path(form, backend):
    """Node 5, which no edge leaves, is so large that all rows are lost under a common shift."""
    graph = Graph.from_edge_index(EDGES, 6)
    x, theta, weight, *_ = inputs(form, 2.0)
    far = 400.0 if form.kind == "softmax" else 1e80

    def aggregate(x, theta, weight):
        x = torch.cat([x[:5], torch.full((1, 2), far, dtype=torch.float64)])
        return form(x, graph, theta, edge_weight=weight, backend=backend)

    assert gradcheck(aggregate, (x, theta, weight), fast_mode=True)


@every_backend
@every_form
def test_with_heads(form, backend):
    graph = Graph.from_edge_index(EDGES, 6)
    x, theta = leaf(normal(6, 2, 2, seed=12)), leaf(LOWER[form.kind] + torch.tensor([[0.8], [1.7]]))
    weight = leaf(torch.stack([WEIGHT, WEIGHT.flip(0)], dim=1))
    assert gradcheck(
        lambda *leaves: form(leaves[0], graph, leaves[1], edge_weight=leaves[2], backend=backend),
        (x, theta, weight),
        fast_mode=True,
    )
