"""Collections of graphs by their names."""

import pytest

from meanmax.data import CATALOG, DataError, fingerprint, load, make_split, statistics
from meanmax.data.fetch.sources import fetch

from .readers.graphs import tu_folder
from .real import FOLDER, needs

# Graphs, nodes, stored edges and columns of node labels in the public release; IMDB-BINARY has
# degrees.
PUBLISHED = {
    "mutag": (188, 3371, 7442, 7, 2),
    "proteins": (1113, 43471, 162088, 3, 2),
    "enzymes": (600, 19580, 74564, 3, 6),
    "nci1": (4110, 122747, 265506, 37, 2),
    "imdb-binary": (1000, 19773, 193062, 64, 2),
}


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    monkeypatch.delenv("MEANMAX_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs(f"{name.upper()}.zip")) for name in PUBLISHED]
)
def test_counts_are_those_of_the_release(name):
    dataset = load(name, data_dir=FOLDER)
    got = (dataset.num_graphs, dataset.num_nodes, dataset.edge_index.size(1))
    assert (*got, dataset.num_features, dataset.num_classes) == PUBLISHED[name]
    found = statistics(dataset)
    assert (found.directed, found.self_loops, found.labelled) == (False, 0, dataset.num_graphs)
    assert dataset.name == name and dataset.level == "graph"
    assert make_split(dataset).name == "folds, seed 0"


@needs("MUTAG.zip")
def test_two_thirds_of_mutag_are_mutagenic():
    assert load("mutag", data_dir=FOLDER).y.bincount().tolist() == [63, 125]


@pytest.mark.parametrize("place", ["MUTAG", "tu/MUTAG", "MUTAG/raw", "tu/MUTAG/raw"])
def test_where_a_collection_is_found(place, nowhere, monkeypatch):
    folder = tu_folder(nowhere / "data" / place)
    for file in list(folder.iterdir()):
        file.rename(file.with_name(file.name.replace("DS", "MUTAG")))
    dataset = load("mutag", data_dir=nowhere / "data")
    assert (dataset.name, dataset.num_graphs) == ("mutag", 3)
    path = nowhere / "data" / place.removesuffix("/raw")
    assert CATALOG["mutag"].located(nowhere / "data") == path
    assert fetch("mutag", data_dir=nowhere / "data") == [path]
    assert dataset.notes[0] == f"read from {path}"
    assert not any("own graph" in note for note in dataset.notes)
    monkeypatch.setenv("MEANMAX_DATA", str(nowhere / "data"))
    assert load("mutag").num_graphs == 3


def test_a_collection_takes_its_own_encoding(nowhere):
    folder = tu_folder(nowhere / "data" / "MUTAG")
    for file in list(folder.iterdir()):
        file.rename(file.with_name(file.name.replace("DS", "MUTAG")))
    dataset = load("mutag", data_dir=nowhere / "data")
    again = load("mutag", data_dir=nowhere / "data", **dataset.encoding)
    assert dataset.encoding and fingerprint(again) == fingerprint(dataset)


@pytest.mark.parametrize("function", [load, fetch])
def test_a_collection_that_is_missing_says_where_to_get_it(function, nowhere):
    with pytest.raises(DataError) as caught:
        function("imdb-binary", data_dir=nowhere)
    said = str(caught.value)
    assert str(nowhere / "tu" / "IMDB-BINARY.zip") in said
    assert str(nowhere / "cache" / "meanmax" / "data" / "IMDB-BINARY") in said
    assert "https://www.chrsmrrs.com/graphkerneldatasets/IMDB-BINARY.zip" in said
    assert "TUDataset(FOLDER, 'IMDB-BINARY')" in said


def test_options_for_graphs_of_ones_own_are_refused(nowhere):
    with pytest.raises(DataError, match="'directed' is for graphs of your own"):
        load("mutag", directed=True)
