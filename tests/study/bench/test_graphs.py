import numpy as np
import pytest
import torch

from meanmax.study.bench import graphs
from meanmax.study.bench.graphs import (
    GraphError,
    GraphSource,
    find_amazon,
    generate_folder,
    power_law_graph,
    read_amazon_graph,
)

from .small import write_amazon


def dense(graph):
    out = torch.zeros(graph.num_nodes, graph.num_nodes)
    source, target = graph.edge_index
    return out.index_put((target, source), graph.edge_weight, accumulate=True)


def test_power_law_graph_is_simple_and_symmetric():
    graph = power_law_graph(300, 3000, seed=1)
    assert (graph.num_nodes, graph.num_edges) == (300, 3000)
    codes = graph.edge_index[0] * 300 + graph.edge_index[1]
    assert codes.unique().numel() == 3000
    assert torch.equal(dense(graph), dense(graph).T)
    assert bool((dense(graph).diagonal() > 0).all())


def test_power_law_graph_has_hubs():
    degree = power_law_graph(2000, 30_000).rowptr.diff()
    assert degree.max() > 8 * degree.float().mean()


def test_seed_decides():
    same = [power_law_graph(50, 300, seed=seed).col for seed in (3, 3, 4)]
    assert torch.equal(same[0], same[1])
    assert not torch.equal(same[0], same[2])


@pytest.mark.parametrize("nodes, edges", [(50, 49), (10, 100)])
def test_impossible_sizes(nodes, edges):
    with pytest.raises(GraphError, match="change --nodes or --edges"):
        power_law_graph(nodes, edges)


@pytest.mark.parametrize("nodes, edges", [(1, 1), (2, 2), (30, 247)])
def test_smallest_and_densest(nodes, edges):
    assert edges - 1 <= power_law_graph(nodes, edges).num_edges <= edges


def test_amazon_becomes_undirected_with_self_loops(tmp_path):
    source, note = find_amazon(write_amazon(tmp_path).parent)
    assert note == ""
    graph = source.load()
    weights = {(0, 0): 1 / 2, (1, 1): 1 / 3, (2, 2): 1 / 2, (3, 3): 1.0}
    weights |= {pair: 6**-0.5 for pair in ((0, 1), (1, 0), (1, 2), (2, 1))}
    want = torch.zeros(4, 4)
    for pair, value in weights.items():
        want[pair] = value
    torch.testing.assert_close(dense(graph), want)


@pytest.mark.parametrize(
    "changes",
    [
        {"adj_indptr": None},
        {"adj_shape": np.array([4, 5])},
        {"adj_indices": np.array([1, 2, 9])},
        {"adj_data": np.array(["x", None, 1], dtype=object)},
    ],
)
def test_bad_arrays(tmp_path, changes):
    with pytest.raises(GraphError, match="download it again or point --data-dir elsewhere"):
        read_amazon_graph(write_amazon(tmp_path, **changes))


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 broken"])
def test_bad_file(tmp_path, content):
    path = tmp_path / "amazon_electronics_computers.npz"
    path.write_bytes(content)
    with pytest.raises(GraphError, match="amazon_electronics_computers.npz is not a graph"):
        GraphSource("real", path=str(path)).load()


def test_missing_file(tmp_path):
    source, note = find_amazon(tmp_path)
    assert source is None
    assert note.endswith("amazon_electronics_computers.npz does not exist")


@pytest.mark.parametrize("directed", [False, True])
def test_a_graph_in_many_buckets(tmp_path, monkeypatch, directed):
    monkeypatch.setattr(graphs, "CHUNK", 1 << 11)
    folder = generate_folder(tmp_path / "g", 3000, 20_000, channels=5, directed=directed, seed=3)
    folder.verify()
    data = folder.dataset()
    source, target = data.edge_index
    codes = 3000 * target + source
    assert bool((codes.diff() > 0).all())  # grouped by target, sources ascending, none twice
    assert bool((source != target).all())
    backward = (3000 * source + target).sort().values
    assert torch.equal(backward, codes) == (not directed)
    assert 18_000 < folder.manifest.num_edges <= 20_000
    degree = torch.bincount(target, minlength=3000)
    assert int(degree.max()) > 8 * float(degree.double().mean())
    sets = [folder.split.train, folder.split.val, folder.split.test]
    together = torch.cat(sets)
    assert together.unique().numel() == together.numel()
    assert sorted(path.name for path in (tmp_path / "g").iterdir()) == sorted(
        ["manifest.json", *(f"{name}.npy" for name in folder.manifest.arrays)]
    )


def test_the_seed_decides_on_disk(tmp_path):
    names = [generate_folder(tmp_path / str(n), 500, 2000, seed=n % 2) for n in range(3)]
    prints = [folder.manifest.fingerprint for folder in names]
    assert prints[0] == prints[2] != prints[1]


@pytest.mark.parametrize("sizes", [(1, 0), (10, -1), (10, 50)])
def test_impossible_sizes_on_disk(tmp_path, sizes):
    with pytest.raises(GraphError, match="has between 0 and"):
        generate_folder(tmp_path / "g", *sizes)
    assert list(tmp_path.iterdir()) == []


def test_no_edges_at_all(tmp_path):
    folder = generate_folder(tmp_path / "g", 40, 0, channels=3)
    assert folder.manifest.num_edges == 0 and folder.edges.rowptr.tolist() == [0] * 41
