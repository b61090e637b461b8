from __future__ import annotations

import json
from functools import lru_cache
from statistics import median

import pytest
from click.testing import CliRunner

from meanmax.cli import main
from meanmax.study.bench import BenchSettings
from meanmax.study.bench.layers import (
    CITESEER,
    GEN_POWER,
    GEN_SOFTMAX,
    PUBMED,
    PYG_GAT,
    SPARSE,
    TRAINEES,
    EpochData,
    run_layers,
)
from meanmax.study.bench.report import failures


@lru_cache
def quick_result():
    return run_layers(BenchSettings(quick=True, repeats=1, measure_memory=True))


def test_everything_is_measured():
    result = quick_result()
    assert failures(result) == []
    names = [shape["name"] for shape in result["shapes"]]
    assert names == ["pubmed-shaped", "computers-shaped", "ppi-shaped", "citeseer-shaped"]
    for shape in result["shapes"]:
        expected = SPARSE if shape["name"].startswith("citeseer") else TRAINEES
        assert [row["trainee"] for row in shape["results"]] == list(expected)
    assert {row["layer"] for row in result["memory"]} == {"gat 4×256", "gcn 64"}


def test_ratios_are_those_of_the_medians():
    rows = {row["trainee"]: row for row in quick_result()["shapes"][0]["results"]}
    for row in rows.values():
        assert row["median_ms"] == pytest.approx(median(row["times_ms"]))
    lp = rows["gcn-lp-all"]
    own = rows["gcn-none"]["median_ms"]
    assert lp["ratio_to_own"] == pytest.approx(lp["median_ms"] / own)
    for key, name in (("softmax", GEN_SOFTMAX), ("powermean", GEN_POWER)):
        want = rows[name]["median_ms"] / lp["median_ms"]
        assert lp[f"faster_than_gen_{key}"] == pytest.approx(want)
    want = rows[PYG_GAT]["median_ms"] / rows["gat-lp-all"]["median_ms"]
    assert rows["gat-lp-all"]["faster_than_pyg_gat"] == pytest.approx(want)


def test_shapes_are_what_they_say():
    data = EpochData(PUBMED, 0)
    assert data.graph.num_nodes == 19_717
    assert data.graph.num_edges == 88_648
    assert not bool((data.edge_index[0] == data.edge_index[1]).any())
    filled = float((EpochData(CITESEER, 0).x != 0).float().mean())
    assert filled == pytest.approx(0.009, rel=0.05)


def test_command_prints_tables_and_writes_the_result(tmp_path):
    arguments = ["bench", "--layers", "--quick", "--repeats", "1", "--no-memory"]
    done = CliRunner().invoke(main, [*arguments, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "pubmed-shaped: a training epoch" in done.output
    assert "PyG GENConv softmax" in done.output
    stored = json.loads((tmp_path / "layers.json").read_text())
    assert len(stored["shapes"]) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["layers.json"]
