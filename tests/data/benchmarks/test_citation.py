from functools import lru_cache
from importlib.resources import files

import numpy as np
import pytest
import torch
from torch_geometric.io import read_planetoid_data

from meanmax.data import load, statistics
from meanmax.data.benchmarks import citation
from meanmax.data.benchmarks.citation import CLASSES, read_citation, read_cora_text, unpickle
from meanmax.data.dataset import fingerprint
from meanmax.data.files import DataError

from ..mutate import only_clear_errors
from ..real import FOLDER, needs, needs_planetoid, planetoid_contents

COUNTS = {  # nodes, edges without duplicates and self-loops, features, classes, labelled
    "cora": (2708, 5278, 1433, 7, 2708),
    "citeseer": (3327, 4552, 3703, 6, 3312),
    "pubmed": (19717, 44324, 500, 3, 19717),
}


@needs_planetoid
@pytest.mark.parametrize("name", COUNTS)
def test_counts(name):
    found = statistics(load(name, data_dir=FOLDER, download=False))
    assert (found.nodes, found.edges, found.features, found.classes, found.labelled) == COUNTS[name]
    assert (found.self_loops, found.directed, found.graphs) == (0, False, 1)


@needs_planetoid
@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_same_graph_as_pyg_reads(name):
    ours = load(name, data_dir=FOLDER, download=False)
    theirs = read_planetoid_data(str(FOLDER / "planetoid"), name)
    by_target = np.lexsort(theirs.edge_index.numpy())
    assert torch.equal(ours.edge_index, theirs.edge_index[:, by_target])
    words = theirs.x / theirs.x.sum(dim=1, keepdim=True).clamp(min=1e-9)
    torch.testing.assert_close(ours.x.to_dense(), words, rtol=1e-6, atol=1e-7)
    assert torch.equal(ours.y[ours.labelled], theirs.y[ours.labelled])
    for part in ("train", "val", "test"):
        mask = theirs[f"{part}_mask"] & ours.labelled
        assert torch.equal(getattr(ours.split, part), mask.nonzero().view(-1))


@needs_planetoid
def test_each_file_is_parsed_once(monkeypatch):
    parsed = []

    def counting(content, what):
        parsed.append(what)
        return unpickle(content, what)

    monkeypatch.setattr(citation, "unpickle", counting)
    load("pubmed", data_dir=FOLDER, download=False)
    parts = ("allx", "ally", "graph", "tx", "ty", "y")  # the rows of x are the first of allx
    assert sorted(parsed) == [f"ind.pubmed.{part}" for part in parts]


@needs_planetoid
def test_cora_as_text_in_any_order_is_the_same_graph():
    planetoid = read_citation("cora", planetoid_contents("cora"))
    text = read_citation(
        "cora", dict(zip(("cora.content", "cora.cites"), cora_text(), strict=True))
    )
    assert fingerprint(text) == fingerprint(planetoid)
    assert torch.equal(text.split.test, planetoid.split.test)


@needs("cora.content", "cora.cites", "ind.cora.graph")
def test_cora_as_released_is_the_same_graph():
    content, cites = (
        next(FOLDER.rglob(name)).read_bytes() for name in ("cora.content", "cora.cites")
    )
    text = read_citation("cora", {"cora.content": content, "cora.cites": cites})
    assert fingerprint(text) == fingerprint(read_citation("cora", planetoid_contents("cora")))


@needs_planetoid
@pytest.mark.parametrize(
    ("old", "new", "file"),
    [
        (b"Theory", b"Theology", "cora.content"),
        (b"\t0\t1\t", b"\t0\t2\t", "cora.content"),
        (b"\t0\t1\t", b"\t01\t", "cora.content"),
        (b"31336\t", b"31337\t", "cora.content"),
        (b"31336\t", b"31336\t31336\t", "cora.cites"),
        (b"31336\t", b"31337\t", "cora.cites"),
    ],
)
def test_text_that_is_not_cora_is_refused(old, new, file):
    content, cites = cora_text()
    texts = {"cora.content": content, "cora.cites": cites}
    assert old in texts[file]
    texts[file] = texts[file].replace(old, new, 1)
    with pytest.raises(DataError, match=file):
        read_cora_text(*texts.values())


@needs_planetoid
def test_damaged_text():
    content, cites = cora_text()
    assert only_clear_errors(lambda data: read_cora_text(content, data), cites, 10) > 0
    assert only_clear_errors(lambda data: read_cora_text(data, cites), content, 10) > 5


@lru_cache(maxsize=1)
def cora_text():
    """Writes the graph as cora.content and cora.cites, papers sorted by number."""
    dataset = read_citation("cora", planetoid_contents("cora"))
    papers = files("meanmax.data.benchmarks").joinpath("cora_order.txt").read_text().split()
    words = (dataset.x.to_dense() > 0).to(torch.int8).tolist()
    rows = {
        int(paper): "\t".join([paper, *map(str, row), CLASSES[label]])
        for paper, row, label in zip(papers, words, dataset.y.tolist(), strict=True)
    }
    content = "\n".join(rows[paper] for paper in sorted(rows)) + "\n"
    pairs = dataset.edge_index.t().tolist()
    cites = "".join(f"{papers[u]}\t{papers[v]}\n" for u, v in reversed(pairs))
    return content.encode(), cites.encode()
