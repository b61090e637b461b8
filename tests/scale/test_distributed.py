"""Partitions on disk: each rank reads its own rows, and damage is noticed."""

import json

import numpy as np
import pytest
import torch

from meanmax.data import load, make_split
from meanmax.scale import (
    FolderError,
    Partition,
    assign_blocks,
    edge_cut,
    group_nodes,
    is_partition,
    open_folder,
    rank_sizes,
    write_folder,
    write_partition,
)
from tests.scale import work
from tests.scale.launch import on_ranks
from tests.scale.power_law import power_law

DATA = load("digits")
PARTS = 2


@pytest.fixture
def folder(tmp_path):
    part = assign_blocks(DATA.graph(), PARTS)
    split = make_split(DATA, seed=0)
    write_partition(tmp_path / "parts", DATA, split, part, PARTS, origin={}, method="blocks")
    return tmp_path / "parts"


def test_the_parts_together_are_the_whole(folder):
    graph, split = DATA.graph(), make_split(DATA, seed=0)
    part = assign_blocks(graph, PARTS)
    groups = group_nodes(part, graph.num_nodes, PARTS)
    parts = on_ranks(work.read_part, PARTS, folder)
    nodes = torch.from_numpy(groups.order)
    assert torch.equal(torch.cat([part[0] for part in parts]), DATA.x[nodes])
    assert torch.equal(torch.cat([part[1] for part in parts]), DATA.y[nodes])
    for name in ("train", "val", "test"):
        firsts = groups.pointer[:-1]
        own = [part[2][name] + int(first) for part, first in zip(parts, firsts, strict=True)]
        assert sorted(nodes[torch.cat(own)].tolist()) == getattr(split, name).tolist()
    facts = Partition.of(open_folder(folder))
    assert facts.cut_edges == edge_cut(graph, part) and facts.parts == PARTS
    assert facts.counts == {
        "train": len(split.train),
        "val": len(split.val),
        "test": len(split.test),
    }
    sizes = rank_sizes(open_folder(folder))
    assert [size["edges"] for size in sizes] == [len(part[4]) for part in parts]
    assert [size["sent"] for size in sizes] == [len(part[5]) for part in parts]
    assert is_partition(folder) and not is_partition(folder.parent)


def test_every_edge_is_with_its_target_and_leads_from_where_it_did():
    graph = power_law()
    part = torch.arange(graph.num_nodes) % 3
    found = []
    for rank, (own, sources, edges) in enumerate(on_ranks(work.exchanged, 3, graph, part)):
        assert torch.equal(sources[: len(own)], own)
        halo = sources[len(own) :]
        assert bool((part[halo] != rank).all()) and len(halo.unique()) == len(halo)
        assert set(halo.tolist()) <= set(sources[edges[0]].tolist())
        found += list(zip(sources[edges[0]].tolist(), own[edges[1]].tolist(), strict=True))
    assert sorted(found) == sorted(zip(*graph.edge_index.tolist(), strict=True))


def test_damage_and_wrong_numbers_are_said(folder):
    path = folder / "col.npy"
    values = np.load(path)
    values[:] = DATA.num_nodes
    np.save(path, values)
    for said in on_ranks(work.said_of, PARTS, folder):
        assert "lead from nodes that do not exist" in said
    path.write_bytes(path.read_bytes()[:100])
    for said in on_ranks(work.said_of, PARTS, folder):
        assert "col.npy is truncated or damaged" in said


def test_a_folder_without_parts_for_processes(tmp_path):
    write_folder(tmp_path / "g", DATA, part=torch.arange(DATA.num_nodes) % 2)
    assert not is_partition(tmp_path / "g")
    with pytest.raises(FolderError, match="run `meanmax partition`"):
        Partition.of(open_folder(tmp_path / "g"))


def test_partitions_of_an_earlier_version_are_refused(tmp_path):
    (tmp_path / "part-00000").mkdir()
    (tmp_path / "manifest.json").write_text(json.dumps({"format": "meanmax.parts/1", "parts": 2}))
    assert is_partition(tmp_path)
    with pytest.raises(FolderError, match="earlier version.*run `meanmax partition` again"):
        open_folder(tmp_path)


def test_nothing_is_left_of_parts_that_could_not_be_written(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    part = assign_blocks(DATA.graph(), PARTS)
    with pytest.raises(OSError, match="No space left"):
        split = make_split(DATA, seed=0)
        write_partition(tmp_path / "parts", DATA, split, part, PARTS, origin={}, method="blocks")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("part", "message"),
    [(torch.zeros(3), "part of each of 1797 nodes"), (torch.full((1797,), 3), "parts from 0 to 2")],
)
def test_a_wrong_assignment_is_refused(part, message):
    with pytest.raises(ValueError, match=message):
        group_nodes(part.long(), DATA.num_nodes, 3)
