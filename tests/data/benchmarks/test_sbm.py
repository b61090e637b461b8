import numpy as np
import pytest
import torch

from meanmax.data import load, statistics
from meanmax.data.benchmarks.sbm import sbm
from meanmax.data.dataset import fingerprint
from meanmax.data.files import DataError


def test_counts_are_exact():
    dataset = sbm(503, 4001, classes=5, features=7)
    found = statistics(dataset)
    assert (found.nodes, found.edges, found.features, found.classes) == (503, 4001, 7, 5)
    assert (found.self_loops, found.directed) == (0, False)
    assert torch.bincount(dataset.y).tolist() == [101, 101, 101, 100, 100]
    source, target = dataset.edge_index
    assert torch.equal((target * 503 + source).sort().values, target * 503 + source)


@pytest.mark.parametrize("homophily", [0.0, 0.3, 1.0])
def test_homophily(homophily):
    found = statistics(sbm(3000, 20_000, homophily=homophily))
    assert found.homophily == pytest.approx(homophily, abs=0.02)


def test_degrees_are_spread_as_in_a_random_graph():
    dataset = sbm(2000, 20_000, seed=5)
    degree = torch.bincount(dataset.edge_index[1], minlength=2000).double()
    assert degree.var() / degree.mean() == pytest.approx(1.0, abs=0.15)  # Poisson


def test_features_carry_the_class():
    dataset = sbm(4000, 100, classes=2, features=3, signal=2.0, seed=1)
    means = torch.stack([dataset.x[dataset.y == number].mean(0) for number in range(2)])
    assert means.norm(dim=1).tolist() == pytest.approx([2.0, 2.0], abs=0.1)
    rest = dataset.x - means[dataset.y]
    assert rest.var(0).tolist() == pytest.approx([1.0] * 3, abs=0.1)


def test_the_seed_fixes_everything():
    first, again, other = (fingerprint(sbm(100, 300, seed=seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_many_chunks_give_a_graph_too(monkeypatch):
    monkeypatch.setattr("meanmax.data.benchmarks.sbm._CHUNK", 64)
    found = statistics(sbm(200, 1000))
    assert (found.edges, found.self_loops) == (1000, 0)


def test_a_dense_graph_is_completed():
    assert statistics(sbm(40, 97, classes=4, homophily=1.0)).edges == 97


def test_options_as_text():
    dataset = load("sbm:nodes=1e3, edges=2000,homophily=0.5,seed=3")
    assert fingerprint(dataset) == fingerprint(sbm(1000, 2000, homophily=0.5, seed=3))
    assert dataset.name == (
        "sbm:nodes=1000,edges=2000,classes=4,features=16,homophily=0.5,signal=1,seed=3"
    )
    assert fingerprint(load(dataset.name)) == fingerprint(dataset)
    assert load("sbm").num_nodes == 1000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("nodes=5", "'nodes' of 'sbm' must be between 12"),
        ("nodes=100,edges=1000", "'edges' of 'sbm' must be between 0 and 618"),
        ("nodes=1e9,edges=1e9", "between 0 and 100,000,000"),
        ("classes=1", "'classes'"),
        ("homophily=2", "'homophily'"),
        ("homophily=nan", "'homophily'"),
        ("seed=-1", "'seed'"),
        ("nodes=many", "option 'nodes' of 'sbm' must be a number .got 'many'"),
        ("nodes=inf", "option 'nodes'"),
        ("size=3", "no option 'size'; it takes nodes, edges"),
    ],
)
def test_what_cannot_be_drawn_is_refused(options, message):
    with pytest.raises(DataError, match=message):
        load(f"sbm:{options}")


def test_no_edges():
    assert sbm(12, 0).edge_index.shape == (2, 0)
    assert np.isfinite(sbm(12, 0).x.numpy()).all()
