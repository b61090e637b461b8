"""Large graphs: generated in pieces, computed within a limit."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from meanmax.cli import main
from meanmax.study.bench import large_graph
from meanmax.study.bench.graphs import GraphError
from meanmax.study.bench.large import LargeSettings, respond
from meanmax.study.bench.large_graph import generate_folder
from meanmax.study.bench.memory import PrivatePeak, private_bytes


@pytest.mark.parametrize("directed", [False, True])
def test_a_graph_in_many_buckets(tmp_path, monkeypatch, directed):
    monkeypatch.setattr(large_graph, "CHUNK", 1 << 11)
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


def test_the_seed_decides(tmp_path):
    names = [generate_folder(tmp_path / str(n), 500, 2000, seed=n % 2) for n in range(3)]
    prints = [folder.manifest.fingerprint for folder in names]
    assert prints[0] == prints[2] != prints[1]


@pytest.mark.parametrize("sizes", [(1, 0), (10, -1), (10, 50)])
def test_impossible_sizes(tmp_path, sizes):
    with pytest.raises(GraphError, match="has between 0 and"):
        generate_folder(tmp_path / "g", *sizes)
    assert list(tmp_path.iterdir()) == []


def test_no_edges_at_all(tmp_path):
    folder = generate_folder(tmp_path / "g", 40, 0, channels=3)
    assert folder.manifest.num_edges == 0 and folder.edges.rowptr.tolist() == [0] * 41


def test_rows_of_results(tmp_path):
    generate_folder(tmp_path / "g", 2000, 10_000, channels=6)
    request = {"folder": str(tmp_path / "g"), "aggregators": ["lp", "max"], "hidden": 8, "limit": 0}
    rows = respond(vars(LargeSettings(**request)) | {"threads": torch.get_num_threads()})
    assert [row["aggr"] for row in rows] == ["lp", "max"]
    assert all(np.isfinite(row["output_sum"]) and row["seconds"] > 0 for row in rows)
    assert [path.name for path in tmp_path.iterdir()] == ["g"]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_private_memory_is_seen():
    before = private_bytes()
    with PrivatePeak(0.001) as watch:
        held = np.ones(1 << 23)
        while watch.peak < before + held.nbytes // 2:
            pass
    assert watch.peak >= before + held.nbytes // 2


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="limits of Linux")
def test_the_command_keeps_to_its_limit(tmp_path):
    sizes = ["bench-large", "--nodes", "3000", "--edges", "20000", "--dir", str(tmp_path)]
    result = CliRunner().invoke(main, [*sizes, "--aggr", "softmax", "--channels", "8"])
    assert result.exit_code == 0, result.output
    row = json.loads(result.stdout)
    assert row["limit_bytes"] == 4 << 30 and 0 < row["private_peak_bytes"] < 4 << 30
    result = CliRunner().invoke(main, [*sizes, "--aggr", "lp", "--limit", "0.01"])
    assert result.exit_code == 1 and "ended with" in result.stderr
    assert list(tmp_path.iterdir()) == []
