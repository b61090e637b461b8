import subprocess
import sys

import pytest
import torch
from torch_geometric.data import Data, HeteroData, InMemoryDataset
from torch_geometric.datasets import KarateClub

from meanmax.data import CATALOG, Dataset, fingerprint, load
from meanmax.data.fetch import sources
from meanmax.data.files import DataError

from .real import needs_planetoid, planetoid_contents


def test_embedded_sets_by_name():
    for name, entry in CATALOG.items():
        if entry.kind == "embedded":
            assert load(name).name == name


@pytest.mark.parametrize(
    ("name", "guess"),
    [("coar", "cora"), ("Cora", "cora"), ("pubmet", "pubmed"), ("digit", "digits")],
)
def test_a_misspelt_name_gets_a_suggestion(name, guess):
    with pytest.raises(DataError, match=f"no data set '{name}': did you mean .*'{guess}'"):
        load(name)


def test_an_unknown_name_gets_the_list():
    with pytest.raises(DataError) as caught:
        load("zzz")
    assert "did you mean" not in str(caught.value)
    assert all(name in str(caught.value) for name in CATALOG)


@pytest.fixture
def own(monkeypatch):
    """What the reader of a person's own graphs is asked for."""
    asked = []

    def read_own(path, *, directed=False, one_hot=(), impute=None, task=None, progress=None):
        asked.append(path)
        return load("karate")

    monkeypatch.setattr("meanmax.data.loading.read_own", read_own)
    return asked


@pytest.mark.parametrize("path", ["my_graph/", "a/b", "./cora", "edges.csv", "graph.npz"])
def test_what_looks_like_a_path_is_read_as_a_graph_of_ones_own(own, path):
    assert isinstance(load(path), Dataset)
    assert own == [path]


def test_what_exists_is_a_path_but_names_come_first(own, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "karate"):
        (tmp_path / name).mkdir()
    load("mine")
    load("karate")
    load(tmp_path / "karate")
    assert own == ["mine", tmp_path / "karate"]


@pytest.mark.extra
def test_the_edges_of_ones_own_graph_may_keep_their_direction(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,f,label\na,1,x\nb,2,y\n")
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    assert load(tmp_path, directed=True).edge_index.tolist() == [[0], [1]]
    assert load(tmp_path).edge_index.size(1) == 2


@pytest.mark.parametrize("name", ["karate", "cora", "sbm:nodes=100,edges=300", "sets:"])
def test_directions_of_the_catalogue_are_known(name):
    with pytest.raises(DataError, match="'directed' is for .*; the directions of '.*' are known"):
        load(name, directed=True)


WITHOUT_STUDY = """
import sys
import numpy as np

MODULES = "click rich matplotlib pyarrow pandas platformdirs loky".split()
sys.modules.update(dict.fromkeys(MODULES))  # importing any of them now raises ImportError

from meanmax.data import DataError, load, make_split

assert load("karate").num_nodes == 34
assert make_split(load("sbm")).train.numel() == 80
np.savez("a.npz", edges=[[0, 1]], features=np.eye(2), labels=[0, 1])
assert load("a.npz").num_nodes == 2
try:
    load("folder/")
except DataError as error:
    print(error)
"""


def test_without_the_extra_study(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "nodes.csv").write_text("id,f,label\na,1,x\nb,2,y\n")
    (tmp_path / "folder" / "edges.csv").write_text("a,b\n")
    command = [sys.executable, "-c", WITHOUT_STUDY]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout == (
        "reading a graph from tables, GraphML or JSON needs pyarrow: pip install 'meanmax[study]'\n"
    )


@needs_planetoid
def test_cora_is_downloaded_without_a_lock(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "filelock", None)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("MEANMAX_DATA", raising=False)
    files = planetoid_contents("cora")
    asked = []

    def download(file, folder, progress=None):
        asked.append(file.name)
        return sources.write_verified(folder, file, [files[file.name]], progress)

    monkeypatch.setattr(sources, "download_file", download)
    assert load("cora").num_nodes == 2708
    assert load("cora", download=False).num_nodes == 2708
    assert sorted(asked) == sorted(files)


def pair(**more):
    fields = {"x": torch.tensor([[1.0], [2.0], [4.0]]), "y": torch.tensor([0, 1, 0])}
    return Data(edge_index=torch.tensor([[0, 1], [1, 2]]), **fields, **more)


class Graphs(InMemoryDataset):
    """A data set of PyG in memory."""

    def __init__(self, graphs):
        super().__init__()
        self.data, self.slices = self.collate(graphs)


def test_a_graph_of_pyg():
    dataset = load(pair(train_mask=torch.tensor([True, False, False])))
    assert (dataset.name, dataset.num_nodes) == ("data", 3)
    assert dataset.edge_index.tolist() == [[1, 0, 2, 1], [0, 1, 1, 2]]
    assert dataset.split.train.tolist() == [0]
    assert load(pair(), directed=True).edge_index.tolist() == [[0, 1], [1, 2]]


def test_a_graph_of_pyg_survives_the_way_there_and_back():
    masks = torch.tensor([[True, False], [False, True], [False, False]])
    dataset = load(
        pair(train_mask=masks, val_mask=masks[[1, 0, 2]], test_mask=masks[[1, 2, 0]] & 0)
    )
    assert [split.train.tolist() for split in dataset.splits] == [[0], [1]]
    again = load(dataset.to_data())
    assert [split.train.tolist() for split in again.splits] == [[0], [1]]
    assert fingerprint(again) == fingerprint(dataset)


def test_a_data_set_of_pyg_with_one_graph():
    assert fingerprint(load(KarateClub())) == fingerprint(load(KarateClub()[0]))
    assert load(KarateClub()).num_nodes == 34
    assert load(Graphs([pair()])).name == "Graphs"


def test_several_graphs_of_pyg():
    for source in ([pair(), pair()], (pair(), pair()), Graphs([pair(), pair()])):
        dataset = load(source)
        assert (dataset.level, dataset.graph_ptr.tolist()) == ("node", [0, 3, 6])
        assert dataset.edge_index.tolist() == [[1, 0, 2, 1, 4, 3, 5, 4], [0, 1, 1, 2, 3, 4, 4, 5]]
        assert dataset.y.tolist() == [0, 1, 0] * 2
    assert load(Graphs([pair(), pair()])).name == "Graphs"


def test_graphs_of_pyg_with_one_label_each_survive_the_way_there_and_back():
    dataset = load("digits-graphs")
    graphs = dataset.to_data_list()
    again = load(graphs)
    assert again.level == "graph" and fingerprint(again) == fingerprint(dataset)
    assert graphs[5].y.tolist() == [5] and graphs[5].num_nodes == dataset.graph_ptr.diff()[5]
    assert load(graphs, directed=True).edge_index.equal(dataset.edge_index)


def test_a_list_of_other_things_is_refused():
    with pytest.raises(DataError, match="must hold Data of PyTorch Geometric only .got a HeteroDa"):
        load([pair(), HeteroData()])


@pytest.mark.parametrize("other", [None, torch.ones(2)], ids=["None", "tensor"])
def test_other_objects_are_refused(other):
    with pytest.raises(DataError, match=f"Data of PyTorch Geometric.*got {type(other).__name__}"):
        load(other)


def test_errors_in_a_graph_of_pyg():
    data = pair()
    data.x = None
    with pytest.raises(DataError, match="holds no tensor 'x'"):
        load(data)
