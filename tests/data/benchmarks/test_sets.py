import numpy as np
import pytest
import scipy.special
import torch

from meanmax import functional
from meanmax.data import fingerprint, load, make_split, statistics
from meanmax.data.benchmarks.sets import TRUTH, sets
from meanmax.data.files import DataError


def neighbours(dataset):
    """The features of the in-neighbours of each node, in float64."""
    x = dataset.x[:, 0].double().numpy()
    found = [[] for _ in x]
    for source, target in dataset.edge_index.t().tolist():
        found[target].append(x[source])
    return [np.array(each) for each in found]


# Written down again, one node at a time.
FORMULAS = {
    "lp": lambda z, low: np.linalg.norm(z, 3),
    "poly": lambda z, low: np.average(z - low, weights=(z - low) ** 2) + low,
    "softmax": lambda z, low: scipy.special.softmax(1.5 * z) @ z,
    "min": lambda z, low: min(z),
    "max": lambda z, low: max(z),
    "logsumexp": lambda z, low: scipy.special.logsumexp(z),
    "kth": lambda z, low: sorted(z)[-2],
}


def test_every_target_is_checked():
    assert FORMULAS.keys() == TRUTH.keys()


@pytest.mark.parametrize("target", FORMULAS)
def test_the_target_is_the_aggregate_of_the_neighbours(target):
    dataset = sets(target, 300, seed=1)
    low = dataset.x.double().min().item()
    want = [FORMULAS[target](z, low) for z in neighbours(dataset)]
    np.testing.assert_allclose(dataset.y, want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("target", "aggregate"),
    [
        ("lp", lambda x, graph: functional.lp(x, graph, 3.0, sign="abs")),
        ("poly", lambda x, graph: functional.polynomial(x, graph, 2.0)),
        ("softmax", lambda x, graph: functional.softmax(x, graph, 1.5)),
        ("max", functional.max),
    ],
)
def test_the_aggregator_of_the_notes_is_exact(target, aggregate):
    dataset = sets(target, 300, seed=2)
    out = aggregate(dataset.x.double(), dataset.graph())
    torch.testing.assert_close(out[:, 0], dataset.y.double(), rtol=1e-6, atol=1e-6)


def test_neighbours():
    dataset = sets(nodes=2000, degree=7)
    sizes = torch.bincount(dataset.edge_index[1], minlength=2000)
    assert (sizes.min(), sizes.max()) == (2, 12)
    assert sizes.double().mean().item() == pytest.approx(7, abs=0.3)
    found = statistics(dataset)
    assert found.directed and found.self_loops == 0
    assert dataset.edge_index.unique(dim=1).size(1) == dataset.edge_index.size(1)
    assert sets(nodes=20, degree=2).edge_index.size(1) == 40


def test_it_is_a_regression():
    dataset = load("sets:target=lp,nodes=100")
    assert (dataset.task, dataset.x.shape) == ("regression", (100, 1))
    split = make_split(dataset)
    assert split.name == "random, seed 0" and split.train.numel() == 60


def test_options_and_seed():
    dataset = load("sets:target=poly, nodes=1e2,degree=4,seed=3")
    assert dataset.name == "sets:target=poly,nodes=100,degree=4,seed=3"
    assert fingerprint(load(dataset.name)) == fingerprint(dataset)
    assert fingerprint(sets("poly", 100, 4, seed=4)) != fingerprint(dataset)
    assert load("sets").num_nodes == 2000
    # The same graph and features for all targets.
    assert torch.equal(sets("max", 100, 4, seed=3).edge_index, dataset.edge_index)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("target=mean", "'target' of 'sets' must be one of lp, poly, .*got 'mean'"),
        ("degree=1", "'degree' of 'sets' must be between 2"),
        ("nodes=30,degree=10", "'nodes' of 'sets' must be between 40 .*distinct"),
        ("seed=-1", "'seed'"),
        ("nodes=many", "option 'nodes' of 'sets' must be a number .got 'many'"),
        ("size=3", "no option 'size'; it takes target, nodes"),
    ],
)
def test_what_cannot_be_drawn_is_refused(options, message):
    with pytest.raises(DataError, match=message):
        load(f"sets:{options}")
