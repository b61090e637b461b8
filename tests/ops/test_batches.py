"""Several graphs side by side: each is computed as if it were alone."""

import torch

from meanmax import Graph

from .cases import (
    EVERY_BACKEND,
    LOWER,
    ORDINARY,
    assert_agree,
    assert_outputs_agree,
    both_dtypes,
    default_form,
    every_form,
    fast_backend,
    form_with_mu,
    messy_edges,
    messy_weight,
    normal,
    run,
)

SIZES = (12, 1, 30, 5)
OFFSETS = (0.0, 100.0, -3.0, 20.0)


def parts(dtype):
    """Graphs of different size and features of different level, one without edges."""
    for seed, (size, offset) in enumerate(zip(SIZES, OFFSETS, strict=True)):
        edges = (
            messy_edges(size, 4 * size, seed) if size > 3 else torch.zeros(2, 0, dtype=torch.long)
        )
        graph = Graph.from_edge_index(edges, size, messy_weight(edges).to(dtype))
        yield graph, (offset + normal(size, 4, seed=seed)).to(dtype)


@both_dtypes
@fast_backend
@every_form
def test_agrees_with_the_reference(form, backend, dtype):
    graphs, features = zip(*parts(dtype), strict=True)
    batch, x = Graph.batch(graphs), torch.cat(features)
    theta = torch.full((4,), LOWER[form.kind] + 1.4)
    weight = batch.edge_weight
    want = run(form, x, batch, theta, "reference", edge_weight=weight)
    got = run(form, x, batch, theta, backend, edge_weight=weight)
    assert_agree(got, want, x, ORDINARY[dtype])


@both_dtypes
@every_form
def test_prediction_does_not_depend_on_batch_mates(form, dtype):
    graphs, features = zip(*parts(dtype), strict=True)
    theta = LOWER[form.kind] + 1.4
    upstream = normal(sum(SIZES), 4, seed=9)
    for backend in EVERY_BACKEND:
        together = run(form, torch.cat(features), Graph.batch(graphs), theta, backend,
                       upstream=upstream)  # fmt: skip
        begin = 0
        for graph, x in zip(graphs, features, strict=True):
            here = slice(begin, begin + len(x))
            alone = run(form, x, graph, theta, backend, upstream=upstream[here])
            if backend == "torch":  # its powers round differently at the end of an array
                assert_outputs_agree(together.out[here], alone.out, x, 10 * torch.finfo(dtype).eps)
            else:
                assert torch.equal(together.out[here], alone.out)
            near = ORDINARY[dtype] * alone.grads["x"].norm() + 1e-30
            assert (together.grads["x"][here] - alone.grads["x"]).norm() <= near
            begin += len(x)


@fast_backend
@default_form
def test_extreme_mate_does_no_harm(form, backend):
    edges = messy_edges(12, 40)
    graph = Graph.from_edge_index(edges, 12)
    x, theta = normal(12, 4), LOWER[form.kind] + 3.0
    alone = form(x, graph, theta, backend=backend)
    for level in (1e30, -1e30):
        mates = torch.cat([x, torch.full((12, 4), level)])
        out = form(mates, Graph.batch([graph, graph]), theta, backend=backend)
        # Features of this size are computed in float64, so the last digit may differ.
        torch.testing.assert_close(out[:12], alone, rtol=1e-6, atol=1e-6)


@both_dtypes
@fast_backend
@form_with_mu
def test_each_graph_has_its_own_given_origin(form, backend, dtype):
    graphs, features = zip(*parts(dtype), strict=True)
    x, mu = torch.cat(features), torch.tensor([part.min() - 0.5 for part in features])
    theta = LOWER[form.kind] + 1.4
    upstream = 0.1 + normal(sum(SIZES), 4) ** 2
    want = run(form, x, Graph.batch(graphs), theta, "reference", mu=mu, upstream=upstream)
    got = run(form, x, Graph.batch(graphs), theta, backend, mu=mu, upstream=upstream)
    assert_agree(got, want, x, ORDINARY[dtype])
    assert (want.grads["mu"] == 0).tolist() == [False, True, False, False]
