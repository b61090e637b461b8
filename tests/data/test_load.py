import pytest

from meanmax.data import CATALOG, Dataset, load
from meanmax.data.errors import DataError


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

    def read_own(path, *, progress=None):
        asked.append(path)
        return load("karate")

    monkeypatch.setattr("meanmax.data.own.read_own", read_own)
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
