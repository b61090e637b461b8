"""What must not matter: the numbering of nodes, the order of edges, how a weight is split."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from meanmax import Graph

from .cases import FORMS, every_backend, run
from .strategies import bounded, ordinary_cases

WEIGHTED = [form for form in FORMS if str(form) != "softmax-paper"]


def close(got, want):
    torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-8)


@every_backend
@bounded
@given(data=st.data())
def test_permutation_of_nodes_and_edges(backend, data):
    form, x, index, weight, theta = data.draw(ordinary_cases())
    order = torch.tensor(data.draw(st.permutations(range(len(x)))))
    shuffle = torch.tensor(data.draw(st.permutations(range(index.size(1)))), dtype=torch.long)
    upstream = torch.arange(1.0, x.numel() + 1).view_as(x)
    want = run(form, x, Graph.from_edge_index(index, len(x)), theta, backend, edge_weight=weight,
               upstream=upstream)  # fmt: skip
    place = torch.empty_like(order)
    place[order] = torch.arange(len(x))
    moved = Graph.from_edge_index(place[index][:, shuffle], len(x))
    got = run(form, x[order], moved, theta, backend, edge_weight=weight[shuffle],
              upstream=upstream[order])  # fmt: skip
    close(got.out, want.out[order])
    close(got.grads["x"], want.grads["x"][order])
    close(got.grads["edge_weight"], want.grads["edge_weight"][shuffle])
    close(got.grads["theta"], want.grads["theta"])


@every_backend
@bounded
@given(data=st.data())
def test_an_edge_twice_is_an_edge_of_twice_the_weight(backend, data):
    form, x, index, weight, theta = data.draw(ordinary_cases(WEIGHTED))
    twice = torch.cat([index, index], dim=1)
    want = form(
        x, Graph.from_edge_index(index, len(x)), theta, edge_weight=2 * weight, backend=backend
    )
    both = torch.cat([weight, weight])
    got = form(x, Graph.from_edge_index(twice, len(x)), theta, edge_weight=both,
               backend=backend)  # fmt: skip
    close(got, want)


@every_backend
def test_printed_softmax_counts_edges(backend):
    """Its denominator has no weight: twice the weight doubles it, the edge twice does not."""
    x = torch.tensor([[1.0], [3.0]], dtype=torch.float64)
    printed = next(form for form in FORMS if str(form) == "softmax-paper")
    once, twice = (Graph.from_edge_index([[0, 1] * n, [0, 0] * n], 2) for n in (1, 2))
    single = printed(x, once, 1.0, backend=backend)[0].item()
    assert printed(x, twice, 1.0, backend=backend)[0].item() == pytest.approx(single)
    doubled = printed(x, once, 1.0, edge_weight=torch.full((2,), 2.0), backend=backend)
    assert doubled[0].item() == pytest.approx(2 * single)


@every_backend
@bounded
@given(data=st.data())
def test_means_move_with_the_features(backend, data):
    """Softmax and polynomial are equivariant under a shift and, with gamma, under a scale."""
    forms = [
        form for form in FORMS if str(form) in ("softmax-weighted", "polynomial-weighted-shift")
    ]
    form, x, index, weight, theta = data.draw(ordinary_cases(forms))
    graph = Graph.from_edge_index(index, len(x))
    out = form(x, graph, theta, edge_weight=weight, backend=backend)
    reached = Graph.from_edge_index(index, len(x), weight)
    alive = form(torch.ones_like(x), reached, theta, backend=backend)  # 1 where A > 0, else 0
    close(form(x + 2.5, graph, theta, edge_weight=weight, backend=backend), out + 2.5 * alive)
    tilt = theta / 4 if form.kind == "softmax" else theta
    close(form(4 * x, graph, tilt, edge_weight=weight, backend=backend), 4 * out)
