"""The competitors compute what they are named for."""

import pytest
import torch

from meanmax.study.bench.competitors import COMPETITORS, FORWARD, PASSES, TRAIN, Inputs
from meanmax.study.bench.graphs import power_law_graph


@pytest.fixture(scope="module")
def inputs():
    return Inputs(power_law_graph(40, 200), channels=3, dtype=torch.float64)


@pytest.fixture(scope="module")
def adjacency(inputs):
    source, target = inputs.ends
    matrix = torch.zeros(40, 40, dtype=torch.float64)
    return matrix.index_put((target, source), inputs.graph.weight.double())


def run(name, inputs):
    return COMPETITORS[name].prepare(inputs)


def same(got, want, tolerance=1e-6):  # the graph's weights are float32
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", COMPETITORS)
def test_both_passes_are_finite(name, inputs):
    passes = run(name, inputs)
    assert tuple(passes) == PASSES
    out, grads = passes[FORWARD](), passes[TRAIN]()
    assert out.shape == inputs.x.shape
    assert not out.requires_grad
    assert all(bool(torch.isfinite(t).all()) for t in (out, *grads))


@pytest.mark.parametrize("name", ["linear-numba", "linear-torch"])
def test_linear_products(name, inputs, adjacency):
    passes = run(name, inputs)
    same(passes[FORWARD](), adjacency @ inputs.x)
    same(passes[TRAIN]()[-1], adjacency.T @ inputs.grad)


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("gamma, name, scale", [(1.0, "softmax", 1), (22.0, "exact", 3)])
def test_softmax(inputs, adjacency, backend, gamma, name, scale):
    z = scale * inputs.x  # [sources, channels]
    share = torch.softmax(adjacency.log()[:, :, None] + gamma * z[None], dim=1)
    same(run(f"{name}-{backend}", inputs)[FORWARD](), (share * z[None]).sum(1), 1e-5)


@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_maximum_beside_pyg(inputs, backend):
    same(run(f"max-{backend}", inputs)[FORWARD](), run("pyg-max", inputs)[FORWARD]())


def test_pyg_has_the_same_neighbours(inputs, adjacency):
    neighbours = (adjacency > 0).double()
    same(run("pyg-sum", inputs)[FORWARD](), neighbours @ inputs.x)
    mean = neighbours @ inputs.x.abs().clamp(1e-4, 100) ** 2 / neighbours.sum(1, keepdim=True)
    same(run("pyg-powermean", inputs)[FORWARD](), mean.sqrt(), 1e-4)


@pytest.mark.parametrize("name", ["lp-numba", "softmax-torch", "pyg-softmax", "pyg-powermean"])
def test_parameter_gets_a_gradient(name, inputs):
    _, theta = run(name, inputs)[TRAIN]()
    assert theta.numel() == 1
    assert float(theta.abs()) > 0
