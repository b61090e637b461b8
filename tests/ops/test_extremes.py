"""Large parameters, offsets, outliers and weights: float32 against the reference."""

import pytest
import torch

from meanmax import Graph, functional

from .cases import (
    FORMS,
    LOWER,
    assert_agree,
    assert_norm_close,
    assert_outputs_agree,
    both_dtypes,
    default_form,
    every_backend,
    every_form,
    fast_backend,
    generator,
    messy_edges,
    normal,
    run,
    star,
)

TOL = 1e-4
powers = pytest.mark.parametrize("form", [f for f in FORMS if f.kind != "softmax"], ids=str)
EDGES = messy_edges(40, 240)
GRAPH = Graph.from_edge_index(EDGES, 40)
WEIGHT = 0.1 + torch.rand(EDGES.size(1), generator=generator(7))
UPSTREAM = 0.1 + normal(40, 4, seed=4).abs()
FEATURES = {
    "uniform": 1e4 * (2 * torch.rand(40, 4, generator=generator(8)) - 1),
    "offset": 1e4 + normal(40, 4, seed=9),
    "relu": normal(40, 4, seed=10).relu(),
}


def check(form, x, theta, backend, edge_weight=WEIGHT, graph=GRAPH):
    given = {"edge_weight": edge_weight, "upstream": UPSTREAM}
    want = run(form, x, graph, theta, "reference", **given)
    got = run(form, x, graph, theta, backend, **given)
    # That of gamma is a variance of features and underflows where the maximum stands alone.
    least = 1e-13 * (x.max() - x.min()).item() ** 2 if form.kind == "softmax" else 0.0
    assert_agree(got, want, x, TOL, least)


@pytest.mark.parametrize("theta", [1.0, 20.0, 100.0, 1000.0])
@pytest.mark.parametrize("features", FEATURES)
@fast_backend
@every_form
def test_large_parameters_and_features(form, backend, features, theta):
    check(form, FEATURES[features], torch.full((4,), theta), backend)


@pytest.mark.parametrize("outlier", [0.0, 100.0, 1000.0, 1e8, 1e30, -1e30])
@both_dtypes
@every_backend
def test_unrelated_node(backend, dtype, outlier):
    x, graph = star([0.0, 1.0, 2.0], extra=[outlier], dtype=dtype)
    out = functional.softmax(x, graph, 1.0, backend=backend)
    assert out.item() == pytest.approx(1.5752103826, rel=1e-6)


@pytest.mark.parametrize("weights", ["near one", "24 decades"])
@pytest.mark.parametrize("outlier", [1e2, 1e4, 1e9, -1e2, -1e6])
@fast_backend
@powers
def test_weights_that_learn_beside_an_outlier(form, backend, outlier, weights):
    """Where one neighbour is the mean, its distance from the mean has no digits in float32."""
    x, weight = normal(40, 4), WEIGHT
    x[7] = outlier
    if weights != "near one":
        weight = 10.0 ** (24 * torch.rand(len(WEIGHT), generator=generator(11)) - 12)
    graph = Graph.from_edge_index(EDGES, 40)
    given = {"edge_weight": weight, "upstream": UPSTREAM}
    for theta in (0.5, 3.0, 30.0):
        theta += LOWER[form.kind]
        want = run(form, x.double(), graph, theta, "reference", **given)
        got = run(form, x, graph, theta, backend, **given)
        for name in ("x", "edge_weight"):
            assert_norm_close(got.grads[name], want.grads[name], 1e-3, name)


@pytest.mark.parametrize("exponent", range(8, 36, 3))
@every_backend
@every_form
def test_features_far_apart(form, backend, exponent):
    """The parameter times the features goes up to 1e35; each row has one or two neighbours."""
    graph = Graph.from_edge_index([[0, 1, 2, 2, 3], [0, 0, 1, 2, 2]], 4)
    rows = [[1.0, 0.0], [0.0, 0.0], [0.0, 100.0], [-1.0, 1e-3]]
    for theta in (0.5, 1.0, 3.0, 1e4):
        theta += LOWER[form.kind]
        x = torch.tensor(rows) * torch.tensor([10.0**exponent / theta, 1.0])
        want = run(form, x.double(), graph, theta, "reference", upstream=torch.ones(4, 2))
        got = run(form, x, graph, theta, backend, upstream=torch.ones(4, 2))
        assert torch.isfinite(want.out).all()
        # What cancels where a row has one neighbour, or one that matters.
        far = x.abs().max().double()
        least = 1e-12 * far**2 if form.kind == "softmax" else 1e-5 * far
        assert_agree(got, want, x, TOL, min(least, 1e37))


@fast_backend
@every_form
def test_gradient_on_an_offset(form, backend):
    for theta in (5.0, torch.tensor([2.0, 5.0, 7.0, 9.0])):
        check(form, 1000 + normal(40, 4), theta, backend)


@pytest.mark.parametrize("theta", [1.0, 3.0, 30.0])
@pytest.mark.parametrize("outlier", [1e6, -1e6])
@fast_backend
@every_form
def test_outlier(form, backend, outlier, theta):
    x = normal(40, 4)
    x[7] = outlier
    # The gradients of weights would take differences of neighbours that 1e6 leaves no digits.
    graph = GRAPH.with_weight(WEIGHT)
    check(form, x, torch.full((4,), theta), backend, edge_weight=None, graph=graph)


@pytest.mark.parametrize("size", [1e-20, 1e20])
@fast_backend
@every_form
def test_tiny_and_huge_weights(form, backend, size):
    x, theta, weight = normal(40, 4), torch.tensor([1.0, 2.0, 8.0, 64.0]), WEIGHT * size
    want = run(form, x, GRAPH, theta, "reference", edge_weight=weight, upstream=UPSTREAM)
    got = run(form, x, GRAPH, theta, backend, edge_weight=weight, upstream=UPSTREAM)
    linear = "sum" in str(form) or str(form) == "softmax-paper"
    power = 1 / theta if form.kind == "lp" else torch.full((4,), float(linear))
    unit = (8 * size) ** power.double()  # what the output grows with
    assert_outputs_agree(got.out / unit, want.out / unit, x, TOL)
    for name, grad in got.grads.items():
        assert_norm_close(grad, want.grads[name], TOL, name)


@pytest.mark.parametrize("size", [1e-20, 1e20])
@fast_backend
@every_form
def test_weights_of_very_different_size(form, backend, size):
    weight = torch.where(torch.arange(len(WEIGHT)) % 3 == 0, WEIGHT * size, WEIGHT)
    x, theta = normal(40, 4), torch.tensor([1.0, 2.0, 8.0, 64.0])
    want = run(form, x, GRAPH, theta, "reference", edge_weight=weight, upstream=UPSTREAM)
    got = run(form, x, GRAPH, theta, backend, edge_weight=weight, upstream=UPSTREAM)
    assert_outputs_agree(got.out, want.out, x, TOL)
    assert all(torch.isfinite(grad).all() for grad in got.grads.values())


@fast_backend
@every_form
def test_all_rows_exact(form, backend):
    theta = 22.0 if form.kind == "softmax" else 220.0
    check(form, 3 * normal(40, 4), torch.full((4,), theta), backend)


@fast_backend
@every_form
def test_some_rows_exact(form, backend):
    x = normal(40, 4)
    x[:10] *= 12
    theta = LOWER[form.kind] + torch.tensor([0.0, 1.5, 12.0, 80.0])
    check(form, x, theta, backend)


@both_dtypes
@fast_backend
@default_form
def test_tiny_features(form, backend, dtype):
    """No absolute epsilon swamps them."""
    x = (1e-15 * normal(40, 4)).to(dtype)
    out = [form(x, GRAPH, 3.0, backend=name).double() for name in (backend, "reference")]
    assert_outputs_agree(*out, x, 1e-5)
    assert out[1].abs().max() < 1e-13


@fast_backend
@default_form
def test_approaches_the_maximum(form, backend):
    x = FEATURES["uniform"]
    row = GRAPH.with_weight(WEIGHT / WEIGHT.sum())
    largest = functional.max(x, GRAPH, backend=backend)
    out = form(x, row, 1e6, backend=backend)
    assert ((out - largest).abs() <= 1e-4 * 2e4).all()


# Three rows reach subnormal numbers, of the features or of their quotients by the range.
SUBNORMAL = {
    "far apart": [[1e-40, 2e-42], [0.5, 1e8], [1e-42, 3.0], [1e8, 1e-38]],
    "beside a small range": [[1e-40, 2e-42], [3e-40, 1e-43], [0.0, 0.0], [1e-20, 1e-18]],
    "near the origin": [[0.0, 0.0], [1e-40, 1e-45], [2e-40, 1e-30], [100.0, 1e30]],
}


@pytest.mark.parametrize("theta", [0.0, 0.01, 0.08, 1.0, 3.0])
@pytest.mark.parametrize("features", SUBNORMAL)
@fast_backend
@powers
def test_subnormal_features(form, backend, features, theta):
    """Where a feature's share of the range underflows, so would its power's derivative."""
    x = torch.tensor(SUBNORMAL[features])
    graph = Graph.from_edge_index([[0, 1, 2, 3, 0, 2, 1], [0, 0, 1, 1, 2, 3, 2]], 4)
    theta, upstream = theta + LOWER[form.kind], UPSTREAM[:4, :2]
    want = run(form, x.double(), graph, theta, "reference", upstream=upstream)
    got = run(form, x, graph, theta, backend, upstream=upstream)
    assert_outputs_agree(got.out, want.out, x, TOL)
    fits = want.grads["x"].abs() < 1e37
    assert torch.isfinite(got.grads["x"]).all()
    assert_norm_close(got.grads["x"] * fits, want.grads["x"] * fits, 1e-3, "x", 1e-30)
    least = 1e-5 * x.max().item()
    assert_norm_close(got.grads["theta"], want.grads["theta"], 1e-3, "theta", least)


@fast_backend
@pytest.mark.parametrize("form", [f for f in FORMS if f.kind == "polynomial"], ids=str)
def test_neighbours_at_the_origin_far_below_the_top(form, backend):
    """Their mean is the origin itself, though the channel is measured from its top."""
    low = 0.0 if "abs" in str(form) else -1.9
    x = torch.tensor([[low], [1e9], [0.5], [2e9]], dtype=torch.float64)
    graph = Graph.from_edge_index([[0, 0, 1, 2], [0, 0, 1, 2]], 4)
    weight, upstream = torch.tensor([1.0, 2.0, 1.0, 1.0]), torch.ones(4, 1)
    given = {"edge_weight": weight, "upstream": upstream}
    got = run(form, x, graph, 100.0, backend, **given)
    want = run(form, x, graph, 100.0, "reference", **given)
    assert got.out[0] == want.out[0] == (3 * low if "sum" in str(form) else low)
    assert torch.equal(got.grads["edge_weight"][:2], want.grads["edge_weight"][:2])


@pytest.mark.parametrize("theta", [1.5, 22.0])
@fast_backend
@every_form
def test_a_small_graph_beside_a_large_one(form, backend, theta):
    """Whether float32 has room is judged for each graph of a batch."""
    graph = Graph.batch([GRAPH, GRAPH]).with_weight(WEIGHT.repeat(2))
    x, upstream = torch.cat([normal(40, 4), 1e-40 * normal(40, 4, seed=5)]), UPSTREAM.repeat(2, 1)
    theta += LOWER[form.kind]
    want = run(form, x.double(), graph, theta, "reference", upstream=upstream)
    got = run(form, x, graph, theta, backend, upstream=upstream)
    for part in (slice(40), slice(40, None)):
        assert_outputs_agree(got.out[part], want.out[part], x[part], TOL)
        assert_norm_close(got.grads["x"][part], want.grads["x"][part], 1e-3, "x")


@pytest.mark.parametrize("theta", [1.5, 220.0])
@fast_backend
@every_form
def test_weights_beyond_float32_that_learn(form, backend, theta):
    theta += LOWER[form.kind]
    x, weight = normal(40, 4).double(), 1e-60 * WEIGHT.double()
    given = {"edge_weight": weight, "upstream": UPSTREAM}
    want = run(form, x, GRAPH, theta, "reference", **given)
    got = run(form, x, GRAPH, theta, backend, **given)
    assert_norm_close(got.grads["edge_weight"], want.grads["edge_weight"], 1e-6, "edge_weight")


@fast_backend
@every_form
def test_infinities_of_two_channels(form, backend):
    """What a weight of 0 would change is beyond float32 in both channels, with opposite signs."""
    x, upstream = torch.tensor([[1e10, 1e10], [0.0, 0.0]]), torch.tensor([[1.0, -1.0]] * 2)
    graph = Graph.from_edge_index([[0, 1], [0, 0]], 2)
    weight = torch.tensor([0.0, 1.0])
    got = run(form, x, graph, 1.0, backend, edge_weight=weight, upstream=upstream)
    assert all(torch.isfinite(grad).all() for grad in got.grads.values())


@both_dtypes
@fast_backend
@pytest.mark.parametrize("form", [f for f in FORMS if f.kind == "polynomial"], ids=str)
def test_a_row_near_the_origin_below_the_bulk(form, backend, dtype):
    """The channel is measured from its median, which leaves such a row no digits."""
    x = 1 + 0.05 * normal(40, 1).to(dtype)
    x[:3, 0] = torch.tensor([0.0, 1e-12, 3e-12])
    graph = Graph.from_edge_index([[1, 2, *range(3, 40)], [0, 0, *range(3, 40)]], 40)
    want = run(form, x.double(), graph, 1.0, "reference", upstream=UPSTREAM[:, :1])
    got = run(form, x, graph, 1.0, backend, upstream=UPSTREAM[:, :1])
    assert_norm_close(got.grads["x"], want.grads["x"], 1e-5, "x")
