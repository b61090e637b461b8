"""Graph folders."""

import json

import numpy as np
import pytest
import torch

from meanmax import SparseFeatures, build_model
from meanmax.data import Dataset, Split
from meanmax.nn.linear import as_dense
from meanmax.scale import FolderError, is_graph_folder, layerwise, open_folder, write_folder
from meanmax.scale.folder import new_folder
from tests.scale.graphs import awkward, features


def dataset(*, sparse=False, weighted=False, ids=False):
    graph, x = awkward(weighted=weighted), features().relu()
    order = (60 * graph.edge_index[1] + graph.edge_index[0]).argsort(stable=True)
    weight = None if graph.weight is None else graph.edge_weight[order]
    nodes = torch.arange(60)
    return Dataset(
        "made",
        SparseFeatures.from_dense(x) if sparse else x,
        nodes % 4,
        graph.edge_index[:, order],
        weight,
        ("a", "b", "c", "d"),
        np.array([f"n{n}" for n in range(60)]) if ids else None,
        split=Split(nodes[::3], nodes[1::3], nodes[2::3], "made"),
    )


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_what_is_written_is_read(tmp_path, sparse, weighted):
    data = dataset(sparse=sparse, weighted=weighted, ids=True)
    folder = write_folder(tmp_path / "g", data)
    folder.verify()
    back = folder.dataset()
    assert torch.equal(as_dense(back.x), as_dense(data.x))
    assert isinstance(back.x, SparseFeatures) == sparse
    assert torch.equal(back.edge_index, data.edge_index) and torch.equal(back.y, data.y)
    assert (back.edge_weight is None) == (not weighted)
    if weighted:
        assert torch.equal(back.edge_weight, data.edge_weight)
    assert back.node_ids.tolist() == data.node_ids.tolist()
    assert torch.equal(back.split.val, data.split.val) and back.class_names == data.class_names
    assert is_graph_folder(tmp_path / "g") and not is_graph_folder(tmp_path)


@pytest.mark.parametrize("sparse", [False, True])
def test_nodes_are_grouped_by_parts(tmp_path, sparse):
    data = dataset(sparse=sparse, weighted=True, ids=True)
    part = torch.randint(5, (60,), generator=torch.Generator().manual_seed(0))
    folder = write_folder(tmp_path / "g", data, part=part)
    back, node = folder.dataset(), torch.from_numpy(np.array(folder.node))
    assert bool((part[node].diff() >= 0).all())
    assert np.diff(folder.part_ptr).tolist() == torch.bincount(part).tolist()
    assert torch.equal(as_dense(back.x), as_dense(data.x)[node])
    assert torch.equal(back.y, data.y[node])
    assert back.node_ids.tolist() == data.node_ids[node].tolist()
    assert torch.equal(node[back.split.test].sort().values, data.split.test)

    def listed(edges, weight):
        return sorted(zip(*edges.tolist(), weight.tolist(), strict=True))

    moved = node[back.edge_index]
    assert listed(moved, back.edge_weight) == listed(data.edge_index, data.edge_weight)
    again = write_folder(tmp_path / "h", folder, part=torch.arange(60) % 2)
    twice = torch.from_numpy(np.array(again.node))
    assert torch.equal(as_dense(again.dataset().x), as_dense(data.x)[twice])


@pytest.mark.parametrize("sparse", [False, True])
def test_inference_over_the_folder(tmp_path, sparse):
    data = dataset(sparse=sparse)
    folder = write_folder(tmp_path / "g", data)
    torch.manual_seed(0)
    model = build_model("gcn", "lp", 12, 16, 4, nonlinear="all").eval()
    with torch.no_grad():
        whole = model(data.x, data.graph())
    found = layerwise(model, folder.x, folder.edges, memory=20_000, scratch=tmp_path)
    torch.testing.assert_close(found, whole, rtol=1e-5, atol=1e-5)


def test_nothing_half_written_stays(tmp_path):
    with pytest.raises(RuntimeError), new_folder(tmp_path / "g") as writer:
        writer.save("y", np.zeros(3))
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten_unasked(tmp_path):
    write_folder(tmp_path / "g", dataset())
    with pytest.raises(FolderError, match="is there already"):
        write_folder(tmp_path / "g", dataset())
    write_folder(tmp_path / "g", dataset(weighted=True), overwrite=True)
    assert open_folder(tmp_path / "g").edges.weight is not None
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("important")
    with pytest.raises(FolderError, match="no graph folder"):
        write_folder(tmp_path / "mine", dataset(), overwrite=True)
    assert (tmp_path / "mine" / "thesis.txt").exists()


@pytest.mark.parametrize("name", ["rowptr", "col", "x", "y", "train"])
def test_files_that_are_missing_or_cut_short(tmp_path, name):
    write_folder(tmp_path / "g", dataset())
    path = tmp_path / "g" / f"{name}.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-8])
    with pytest.raises(FolderError, match=f"{name}.npy is truncated or damaged"):
        open_folder(tmp_path / "g")
    path.write_bytes(b"PK" + content[2:])
    with pytest.raises(FolderError, match=f"{name}.npy"):
        open_folder(tmp_path / "g")
    path.unlink()
    with pytest.raises(FolderError, match=f"{name}.npy is missing: write the folder again"):
        open_folder(tmp_path / "g")


@pytest.mark.parametrize("shape", [b"((((((", b"(" + b"9" * 30 + b",)", b"(-1,)"])
def test_headers_that_numpy_stumbles_over(tmp_path, shape):
    write_folder(tmp_path / "g", dataset())
    path = tmp_path / "g" / "col.npy"
    content = path.read_bytes()
    start, end = content.index(b"(", 10), content.index(b")") + 1
    header = (content[10:start] + shape + content[end:128]).strip()
    path.write_bytes(content[:10] + header.ljust(117) + b"\n" + content[128:])
    with pytest.raises(FolderError, match="col.npy is truncated or damaged"):
        open_folder(tmp_path / "g")


def test_another_array_in_its_place(tmp_path):
    write_folder(tmp_path / "g", dataset())
    np.save(tmp_path / "g" / "col.npy", np.zeros(3, np.int32))
    with pytest.raises(FolderError, match="the manifest says"):
        open_folder(tmp_path / "g")


@pytest.mark.parametrize(("name", "number"), [("col", 60), ("col", -1), ("x_col", 12)])
def test_numbers_of_no_node_or_feature(tmp_path, name, number):
    write_folder(tmp_path / "g", dataset(sparse=True))
    path = tmp_path / "g" / f"{name}.npy"
    array = np.load(path)
    array[-1] = number
    np.save(path, array)
    folder = open_folder(tmp_path / "g")
    message = "edges of col.npy lead from nodes" if name == "col" else "sparse features are damaged"
    with pytest.raises(FolderError, match=message):
        folder.dataset()
    if name == "col":
        model = build_model("sage", "lp", 12, 16, 4).eval()
        with pytest.raises(FolderError, match=message):
            layerwise(model, folder.x, folder.edges, scratch=tmp_path)


def test_a_header_may_not_claim_any_length(tmp_path):
    write_folder(tmp_path / "g", dataset())
    path = tmp_path / "g" / "col.npy"
    path.write_bytes(b"\x93NUMPY\2\0" + b"\xff" * 3 + b"\x7f" + path.read_bytes()[12:])
    with pytest.raises(FolderError, match=r"col.npy is truncated .*its header is too long"):
        open_folder(tmp_path / "g")


def test_pickles_are_not_opened(tmp_path):
    write_folder(tmp_path / "g", dataset())
    np.save(tmp_path / "g" / "y.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(FolderError, match="y.npy"):
        open_folder(tmp_path / "g")


def test_a_flipped_bit_is_found_when_asked_for(tmp_path):
    write_folder(tmp_path / "g", dataset())
    path = tmp_path / "g" / "x.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(FolderError, match="checksum differs"):
        open_folder(tmp_path / "g", verify=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: facts.update(format="other"),
        lambda facts: facts.pop("num_nodes"),
        lambda facts: facts.update(num_nodes=59),
        lambda facts: facts.update(num_edges=3),
        lambda facts: facts.update(num_features=3),
        lambda facts: facts["arrays"].pop("rowptr"),
        lambda facts: facts["arrays"].pop("x"),
        lambda facts: facts["arrays"].update(y=3),
        lambda facts: facts.update(surprise=1),
    ],
)
def test_damaged_manifests(tmp_path, change):
    write_folder(tmp_path / "g", dataset())
    path = tmp_path / "g" / "manifest.json"
    facts = json.loads(path.read_text())
    change(facts)
    path.write_text(json.dumps(facts))
    with pytest.raises(FolderError):
        open_folder(tmp_path / "g")


def test_a_declared_size_is_compared_before_anything_is_read(tmp_path, monkeypatch):
    """A sparse file of 800 GB costs nothing to make."""
    write_folder(tmp_path / "g", dataset())
    path, manifest = tmp_path / "g" / "rowptr.npy", tmp_path / "g" / "manifest.json"
    facts = json.loads(manifest.read_text())
    facts["arrays"]["rowptr"]["shape"] = [100_000_000_000]
    facts["num_nodes"] = 99_999_999_999
    manifest.write_text(json.dumps(facts))
    content = path.read_bytes()
    header = content[:128].replace(b"(61,), ", b"(100000000000,), ")
    path.write_bytes(header[: 118 + 9] + b"\n" + content[128:])
    with path.open("rb+") as file:
        file.truncate(128 + 800_000_000_000)
    monkeypatch.setattr("meanmax.scale.folder._rises", lambda pointer: pytest.fail("it was read"))
    with pytest.raises(FolderError, match="the last entry of rowptr is 0, but should be"):
        open_folder(tmp_path / "g")


def test_no_folder_and_no_json(tmp_path):
    with pytest.raises(FolderError, match="is no graph folder: it holds no manifest.json"):
        open_folder(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(FolderError, match="cannot be read"):
        open_folder(tmp_path)
