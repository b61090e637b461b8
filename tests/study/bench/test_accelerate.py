from __future__ import annotations

import json
import sys
from functools import lru_cache

import pytest
import torch
from click.testing import CliRunner
from torch_geometric import nn as pyg

from meanmax.cli import main
from meanmax.nn import accelerated
from meanmax.study.bench import BenchSettings, accelerate
from meanmax.study.bench.accelerate import (
    ACCELERATED,
    CORA,
    MODELS,
    PLAIN,
    ROUTES,
    run_accelerate,
)
from meanmax.study.bench.layers import EpochData
from meanmax.study.bench.report import failures


@pytest.fixture(autouse=True)
def as_in_a_new_process(monkeypatch):
    """PyG writes a class's propagate when it first makes one of its layers, for all that follow: if
    that layer had another aggregation than a sum, none of them takes a CSR matrix.
    """
    for layer in (pyg.GCNConv, pyg.GATConv, pyg.SAGEConv, pyg.GINConv, pyg.GENConv):
        for name in ("propagate", "_jinja_propagate"):
            if name in vars(layer):
                monkeypatch.delattr(layer, name)
        written = f"{layer.__module__}_{layer.__name__}_propagate"
        monkeypatch.delitem(sys.modules, written, raising=False)


@lru_cache
def quick_result():
    return run_accelerate(BenchSettings(quick=True, repeats=1))


def test_every_model_is_measured_on_every_route():
    result = quick_result()
    assert failures(result) == []
    names = [shape["name"] for shape in result["shapes"]]
    assert names == ["cora-shaped", "pubmed-shaped", "computers-shaped"]
    for shape in result["shapes"]:
        found = [(row["model"], row["route"]) for row in shape["results"]]
        assert found == [(model, route) for model in MODELS for route in ROUTES]


def test_ratios_are_to_pyg_with_edge_index_in_the_same_run():
    for shape in quick_result()["shapes"]:
        plain = {row["model"]: row for row in shape["results"] if row["route"] == PLAIN}
        for row in shape["results"]:
            wanted = plain[row["model"]]["median_ms"] / row["median_ms"]
            assert row["ratio"] == pytest.approx(wanted)


@pytest.mark.parametrize("model", MODELS)
def test_all_routes_compute_the_same(model, monkeypatch):
    made = []
    monkeypatch.setattr(accelerate, "epoch_of", lambda model, call, _: made.append((model, call)))
    data = EpochData(CORA.shrunk(20), 0)
    for route in ROUTES:
        accelerate._epoch(model, route, data)
    outs = {}
    for route, (module, call) in zip(ROUTES, made, strict=True):
        with torch.no_grad():
            module.eval()
            outs[route] = call()
        replaced = [row.by is not None for row in accelerated(module)]
        assert replaced == [route == ACCELERATED] * len(replaced)
    for route in ROUTES:
        torch.testing.assert_close(outs[route], outs[PLAIN], rtol=1e-4, atol=1e-5)


def test_a_route_that_fails_is_named(monkeypatch):
    monkeypatch.setattr(accelerate, "SHAPES", (CORA,))
    monkeypatch.setattr(accelerate, "MODELS", {"gcn": MODELS["gcn"]})
    monkeypatch.setitem(ROUTES, "csr", lambda data: None)
    (failed,) = failures(run_accelerate(BenchSettings(quick=True, repeats=1)))
    assert failed.startswith("cora-shaped, GCN, csr: ")


def test_command_prints_ratios_and_writes_the_result(tmp_path, monkeypatch):
    monkeypatch.setattr(accelerate, "SHAPES", (CORA,))
    arguments = ["bench", "--accelerate", "--quick", "--repeats", "1", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert "cora-shaped: a training epoch of PyG's models" in done.output
    for label, _ in MODELS.values():
        assert label in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["accelerate.json"]
    stored = json.loads((tmp_path / "accelerate.json").read_text())
    assert len(stored["shapes"][0]["results"]) == len(MODELS) * len(ROUTES)
