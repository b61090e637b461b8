"""Parts on disk: each holds its own rows, and damage is noticed."""

import json
import shutil

import numpy as np
import pytest
import torch

from meanmax.data import load, make_split
from meanmax.scale import Cut, PartsError, assign_metis, edge_cut, read_manifest, write_parts
from meanmax.scale.parts_folder import read_part
from tests.scale.distributed.graphs import power_law

DATA = load("digits")
PARTS = 3


@pytest.fixture
def folder(tmp_path):
    part = assign_metis(DATA.graph(), PARTS)
    write_parts(
        tmp_path / "parts", DATA, make_split(DATA, seed=0), part, PARTS, origin={}, method="metis"
    )
    return tmp_path / "parts"


def test_the_parts_together_are_the_whole(folder):
    manifest = read_manifest(folder)
    parts = [read_part(folder, rank, manifest) for rank in range(PARTS)]
    nodes = np.concatenate([part.piece.nodes for part in parts])
    assert sorted(nodes.tolist()) == list(range(DATA.num_nodes))
    assert torch.equal(torch.cat([part.x for part in parts]), DATA.x[nodes])
    assert torch.equal(torch.cat([part.y for part in parts]), DATA.y[nodes])
    split = make_split(DATA, seed=0)
    for name in ("train", "val", "test"):
        found = np.concatenate([part.piece.nodes[part.split[name]] for part in parts])
        assert sorted(found.tolist()) == getattr(split, name).tolist()
    graph = DATA.graph()
    assert manifest.cut_edges == edge_cut(graph, assign_metis(graph, PARTS))


def test_every_edge_is_with_its_target_and_leads_from_where_it_did():
    graph = power_law()
    part = torch.arange(graph.num_nodes) % PARTS
    cut, found = Cut(graph, part, PARTS), []
    for rank in range(PARTS):
        piece = cut.piece(rank)
        sources = np.concatenate([piece.nodes, piece.halo])[piece.col]
        targets = np.repeat(piece.nodes, np.diff(piece.rowptr))
        found += list(zip(sources.tolist(), targets.tolist(), strict=True))
        assert (part.numpy()[piece.halo] != rank).all()
        assert len(np.unique(piece.halo)) == len(piece.halo)
        assert set(piece.halo.tolist()) <= set(sources.tolist())
    assert sorted(found) == sorted(zip(*graph.edge_index.tolist(), strict=True))


def test_what_is_sent_is_what_is_awaited():
    graph = power_law()
    cut = Cut(graph, torch.arange(graph.num_nodes) % PARTS, PARTS)
    pieces = [cut.piece(rank) for rank in range(PARTS)]
    for here, piece in enumerate(pieces):
        starts = np.cumsum([0, *piece.receive_counts])
        for there, other in enumerate(pieces):
            first = sum(other.send_counts[:here])
            sent = other.nodes[other.send[first : first + other.send_counts[here]]]
            assert np.array_equal(sent, piece.halo[starts[there] : starts[there + 1]])


@pytest.mark.parametrize("name", ["col", "x", "send_counts"])
def test_damaged_and_missing_files_are_named(folder, name):
    path = folder / "part-00001" / f"{name}.npy"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(PartsError, match=rf"{name}\.npy is damaged: delete the folder"):
        read_part(folder, 1, read_manifest(folder))
    path.unlink()
    with pytest.raises(PartsError, match=rf"{name}\.npy is missing: delete the folder"):
        read_part(folder, 1, read_manifest(folder))


@pytest.mark.parametrize(("name", "change"), [("send", 5000), ("col", -1), ("train", 99999)])
def test_numbers_out_of_range_are_noticed(folder, name, change):
    path = folder / "part-00001" / f"{name}.npy"
    values = np.load(path)
    values[0] = change
    np.save(path, values)
    with pytest.raises(PartsError, match="part-00001 is damaged"):
        read_part(folder, 1, read_manifest(folder))


def test_parts_of_two_cuts_are_not_mixed(folder, tmp_path):
    part = torch.arange(DATA.num_nodes) % PARTS
    other = tmp_path / "other"
    write_parts(other, DATA, make_split(DATA, seed=7), part, PARTS, origin={}, method="blocks")
    shutil.rmtree(folder / "part-00001")
    shutil.copytree(other / "part-00001", folder / "part-00001")
    with pytest.raises(PartsError, match="not of the same cut"):
        read_part(folder, 1, read_manifest(folder))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 3}'])
def test_a_damaged_manifest_is_named(folder, text):
    (folder / "manifest.json").write_text(text)
    with pytest.raises(PartsError, match=r"manifest\.json is damaged"):
        read_manifest(folder)


def test_another_version_is_refused(folder):
    found = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**found, "format": "meanmax.parts/9"}))
    with pytest.raises(PartsError, match="another version"):
        read_manifest(folder)


def test_nothing_is_left_of_parts_that_could_not_be_written(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    part = assign_metis(DATA.graph(), PARTS)
    with pytest.raises(OSError, match="No space left"):
        split = make_split(DATA, seed=0)
        write_parts(tmp_path / "parts", DATA, split, part, PARTS, origin={}, method="metis")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("part", "message"),
    [(torch.zeros(3), "rank of each of 1797 nodes"), (torch.full((1797,), 3), "ranks from 0 to 2")],
)
def test_a_wrong_assignment_is_refused(part, message):
    with pytest.raises(ValueError, match=message):
        Cut(DATA.graph(), part.long(), PARTS)
