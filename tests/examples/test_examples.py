"""The examples run as their own text says, here with small sizes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
# Figures and measurements of their own.
STUDIES = {"path.py", "reach.py", "recipes.py", "recover.py"}
# What starts it, its arguments, what it prints, and the least accuracy in %.
RUNS = {
    "accelerate_gcn.py": ((), "--nodes 300 --degree 5 --epochs 2", r"[\d.]+ × faster", None),
    "deep_gen.py": ((), "--layers 4 --epochs 30", r"gamma by layer: [\d.]+, [\d.]+, [\d.]+", 70),
    "sage_batches.py": ((), "--epochs 5", r"learned: {'layers.0.gamma': .*}", 80),
    "own_layer.py": ((), "--epochs 40", r"SoftmaxAggregation\(gamma=", 70),
    "readout.py": ((), "--graphs 600 --epochs 8", r"Readout\(", 60),
    "distributed.py": (TORCHRUN, "--folder parts --epochs 30", r"rank 1 of 2: \d+ nodes", 80),
}


def test_every_example_has_a_test():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*RUNS, *STUDIES}


@pytest.mark.parametrize("name", RUNS)
def test_example(name, tmp_path):
    launcher, arguments, printed, least = RUNS[name]
    command = [sys.executable, *launcher, str(EXAMPLES / name), *arguments.split()]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert re.search(printed, done.stdout), done.stdout
    if least is not None:
        (accuracy,) = re.findall(r"test accuracy ([\d.]+) %", done.stdout)
        assert float(accuracy) >= least


@pytest.mark.parametrize("name", RUNS)
def test_the_command_of_the_docstring_is_right(name):
    text = (EXAMPLES / name).read_text()
    (line,) = re.findall(r"^ *((?:python|torchrun) .*)$", text, re.M)
    words = line.split()
    assert f"examples/{name}" in words
    for option in words[words.index(f"examples/{name}") + 1 :: 2]:
        assert f'add_argument("{option}"' in text
