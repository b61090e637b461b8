import io
import json
import zipfile

import numpy as np
import pytest
import torch
from torch_geometric.datasets import PPI

from meanmax.data import load, make_split, statistics
from meanmax.data.benchmarks.ppi import read_ppi
from meanmax.data.files import DataError

from ..mutate import only_clear_errors
from ..real import FOLDER, needs
from ..test_files import npy, npz


def release(seed=0):
    """A release with 3 training graphs, 1 to validate and 2 to test, as members of the zip."""
    random = np.random.default_rng(seed)
    members, first_graph = {}, 1
    for role, sizes in {"train": (5, 4, 6), "valid": (7,), "test": (4, 5)}.items():
        ids = np.repeat(np.arange(len(sizes)) + first_graph, sizes)
        first_graph += len(sizes)
        pairs = [(u, v) for u in range(ids.size) for v in range(ids.size) if ids[u] == ids[v]]
        links = [pair for pair in pairs if random.random() < 0.6]
        links = sorted({*links, *((v, u) for u, v in links)})
        graph = {
            "directed": True,
            "multigraph": False,
            "graph": {},
            "nodes": [{"id": node} for node in range(ids.size)],
            "links": [{"source": u, "target": v} for u, v in links],
        }
        members[f"{role}_graph.json"] = json.dumps(graph).encode()
        members[f"{role}_feats.npy"] = npy(random.standard_normal((ids.size, 3)))
        members[f"{role}_labels.npy"] = npy(random.integers(2, size=(ids.size, 4)))
        members[f"{role}_graph_id.npy"] = npy(ids)
    return members


def zipped(members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def test_the_release_is_read_as_pyg_reads_it(tmp_path):
    members = release()
    (tmp_path / "raw").mkdir()
    for name, content in members.items():
        (tmp_path / "raw" / name).write_bytes(content)
    theirs = [graph for role in ("train", "val", "test") for graph in PPI(tmp_path, role)]
    ours = read_ppi("ppi", {"ppi.zip": zipped(members)})
    assert ours.num_graphs == len(theirs) == 6
    x = torch.cat([graph.x for graph in theirs])
    train = x[:15]
    want = (x - train.mean(0)) / train.std(0, correction=0)
    torch.testing.assert_close(ours.x, want, rtol=1e-4, atol=1e-5)
    assert torch.equal(ours.y, torch.cat([graph.y for graph in theirs]))
    edges = set()
    for first, graph in zip(ours.graph_ptr.tolist(), theirs, strict=False):
        edges |= {(first + u, first + v) for u, v in graph.edge_index.t().tolist()}
    assert edges == {(u, v) for u, v in ours.edge_index.t().tolist()}
    assert ours.edge_index.size(1) == len(edges)


def test_the_split_is_by_graph():
    split = make_split(read_ppi("ppi", {"ppi.zip": zipped(release())}))
    assert split.train.tolist() == list(range(15))
    assert split.val.tolist() == list(range(15, 22))
    assert split.test.tolist() == list(range(22, 31))


def rebuilt(**changes):
    arrays = {
        "features": np.array([[1, 0], [0, 0], [1, 0], [1, 1], [0, 0]], np.uint8),
        "labels": np.array([[1], [0], [0], [1], [1]], np.uint8),
        "edges": np.array([[0, 1], [1, 1], [3, 2]], np.int32),
        "graph_id": np.array([1, 1, 2, 2, 3], np.int16),
        "split": np.array([0, 0, 1, 1, 2], np.int8),
    }
    return npz(**(arrays | changes))


def test_the_rebuilt_variant():
    dataset = read_ppi("ppi-go", {"ppi_go.npz": rebuilt()})
    assert dataset.graph_ptr.tolist() == [0, 2, 4, 5]
    assert dataset.edge_index.t().tolist() == [[1, 0], [0, 1], [3, 2], [2, 3]]
    # The second feature is constant on the training graphs: only centred.
    assert dataset.x.tolist() == [[1, 0], [-1, 0], [1, 0], [1, 1], [-1, 0]]


WRONG = {
    "edge between graphs": {"edges": np.array([[0, 2]])},
    "edge to nobody": {"edges": np.array([[0, 5]])},
    "half an edge": {"edges": np.array([0, 1])},
    "graph divided": {"split": np.array([0, 1, 1, 1, 2])},
    "fourth part": {"split": np.array([0, 0, 1, 1, 3])},
    "unsorted graphs": {"graph_id": np.array([2, 2, 1, 1, 3])},
    "label 2": {"labels": np.full((5, 1), 2)},
    "NaN": {"features": np.full((5, 2), np.nan)},
    "beyond float32": {"features": np.array([[0.0, 1], [1, 0], [0, 1e200], [0, 1], [1, 1]])},
    "squares beyond float64": {
        "features": np.array([[0.0, 1], [1, 1e300], [0, 1], [0, 1], [1, 1]])
    },
    "rows missing": {"features": np.zeros((4, 2))},
    "text": {"labels": np.full((5, 1), "a")},
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_content_is_refused(case):
    with pytest.raises(DataError, match="ppi_go"):
        read_ppi("ppi-go", {"ppi_go.npz": rebuilt(**WRONG[case])})


def test_damaged_files():
    def parse(content):
        return read_ppi("ppi-go", {"ppi_go.npz": content})

    assert only_clear_errors(parse, rebuilt(), 300) > 150
    members = release()
    graph = members["train_graph.json"]

    def parse_release(content):
        return read_ppi("ppi", {"ppi.zip": zipped(members | {"train_graph.json": content})})

    assert only_clear_errors(parse_release, graph, 300) > 100

    def parse_archive(content):
        return read_ppi("ppi", {"ppi.zip": content})

    assert only_clear_errors(parse_archive, zipped(members), 300) > 100


@needs("ppi_go.npz")
def test_counts():
    dataset = load("ppi-go", data_dir=FOLDER, download=False)
    found = statistics(dataset)
    assert (found.graphs, found.nodes, found.classes, found.features) == (24, 56944, 121, 50)
    split = make_split(dataset)
    assert [part.numel() for part in (split.train, split.val, split.test)] == [44906, 6514, 5524]
    torch.testing.assert_close(dataset.x[split.train].mean(0), torch.zeros(50), rtol=0, atol=1e-5)
