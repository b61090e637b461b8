"""Large graphs: generated in pieces, computed within a limit."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from meanmax.cli import main
from meanmax.study.bench.graphs import generate_folder
from meanmax.study.bench.large import measure_inference, measure_training


def test_rows_of_results(tmp_path):
    generate_folder(tmp_path / "g", 2000, 10_000, channels=6)
    request = {"folder": str(tmp_path / "g"), "hidden": 8, "limit": 0}
    request["threads"] = torch.get_num_threads()
    rows = [measure_inference(**request, aggr=aggr) for aggr in ("lp", "max")]
    assert [row["aggr"] for row in rows] == ["lp", "max"]
    assert all(np.isfinite(row["output_sum"]) and row["seconds"] > 0 for row in rows)
    assert [path.name for path in tmp_path.iterdir()] == ["g"]


def test_training_steps(tmp_path):
    generate_folder(tmp_path / "g", 2000, 10_000, channels=6)
    row = measure_training(
        folder=str(tmp_path / "g"), aggr="lp", hidden=8, steps=2, threads=torch.get_num_threads()
    )
    assert len(row["step_seconds"]) == row["steps"] == 2
    assert (row["aggr"], row["nodes"], row["channels"]) == ("lp", 2000, 8)


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
