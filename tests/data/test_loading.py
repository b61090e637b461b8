import pytest

from meanmax.data import CATALOG, Dataset, load
from meanmax.data.files import DataError


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

    def read_own(path, *, directed=False, progress=None):
        asked.append(path)
        return load("karate")

    monkeypatch.setattr("meanmax.data.readers.read.read_own", read_own)
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


def test_the_edges_of_ones_own_graph_may_keep_their_direction(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,f,label\na,1,x\nb,2,y\n")
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    assert load(tmp_path, directed=True).edge_index.tolist() == [[0], [1]]
    assert load(tmp_path).edge_index.size(1) == 2


@pytest.mark.parametrize("name", ["karate", "cora", "sbm:nodes=100,edges=300"])
def test_sets_of_the_catalogue_have_no_direction(name):
    with pytest.raises(DataError, match="'directed' is for graphs of your own"):
        load(name, directed=True)
